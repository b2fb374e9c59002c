"""CREATE TABLE … AS and SELECT … INTO: makes the shadow, then inserts the rows as by INSERT … SELECT.

The shadow is made without data by gateway/execution/schema/create_as.py.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Final

from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import TableVersion
from catalog.store import TableRules, table_from_description
from gateway.backend.analysis import Analysis, analyse
from gateway.backend.encoded_statement import encode_statement
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.changes.insert_query import insert_rows
from gateway.execution.changes.locked_rows import with_subqueries_locked
from gateway.execution.changes.postgres_insert import computed_insert
from gateway.execution.changes.row_changes import Changing, commit_with
from gateway.execution.functions.trigger_statement import VolatilePortal
from gateway.execution.reading.execute_prepared import executed_binding
from gateway.execution.reading.function_tables import Use, use_of_functions
from gateway.execution.reading.plan_context import Reading, read
from gateway.execution.schema.array_carrying import filled
from gateway.execution.schema.create_as import make
from gateway.execution.schema.table_layout import lay_out
from gateway.execution.shadow.function_guard import relay_rows
from gateway.execution.shadow.shadow import qualified
from gateway.execution.shadow.shadow_writer import ShadowWriter
from gateway.session.offload import offloaded
from gateway.session.response_spool import ResponseSpool
from gateway.session.statement_analysis import analysed
from gateway.statement.portal import Binding, StatementPortal
from gateway.statement.routed import Routed
from gateway.statement.routing import route
from gateway.wire.messages.backend import CommandComplete
from gateway.wire.messages.frontend import Sync
from planner.plans.routes import Route, main_query
from planner.syntax.statements import TableAs, table_as
from planner.tree.nodes import Node, parse
from storage.spark.write import WriteResult

# A table made by CREATE TABLE AS has neither constraints nor defaults.
_NO_RULES: Final = TableRules((), {}, frozenset(), frozenset())
_DESCRIBE: Final = "SELECT description::pg_catalog.text FROM pg_sluice.describe(ARRAY[$1::bigint::pg_catalog.oid])"


class _FillingPortal(VolatilePortal):
    """INSERT … SELECT of the gateway's own, with the client's parameters; the portal around it limits its time."""

    _announced = True

    async def perform(self, answers: ResponseSpool | None) -> str:
        binding, types = self.binding, self.analysis.parameter_types
        statement = Statement(self.analysis.sql, binding.parameters, types, binding.parameter_formats)
        self.session.backend.send_in_utf8([encode_statement(statement)], Sync())
        try:
            return await relay_rows(self.session, answers)
        except SluiceError as error:
            error.fields.pop("P", None)
            raise


class TableAsPortal(StatementPortal):
    """CREATE TABLE AS over lake tables, or over a query that only PostgreSQL can compute."""

    async def run(self) -> None:
        routed, parts, rows = self.routed, self.analysis.taken_apart(table_as), 0
        assert routed.inner_routed is not None
        if parts.with_data and await self._acts(routed.inner_routed):
            await self._run_by_functions(parts)
            return
        async with Changing(self, "CREATE TABLE AS") as changing:
            version = await self._make(parts)
            if version is not None and parts.with_data:
                version, result = await filled(self.session, version, partial(self._fill, query=parts.query))
                rows = result.row_count
                await changing.wrote(result, version)
            await changing.finish()
        counted = version is not None and (parts.with_data or routed.inner_routed.route is Route.EXECUTE)
        self.session.client.send(CommandComplete(f"SELECT {rows}" if counted else "CREATE TABLE AS"))

    async def _acts(self, query: Routed) -> bool:
        """Whether functions of users in the query may read further tables, or have effects."""
        if query.route is Route.EXECUTE and query.inner_routed is not None:
            query = query.inner_routed
        return query.route is Route.GUARDED or await use_of_functions(self.session, query) is not Use.PLAIN

    async def _make(self, parts: TableAs) -> TableVersion | None:
        """Make the table without rows; None if IF NOT EXISTS has found another."""
        session, binding = self.session, self.binding
        assert self.routed.query is not None
        utility = self.routed.query.utilityStmt
        types, formats = self.analysis.parameter_types, binding.parameter_formats
        statement = Statement(parts.without_data, binding.parameters, types, formats)
        if_not_exists, in_block = bool(utility.if_not_exists), not session.transaction.implicit
        made = await make(
            session, self.analysis, statement, utility.into.rel, if_not_exists=if_not_exists, in_block=in_block
        )
        session.client.send(*made.notices)
        if made.oid is None:
            return None
        await lay_out(session, made.oid, utility.into.options)
        [described] = await session.backend.run(Statement(_DESCRIBE, (str(made.oid),)))
        text = described.rows[0][0]
        assert text is not None
        return TableVersion(table_from_description(json.loads(text)), 0, ())

    async def _run_by_functions(self, parts: TableAs) -> None:
        """The same, where functions of users may read further tables, or have effects: PostgreSQL makes the rows as it
        does for INSERT … SELECT.
        """
        session, rows = self.session, None
        ends, session.ends_with_statement = session.ends_with_statement, False
        try:
            async with Changing(self, "CREATE TABLE AS") as changing:
                version = await self._make(parts)
                await changing.finish()
            if version is not None:
                rows = await self._fill_by_functions(version, parts.query)
        finally:
            session.ends_with_statement = ends
        tag = "CREATE TABLE AS" if rows is None else f"SELECT {rows}"
        if session.transaction.implicit and ends:
            await commit_with(session, tag)
        session.client.send(CommandComplete(tag))

    async def _fill_by_functions(self, version: TableVersion, query: str) -> int:
        """Insert the rows; return their number."""
        session = self.session
        query, inner, _, binding = await self._source(query)
        sql = f"INSERT INTO {qualified(version.table)} {query}"
        insert = await analysed(session, sql, name=OWN, parameter_types=inner.parameter_types, sync=True)
        routed = await route(session, insert)
        tag = await _FillingPortal(session, insert, routed, binding).carry_out()
        return int(tag.rsplit(maxsplit=1)[-1])

    async def _source(self, query: str) -> tuple[str, Analysis, Routed, Binding]:
        """The query, or the one that EXECUTE names, with its analysis, its route and its parameters."""
        inner, routed, binding = self.routed.inner, self.routed.inner_routed, self.binding
        assert inner is not None
        assert routed is not None
        if routed.route is Route.EXECUTE:
            binding = await executed_binding(self.session, inner, routed, ())
            inner, routed = routed.inner, routed.inner_routed
            assert inner is not None
            assert routed is not None
            query = inner.sql
        return query, inner, routed, binding

    async def _compute(
        self, query: Node, version: TableVersion, reading: Reading, refusal: SluiceError, sql: str
    ) -> WriteResult:
        """Have PostgreSQL make the rows."""
        session, binding, inner = self.session, self.binding, self.routed.inner
        assert inner is not None
        statement = Statement(sql, binding.parameters, inner.parameter_types, binding.parameter_formats)

        async def carry_out(_: ResponseSpool) -> str:
            try:
                [done] = await session.backend.run(statement)
            except SluiceError as error:
                error.fields.pop("P", None)
                raise
            return done.tag

        made = await computed_insert(session, query, version.table, reading, refusal, carry_out)
        return made.result

    async def _fill(self, version: TableVersion, query: str) -> WriteResult:
        session, table = self.session, version.table
        if not table.columns:
            raise unsupported("a row without columns")
        query, inner, inner_routed, binding = await self._source(query)
        name, types = qualified(table), inner.parameter_types
        if inner_routed.route is Route.SELECT:
            # The new table is a schema change, so the query's earlier analysis is stale.
            sql = f"INSERT INTO {name} {query}"
            insert = await analyse(session.backend, sql, name=OWN, parameter_types=types, sync=True)
            node = main_query(await offloaded(session, insert.tree.size, parse, insert.tree))
            assert node is not None
            reading: Reading | None = None
            while reading is None:
                fresh = await read(session, insert, binding, inner_routed.lake)
                reading = await with_subqueries_locked(session, node, fresh)
            try:
                result, _ = await insert_rows(session, node, version, _NO_RULES, reading)
            except SluiceError as refusal:
                if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
                    raise
                return await self._compute(node, version, reading, refusal, f"INSERT INTO {name} {query}")
            return result
        if inner_routed.route is not Route.RELAY:
            raise unsupported("CREATE TABLE AS over this statement")
        # PostgreSQL computes the rows, into the shadow, in a savepoint that is undone.
        backend = session.backend
        await backend.run(TRIAL.begin)
        statement = Statement(f"INSERT INTO {name} {query}", binding.parameters, types, binding.parameter_formats)
        try:
            await backend.run(statement)
        except SluiceError as error:
            error.fields.pop("P", None)
            raise
        async with ShadowWriter(session, table) as writer:
            await writer.take(*TRIAL.undo)
            return await writer.finish()
