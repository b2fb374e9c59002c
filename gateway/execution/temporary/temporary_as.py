"""CREATE TEMPORARY TABLE … AS and SELECT … INTO TEMP over the lake, including EXECUTE of a prepared query.

The table is PostgreSQL's own, made without data by the client's statement. Spark's rows are copied into it as they
come, however many. If Spark cannot compute the query, PostgreSQL executes the statement itself, over copied rows
(`gateway.execution.reading.postgres_query`); this settles a block's deferred changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend.connection import BackendLostError, Result
from gateway.backend.own_statement import Statement
from gateway.execution.changes.locked_query import locked_stream
from gateway.execution.changes.row_changes import Changing
from gateway.execution.locks.table_locks import ROW_SHARE
from gateway.execution.reading.execute_prepared import executed_binding
from gateway.execution.reading.plan_context import Reading, read
from gateway.execution.reading.postgres_query import Computing
from gateway.execution.reading.query_rows import spark_rows
from gateway.execution.schema.create_as import make
from gateway.execution.shadow.shadow import copy_values
from gateway.session.cancel_listener import attended
from gateway.statement.portal import Binding, StatementPortal
from gateway.statement.range_variable import resolve
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from gateway.transaction.isolation_level import TELL_DEFAULT
from gateway.transaction.transaction import BEGIN
from gateway.values import ResultColumn
from gateway.wire.messages.backend import CommandComplete
from planner.plans.locking_plan import first_strength
from planner.plans.routes import Route
from planner.syntax.lexer import quoted
from planner.syntax.statements import table_as
from planner.tree.nodes import name_of

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.lake_cursor import RowStream
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed

_COLUMNS: Final = """
SELECT attname FROM pg_catalog.pg_attribute
WHERE attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.int8::pg_catalog.oid
    AND attnum OPERATOR(pg_catalog.>) 0 ORDER BY attnum
"""
_TEMPORARY: Final = "pg_temp"


class TemporaryTablePortal(StatementPortal):
    """A temporary table made of lake rows."""

    async def run(self) -> None:
        session, binding = self.session, self.binding
        inner, routed = self.routed.inner, self.routed.inner_routed
        assert inner is not None
        assert routed is not None
        if await self._is_there():
            await self._told(await self._made())
            return
        if routed.route is Route.EXECUTE:
            binding = await executed_binding(session, inner, routed, ())
            inner, routed = routed.inner, routed.inner_routed
            assert inner is not None
            assert routed is not None
        if routed.route is not Route.SELECT:
            await self._made()  # PostgreSQL raises the error
            raise unsupported("a temporary table made from lake tables")
        if first_strength(routed.query) is not None:
            await self._lock(inner, routed, binding)
            return
        reading = await read(session, inner, binding, routed.lake)
        self.limit_time(reading.timeout)
        try:
            if not inner.columns:
                raise unsupported("a row without columns")
            stream = await spark_rows(session, routed, reading, session.tag, leaves_window=True)
        except SluiceError as refusal:
            if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
                raise
            if session.transaction.deferred.pending:
                await take_place(session, Place.SETTLED)
                await self.run()
                return
            await self._compute(inner, routed, binding, reading, refusal)
            return
        try:
            in_block = session.transaction.open and not session.transaction.implicit
            async with in_transaction(session):
                count = await self._fill(inner, stream, in_block=in_block)
        finally:
            await stream.close()
        session.client.send(CommandComplete(f"SELECT {count}"))

    async def _lock(self, inner: Analysis, routed: Routed, binding: Binding) -> None:
        """Make the table of rows that the query locks."""
        session, stream = self.session, None
        async with Changing(self, "CREATE TABLE AS", *routed.lake, mode=ROW_SHARE) as changing:
            while stream is None:
                stream = await locked_stream(session, routed, await read(session, inner, binding, routed.lake))
            try:
                count = await self._fill(inner, stream, in_block=not session.transaction.implicit)
            finally:
                await stream.close()
            await changing.finish()
        session.client.send(CommandComplete(f"SELECT {count}"))

    async def _is_there(self) -> bool:
        """Whether IF NOT EXISTS has found the table."""
        assert self.routed.query is not None
        into = self.routed.query.utilityStmt
        if not into.if_not_exists:
            return False
        return await resolve(self.session, into.into.rel.replaced(schemaname=_TEMPORARY)) is not None

    async def _made(self) -> Result:
        """Make the table in PostgreSQL, without data."""
        [result] = await self.session.backend.run(self._making())
        return result

    def _making(self) -> Statement:
        sql, binding = self.analysis.taken_apart(table_as).without_data, self.binding
        return Statement(sql, binding.parameters, self.analysis.parameter_types, binding.parameter_formats)

    async def _told(self, result: Result) -> None:
        self.session.client.send(*result.notices, CommandComplete("CREATE TABLE AS"))

    async def _fill(self, inner: Analysis, stream: RowStream, *, in_block: bool) -> int:
        """Make the table and copy the rows into it, outside of windows; return their number."""
        assert self.routed.query is not None
        session, target = self.session, self.routed.query.utilityStmt.into.rel
        making = self._making()
        made = await make(session, self.analysis, making, target, if_not_exists=False, in_block=in_block)
        await take_place(session, Place.BESIDE)
        session.client.send(*made.notices)
        [named] = await session.backend.run(Statement(_COLUMNS, (str(made.oid),)))
        names = [(name or b"").decode() for (name,) in named.rows]
        types = [ResultColumn(field.type_oid, field.typmod) for field in inner.columns or ()]
        count = 0
        async for batch in attended(session, stream):
            await copy_values(session, f"{_TEMPORARY}.{quoted(name_of(target.relname))}", names, types, batch)
            count += batch.num_rows
        return count

    async def _compute(
        self, inner: Analysis, routed: Routed, binding: Binding, reading: Reading, refusal: SluiceError
    ) -> None:
        """Have PostgreSQL make the rows, by the client's statement with the prepared query in place of EXECUTE."""
        session, sql = self.session, self.analysis.sql
        if inner is not self.routed.inner:
            sql = f"{sql[: self.analysis.taken_apart(table_as).offset]} {inner.sql}"
        statement = Statement(sql, binding.parameters, inner.parameter_types, binding.parameter_formats)
        async with Computing(
            session, routed.query, reading, refusal, made_by_users=True, lasting=True, changes=True
        ) as computing:
            try:
                async with computing.watched():
                    [made] = await session.backend.run(statement)
            except SluiceError as error:
                if inner is not self.routed.inner:
                    error.fields.pop("P", None)
                raise
        session.client.send(*made.notices, CommandComplete(made.tag))


@asynccontextmanager
async def in_transaction(session: SessionContext) -> AsyncIterator[None]:
    """Surrounds work in the client's transaction, or in one for this statement alone."""
    backend = session.backend
    if backend.status != b"I":
        yield
        return
    await backend.run(BEGIN, TELL_DEFAULT)
    try:
        yield
    except BackendLostError:
        raise
    except BaseException:
        if backend.status != b"I":
            await backend.run(Statement("ROLLBACK"))
        raise
    await backend.run(Statement("COMMIT"))
