"""What all code of a CALL or DO shares: the session's transaction, and the execution of steps in it."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.analysis import SchemaMark
from gateway.backend.arrays import number_array
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.execution.procedures.called_code import Given
from gateway.execution.procedures.loop_rows import LoopRows
from gateway.execution.procedures.step_portal import StepPortal
from gateway.session.cancel_listener import check
from gateway.session.offload import offloaded
from gateway.session.statement_analysis import analysed
from planner.plans.routes import main_query
from planner.plpgsql.step import CAUGHT, FIXED, Names, Part, Scope, field_oids, take_values
from planner.syntax.statements import split
from planner.syntax.transaction_commands import TransactionCommand, transaction_command
from planner.tree.parsed_trees import parsed

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext
    from planner.tree.nodes import Node

_MARK: Final = Statement("SELECT pg_sluice.schema_mark()")
_TYPES: Final = """
SELECT t.oid, pg_catalog.format('%I.%I', n.nspname, t.typname), t.typtype OPERATOR(pg_catalog.=) 'p'
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) t.typnamespace
WHERE t.oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])
"""


@dataclass(slots=True)
class Answer:
    """What a step has left. `branch` says which branch it has taken, or, below 0, by which statement it was left.
    `slices` are those of an array, `caught` is what there is to tell of a caught error.
    """

    branch: int
    found: bool
    count: int
    bounds: tuple[int, int, int]
    slices: list[str]
    caught: dict[str, str | None]
    rows: LoopRows | None = None


class Steps:
    """`ended`: a transaction has been ended, so the statement cannot be executed again from its beginning."""

    def __init__(self, session: SessionContext, began: str = "") -> None:
        """`began` stands for `statement_timestamp()`."""
        self.session = session
        self.began = began
        self.names = Names(f"sluice_{secrets.token_hex(8)}")
        self.ended = False
        self._begins = False  # nothing has been executed since the last end
        self._types: dict[int, str] = {}

    async def turn(self) -> None:
        """Between two iterations of a loop: let others work, and see whether the statement is cancelled."""
        await asyncio.sleep(0)
        check(self.session)

    # Transactions.

    async def end(self, *, commits: bool, chains: bool) -> None:
        """Commit or roll back. The next transaction begins when something is executed, or at once if it `chains`: then
        it has the same level, and is READ ONLY as the one before.
        """
        check(self.session)
        transaction = self.session.transaction
        level, reads_only = None, False
        if transaction.open:
            level, reads_only = transaction.isolation, transaction.read_only.stands
            if commits:
                await transaction.commit()
            else:
                await transaction.roll_back()
        self.ended = self._begins = True
        if chains:
            await transaction.begin()
            if level is not None and transaction.isolation is not level:
                await self._set(TransactionCommand.SET_ISOLATION, f"SET TRANSACTION ISOLATION LEVEL {level.value}")
            if reads_only:
                await self._set(TransactionCommand.SET_READ_ONLY, "SET TRANSACTION READ ONLY")

    async def set_characteristics(self, sql: str) -> None:
        """Execute SET TRANSACTION."""
        [statement] = split(sql)
        command = transaction_command(statement)
        assert command is not None
        sets_level = command in (TransactionCommand.SET_ISOLATION, TransactionCommand.SET_TRANSACTION)
        if sets_level and not self._begins:
            raise SluiceError(
                SqlState.ACTIVE_SQL_TRANSACTION, "SET TRANSACTION ISOLATION LEVEL must be called before any query"
            )
        await self.session.transaction.begin()
        await self._set(command, sql)

    async def _set(self, command: TransactionCommand, sql: str) -> None:
        transaction = self.session.transaction
        await transaction.before(command)
        await self.session.backend.run(Statement(sql))
        await transaction.after(command, good=True)

    # Steps.

    async def execute(
        self, text: str, part: Part, scopes: Sequence[Scope], told: Callable[[str], str], *, opens: bool
    ) -> Answer:
        """Execute the text of a step in the present transaction, and keep the values that it leaves in the `scopes`."""
        session = self.session
        check(session)
        self._begins = False
        [mark] = await session.transaction.begin(_MARK)
        step = StepPortal(
            session,
            self.names.do(text),
            SchemaMark.of(mark.rows[0][0]),
            values=self.names("values"),
            opens=opens,
            meaning=part.text,
            told=told,
        )
        try:
            await step.run()
            return await self._answer(step, scopes)
        except BaseException:
            step.close_rows()
            raise

    async def _answer(self, step: StepPortal, scopes: Sequence[Scope]) -> Answer:
        row = [None if value is None else value.decode() for value in step.row]
        branch, found, count, lower, upper, by, slices, _, *caught = row[:FIXED]
        bounds = int(lower or 0), int(upper or 0), int(by or 0)
        answer = Answer(
            int(branch or 0),
            found == "t",
            int(count or 0),
            bounds,
            json.loads(f"[{slices or ''}]"),
            dict(zip(CAUGHT, caught, strict=True)),
        )
        opened = step.columns_opened
        types = await self.types(field_oids(scopes, row) | {column.type_oid for column in opened})
        take_values(scopes, row, types)
        if step.opened is not None:
            answer.rows = LoopRows(
                step.opened, [column.name for column in opened], [types[column.type_oid] for column in opened]
            )
        return answer

    async def types(self, oids: Iterable[int]) -> dict[int, str]:
        """The names of these types, behind those of their schemas; text for what has no type, as in a record."""
        if missing := set(oids) - self._types.keys():
            [found] = await self.session.backend.run(Statement(_TYPES, (number_array(missing),)))
            for oid, name, is_pseudo in found.rows:
                self._types[int(oid or 0)] = "pg_catalog.text" if is_pseudo == b"t" else str(name or b"", "utf-8")
        return self._types

    async def resolve(self, procedure: str, given: Sequence[Given]) -> int:
        """The OID of the procedure that CALL with these arguments means; raises PostgreSQL's error for none."""
        listed = ", ".join(each.prefix + each.expression(None) for each in given)
        await self.session.transaction.begin()
        analysis = await analysed(self.session, f"CALL {procedure}({listed})", name=OWN, sync=True)
        query = main_query(await offloaded(self.session, analysis.tree.size, parsed, analysis.tree))
        assert query is not None
        return called_procedure(query)


def called_procedure(query: Node) -> int:
    """The OID of the procedure that CALL names."""
    return int(query.utilityStmt.funcexpr.funcid)
