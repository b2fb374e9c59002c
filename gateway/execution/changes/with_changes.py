"""Executes data-modifying WITH queries one after another; each result becomes a temporary table for the others.

As in PostgreSQL, all of them see the tables as before (`gateway.transaction.transaction.Parts`), and of each other
only the returned rows. If two change the same row, the second skips it (`gateway.session.visibility.left_by_parts`).
Foreign keys are checked at the end, before the client gets an answer.

In a block with deferred changes (`gateway.transaction.transactional_ddl`), these tables are outside of windows, and
parts without a lake table read no other table either (`gateway.statement.statement_windows`).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, unsupported
from gateway.backend.answers_to_the_end import to_the_end, until_ready
from gateway.backend.connection import BackendLostError
from gateway.backend.copies import copy_in
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import WITH
from gateway.execution.locks.row_locks import RowsChangedError
from gateway.execution.reading.plan_context import session_values
from gateway.execution.reading.returning_rows import Returned
from gateway.execution.shadow.function_guard import guarding, relay_rows, send_statement
from gateway.execution.shadow.temporary_tables import create_temporary
from gateway.session.buffered_response import HeldAnswers
from gateway.session.offload import offloaded
from gateway.session.statement_analysis import analysed
from gateway.session.visibility import use, versions
from gateway.statement.portal import Binding, Portal, StatementPortal
from gateway.statement.routing import route
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from gateway.transaction.enlistment import SchemaChangedError
from gateway.transaction.isolation_level import Isolation
from gateway.transaction.statement_versions import Parts
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import CommandComplete
from planner.plans.routes import Route
from planner.plans.with_parts import Common, order
from planner.syntax.lexer import quoted
from planner.syntax.statements import WithText, begins_with_with, with_text
from planner.tree.references import common_names

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed
    from planner.tree.nodes import Node

Opener = Callable[["SessionContext", "Analysis", "Routed", Binding], Awaitable[Portal]]
_RECORDS: Final = (2249, 2287)  # record, record[]
_NUMBERS: Final = itertools.count(1)


class WithChangesPortal(StatementPortal):
    """`open_portal` opens the parts' portals."""

    def __init__(
        self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding, open_portal: Opener
    ) -> None:
        super().__init__(session, analysis, routed, binding)
        self._open_portal = open_portal
        self._tables: list[str] = []

    async def run(self) -> None:
        session, transaction = self.session, self.session.transaction
        ends, session.ends_with_statement = session.ends_with_statement, False
        await transaction.begin()
        _, timeout = await session_values(session)
        self.limit_time(timeout)
        client = session.client
        try:
            while True:
                await take_place(session, Place.BESIDE)
                await session.backend.run(WITH.begin)
                await transaction.deferred.see()
                session.client = answers = HeldAnswers(client)
                try:
                    await self._carry_out()
                    break
                except RowsChangedError:
                    if transaction.isolation is not Isolation.READ_COMMITTED or not transaction.open:
                        raise
                    transaction.parts = None
                    await answers.close()
                    await take_place(session, Place.BESIDE)
                    await session.backend.run(WITH.again)
        finally:
            session.client = client
            transaction.parts = None
            session.ends_with_statement = ends
        try:
            await take_place(session, Place.BESIDE)
            dropped = [Statement(f"DROP TABLE pg_temp.{name}") for name in self._tables]
            await session.backend.run(*dropped, WITH.release)
            if transaction.implicit and ends:
                try:
                    await transaction.commit()
                except (BackendLostError, SchemaChangedError):
                    raise
                except SluiceError:
                    await answers.release(whole=not session.simple)  # PostgreSQL has sent all before it commits
                    raise
            await answers.release()
        finally:
            await answers.close()

    async def _carry_out(self) -> None:
        """Execute every part, on the present tables."""
        session, lake, query = self.session, self.routed.lake, self.routed.query
        assert query is not None
        self._tables.clear()
        found = await versions(session, lake)
        await use(session, lake, found, self.analysis.mark, self.analysis.mark, self.analysis.views)
        session.transaction.parts = parts = Parts(found)
        text = self.analysis.taken_apart(with_text)
        places, done = order(query, text), dict[str, str]()  # by name, the replacement of each query
        for common in places.before:
            await self._common(common, done)
        read = _read(done, query.replaced(cteList=()))
        await self._main(await offloaded(session, len(text.main), _with, read, text.main))
        for common in places.after:
            await self._common(common, done)
        await session.transaction.validate_now(parts.late)

    async def _common(self, common: Common, done: dict[str, str]) -> None:
        """Execute one of the WITH queries, which may read others' results."""
        text, name, read = common.text, common.name, _read(done, common.query)
        sql = await offloaded(self.session, len(text.body), _with, read, text.body)
        if not common.changes:
            own = {**read, name: f"{text.head} AS ({text.body}){text.tail}"}
            sql = _with(own, f"SELECT * FROM {quoted(name)}", recursive=common.recursive)
        try:
            table = await self._part(sql, next(_NUMBERS))
        except BackendLostError:
            raise
        except SluiceError as error:
            error.fields.pop("P", None)
            raise
        if table is not None:
            done[name] = f"{text.head} AS ({table})"

    async def _part(self, sql: str, number: int) -> str | None:
        """Execute one part; return the query of its result, None if it returns nothing."""
        session, statement, table = self.session, f"{OWN}_with_{number}", f"pg_sluice_with_{number}"
        try:
            analysis = await self._analyse(sql, statement)
            fields = analysis.columns or ()
            names = [f"c{place}" for place, _ in enumerate(fields, 1)]
            for field in fields:
                if field.type_oid in _RECORDS:
                    raise unsupported(f'column "{field.name}" of records in WITH beside a data-modifying statement')
            routed = await route(session, analysis)
            deferred = session.transaction.deferred
            if fields:
                async with deferred.suspended():
                    await create_temporary(session, table, names, fields)
                self._tables.append(table)
            if routed.route in (Route.RELAY, Route.GUARDED):
                async with (
                    deferred.suspended(),
                    guarding(session) if routed.route is Route.GUARDED else nullcontext(),
                ):
                    await self._relay_part(sql, table if fields else None)
            else:
                client, returned = session.client, Returned(session.client)
                session.client = returned
                try:
                    await self._execute(analysis, routed, self._binding(statement, (1,)))
                finally:
                    session.client = client
                if fields:
                    messages = await asyncio.to_thread(returned.copy_messages)
                    async with deferred.suspended():
                        await copy_in(session.backend, f"COPY pg_temp.{table} FROM STDIN (FORMAT binary)", messages)
        finally:
            await self._forget(statement)
        if not fields:
            return None
        shown = (f"{name} AS {quoted(field.name)}" for name, field in zip(names, fields, strict=True))
        return f"SELECT {', '.join(shown)} FROM pg_temp.{table}"

    async def _relay_part(self, sql: str, table: str | None) -> None:
        """Execute a part that touches no lake table."""
        if table is not None:
            sql = f"WITH part AS ({sql}) INSERT INTO pg_temp.{table} SELECT * FROM part"
        binding, types = self.binding, self.analysis.parameter_types
        await self.session.backend.run(Statement(sql, binding.parameters, types, binding.parameter_formats))

    async def _main(self, sql: str) -> None:
        session, statement = self.session, f"{OWN}_with_{next(_NUMBERS)}"
        try:
            analysis = await self._analyse(sql, statement)
            routed = await route(session, analysis)
            raw = self._raw(sql, statement) if session.simple else None
            binding = self._binding(statement, self.binding.result_formats, raw)
            if routed.route is not Route.RELAY:
                await self._execute(analysis, routed, binding)
                return
            async with session.transaction.deferred.suspended():
                await send_statement(session, binding)
                session.client.send(CommandComplete(await relay_rows(session)))
        finally:
            await self._forget(statement)

    def _raw(self, sql: str, statement: str) -> bytes:
        """The text for a simple query: the statement, or an EXECUTE of it if it has parameters."""
        values = self.binding.canonical
        if values:
            listed = ", ".join("NULL" if each.text is None else _literal(each.text) for each in values)
            sql = f"EXECUTE {statement} ({listed})"
        return frontend.Query(sql).encode()

    async def _execute(self, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        portal = await self._open_portal(self.session, analysis, routed, binding)
        try:
            await portal.execute(0)
        finally:
            await portal.close()

    async def _analyse(self, sql: str, name: str) -> Analysis:
        types = self.analysis.parameter_types
        return await analysed(self.session, sql, name=name, parameter_types=types, sync=True)

    def _binding(self, statement: str, formats: tuple[int, ...], raw: bytes | None = None) -> Binding:
        binding = self.binding
        return Binding(statement, binding.parameters, binding.parameter_formats, formats, binding.canonical, raw)

    async def _forget(self, statement: str) -> None:
        """Close the part's prepared statement, and its portal, in any state of the backend."""
        backend = self.session.backend
        messages = (frontend.Close(b"P", ""), frontend.Close(b"S", statement), frontend.Sync())
        backend.send(b"".join(message.encode() for message in messages))
        await to_the_end(backend, until_ready(backend))


def _read(done: Mapping[str, str], query: Node) -> dict[str, str]:
    """The finished queries that a query reads."""
    names = common_names(query)
    return {name: text for name, text in done.items() if name in names}


def _with(read: Mapping[str, str], sql: str, *, recursive: bool = False) -> str:
    """The statement preceded by these WITH queries; it may begin with WITH itself."""
    if not read:
        return sql
    inner = with_text(sql) if begins_with_with(sql) else WithText(recursive=False, commons=(), main=sql)
    own = [f"{each.head} AS ({each.body}){each.tail}" for each in inner.commons]
    word = "WITH RECURSIVE" if recursive or inner.recursive else "WITH"
    return f"{word} {', '.join([*read.values(), *own])} {inner.main}"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"
