"""CREATE TABLE … AS and SELECT … INTO: makes the shadow, then inserts the rows as by INSERT … SELECT.

The shadow is made without data by gateway/execution/schema/create_as.py.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from functools import partial
from typing import Final

from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import TableVersion
from catalog.store import TableRules, table_from_description
from gateway.backend.analysis import analyse
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.changes.insert_query import insert_rows
from gateway.execution.changes.locked_rows import with_subqueries_locked
from gateway.execution.changes.postgres_insert import computed_insert
from gateway.execution.changes.row_changes import Changing
from gateway.execution.reading.execute_prepared import executed_binding
from gateway.execution.reading.plan_context import Reading, read
from gateway.execution.schema.array_carrying import filled
from gateway.execution.schema.create_as import make
from gateway.execution.schema.table_layout import lay_out
from gateway.execution.shadow.function_guard import guarding
from gateway.execution.shadow.shadow import qualified
from gateway.execution.shadow.shadow_writer import ShadowWriter
from gateway.session.offload import offloaded
from gateway.session.response_spool import ResponseSpool
from gateway.statement.portal import StatementPortal
from gateway.wire.messages.backend import CommandComplete
from planner.plans.routes import Route, main_query
from planner.syntax.statements import table_as
from planner.tree.nodes import Node, parse
from storage.spark.write import WriteResult

# A table made by CREATE TABLE AS has neither constraints nor defaults.
_NO_RULES: Final = TableRules((), {}, frozenset(), frozenset())
_DESCRIBE: Final = "SELECT description::pg_catalog.text FROM pg_sluice.describe(ARRAY[$1::bigint::pg_catalog.oid])"


class TableAsPortal(StatementPortal):
    """CREATE TABLE AS over lake tables, or over a query that only PostgreSQL can compute."""

    async def run(self) -> None:
        session, routed = self.session, self.routed
        assert routed.query is not None
        parts = self.analysis.taken_apart(table_as)
        utility, binding, rows = routed.query.utilityStmt, self.binding, 0
        types, formats = self.analysis.parameter_types, binding.parameter_formats
        statement = Statement(parts.without_data, binding.parameters, types, formats)
        async with Changing(self, "CREATE TABLE AS") as changing:
            if_not_exists, in_block = bool(utility.if_not_exists), not session.transaction.implicit
            made = await make(
                session, self.analysis, statement, utility.into.rel, if_not_exists=if_not_exists, in_block=in_block
            )
            session.client.send(*made.notices)
            if made.oid is None:
                await changing.finish()
                session.client.send(CommandComplete("CREATE TABLE AS"))
                return
            await lay_out(session, made.oid, utility.into.options)
            [described] = await session.backend.run(Statement(_DESCRIBE, (str(made.oid),)))
            text = described.rows[0][0]
            assert text is not None
            version = TableVersion(table_from_description(json.loads(text)), 0, ())
            if parts.with_data:
                version, result = await filled(session, version, partial(self._fill, query=parts.query))
                rows = result.row_count
                await changing.wrote(result, version)
            await changing.finish()
        assert routed.inner_routed is not None
        counted = parts.with_data or routed.inner_routed.route is Route.EXECUTE
        tag = f"SELECT {rows}" if counted else "CREATE TABLE AS"
        session.client.send(CommandComplete(tag))

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
        session, inner, inner_routed = self.session, self.routed.inner, self.routed.inner_routed
        assert inner is not None
        assert inner_routed is not None
        table = version.table
        if not table.columns:
            raise unsupported("a row without columns")
        name, binding, types = qualified(table), self.binding, inner.parameter_types
        if inner_routed.route is Route.EXECUTE:
            binding = await executed_binding(session, inner, inner_routed, ())
            inner, inner_routed = inner_routed.inner, inner_routed.inner_routed
            assert inner is not None
            assert inner_routed is not None
            query, types = inner.sql, inner.parameter_types
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
        if inner_routed.route not in (Route.RELAY, Route.GUARDED):
            raise unsupported("CREATE TABLE AS over this statement")
        # PostgreSQL computes the rows, into the shadow, in a savepoint that is undone.
        backend = session.backend
        await backend.run(TRIAL.begin)
        statement = Statement(
            f"INSERT INTO {name} {query}",
            binding.parameters,
            types,
            binding.parameter_formats,
        )
        try:
            watched = inner_routed.route is Route.GUARDED
            async with guarding(session, undone_in=table.oid) if watched else nullcontext():
                await backend.run(statement)
        except SluiceError as error:
            error.fields.pop("P", None)
            raise
        async with ShadowWriter(session, table) as writer:
            await writer.take(*TRIAL.undo)
            return await writer.finish()
