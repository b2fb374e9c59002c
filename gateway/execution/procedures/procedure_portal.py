"""CALL and DO: in one piece under the function guard, or in steps if the code ends transactions.

PostgreSQL ends transactions only in code that CALL or DO at the top level executes, outside of a transaction block, and
so it does here. What a step has done is committed with the step's transaction, whatever becomes of later ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.execution.changes.row_changes import commit_with
from gateway.execution.functions.do_call import GuardedPortal
from gateway.execution.procedures import called_code
from gateway.execution.procedures.frame import Frame
from gateway.execution.procedures.step_execution import Steps, called_procedure
from gateway.execution.shadow.function_guard import relay_rows
from gateway.transaction.enlistment import SchemaChangedError
from gateway.wire.messages import frontend
from planner.plpgsql.nodes import Calling
from planner.plpgsql.step import Scope, literal, text_of

if TYPE_CHECKING:
    from planner.plpgsql.nodes import Body
    from planner.plpgsql.step import Value

_ENDS: Final = frozenset({"commit", "rollback"})


class ProcedurePortal(GuardedPortal):
    """CALL or DO."""

    _may_end = False
    _outputs: list[str] | None = None  # the parameters of CALL whose values it returns

    async def run(self) -> None:
        session = self.session
        self._may_end = not (session.transaction.open or session.pipelining)
        await super().run()

    async def execute_guarded(self) -> None:
        session = self.session
        if not self._may_end or _ENDS.isdisjoint(self.words.found):
            await super().execute_guarded()
            return
        ends, session.ends_with_statement = session.ends_with_statement, False
        try:
            if (frame := await self._frame()) is not None:
                await self._in_steps(frame)
        finally:
            session.ends_with_statement = ends
        if frame is None:
            await super().execute_guarded()
            return
        tag = "DO" if self._outputs is None else "CALL"
        if session.transaction.open and session.transaction.implicit and ends:
            await commit_with(session, tag)
        self._give_tag(tag)

    async def _frame(self) -> Frame | None:
        """What to carry out in steps; None if the code ends no transaction, or is not read here."""
        session, query = self.session, self.routed.query
        assert query is not None
        steps = Steps(session, await called_code.began(session, self.words.found))
        if query.utilityStmt.type == "DOSTMT":
            text = await called_code.block_text(session, self.analysis.sql)
            block = None if text is None else await called_code.code_block(session, text, steps.began)
            if block is None or not block.ends:
                return None
            await self._check_whole(steps, text or "", block.body)
            return Frame(steps, block, Scope(block.label, []))
        called = await called_code.procedure(session, called_procedure(query), steps.began)
        if called.code is None or not called.code.ends:
            return None
        given = await self._given(steps)
        outside = await called_code.statement_code(session, self.analysis.sql, steps.began, given)
        if outside is None or not isinstance(calling := outside.body.block.body[0], Calling):
            return None
        frame = Frame(steps, outside, Scope(OWN, []))
        scope = called_code.parameter_scope(called, called.code.label, await frame.arguments(calling))
        self._outputs = [each.name for each in called.parameters if each.is_output]
        return frame.inside(called.code, scope)

    async def _check_whole(self, steps: Steps, text: str, body: Body) -> None:
        """Raise PostgreSQL's error for code that it does not accept, before any of it is executed."""
        before = f"{body.options}BEGIN RETURN; "
        inside = text[len(body.options) : len(text) - len(body.text) + body.block.end]
        inside += "" if inside.endswith(";") else ";"
        whole = steps.names.do(f"{before}{inside} END")
        try:
            await self.session.backend.run(Statement(whole, of_client=True))
        except SluiceError as error:
            if (position := error.fields.get("P")) is not None:
                shift = self.analysis.sql.find(text) + len(body.options) - whole.index(before) - len(before)
                error.fields["P"] = str(max(1, int(position) + shift))
            raise

    async def _given(self, steps: Steps) -> list[str]:
        """The values of the statement's parameters, as SQL takes them."""
        types = await steps.types(each.type_oid for each in self.binding.canonical)
        return [f"{literal(each.text)}::{types[each.type_oid]}" for each in self.binding.canonical]

    async def _in_steps(self, frame: Frame) -> None:
        try:
            await self.ask_limit()
            values = await frame.run()
            if self.columns is not None:
                await self._return(values)
        except SchemaChangedError as error:
            if not frame.ended:
                raise
            raise SluiceError(error.sqlstate, error.message) from error  # what is committed is not executed again

    async def _return(self, values: dict[str, Value]) -> None:
        """Send the row of outputs."""
        session, columns = self.session, self.columns or ()
        await session.transaction.begin()
        types = await Steps(session).types(column.type_oid for column in columns)
        listed = ", ".join(
            f"{literal(text_of(values[name]))}::{types[column.type_oid]}"
            for name, column in zip(self._outputs or (), columns, strict=True)
        )
        self.announce()
        formats = tuple(column.format for column in columns)
        messages = (
            frontend.Parse(OWN, f"SELECT {listed}"),
            frontend.Bind(OWN, OWN, (), (), formats),
            frontend.Execute(OWN),
        )
        closes = frontend.Close(b"P", OWN), frontend.Close(b"S", OWN)
        session.backend.send_in_utf8([each.encode() for each in (*closes, *messages, *closes)], frontend.Sync())
        await relay_rows(session)
