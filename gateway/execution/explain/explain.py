"""EXPLAIN of a lake statement: Sluice's own plan, because PostgreSQL's would be that of an empty table.

With ANALYZE the statement is executed, as in PostgreSQL: by its own portal, whose answers are only counted. So its
changes, constraints and transaction are those of the statement alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.client.connection import StandIn
from gateway.client.response_encoding import Copies
from gateway.execution.changes.insert import target_oid
from gateway.execution.changes.insert_query import place_insert
from gateway.execution.changes.postgres_insert import what_is_read
from gateway.execution.changes.postgres_update_delete import place_change
from gateway.execution.reading.execute_prepared import executed_binding
from gateway.execution.reading.handed_rows import Placed, not_computed, placed
from gateway.execution.reading.handed_tables import with_temporary_tables
from gateway.execution.reading.plan_context import Reading, planned, read, runnable
from gateway.execution.reading.postgres_query import loads
from gateway.execution.temporary.temporary_change import CHANGED, check_target
from gateway.session.visibility import rules
from gateway.statement.portal import Binding, Portal, StatementPortal
from gateway.statement.prepared_statements import prepared
from gateway.wire.framing import HEADER_BYTES, Frame, RelayScanner
from gateway.wire.messages import backend as answers
from gateway.wire.messages.backend import CommandComplete, DataRow, FieldDescription
from gateway.wire.messages.layout import Message
from planner.plans.change_plan import current_of, plan_delete, plan_insert, plan_update
from planner.plans.estimates import Scanned, of_query
from planner.plans.explain import (
    Plan,
    Reads,
    as_lines,
    as_values,
    constants_plan,
    counted_plan,
    discreet,
    postgres_plan,
    spark_plan,
    stored_plan,
    without_costs,
)
from planner.plans.explain_formats import FORMATS
from planner.plans.locking_plan import first_strength, plan_locking, strongest
from planner.plans.routes import Route, command, is_utility
from planner.plans.select import plan_select
from planner.spark.plan import SparkQuery
from planner.syntax.statements import explained
from planner.translate.row_security import restricted_tables
from storage.indexes.lookup import look_up
from storage.plan import BoundScan
from storage.spark.index_fetch import row_groups

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.execution.reading.stored_rows import StoredRead
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed
    from planner.tree.nodes import Node

_KNOWN_OPTIONS: Final = frozenset(
    {
        "analyze", "verbose", "costs", "timing", "summary", "buffers", "settings", "wal", "format", "memory",
        "generic_plan", "serialize",
    }
)  # fmt: skip
# SERIALIZE's values, with the format code of the results; a bare one is text.
_SERIALIZED: Final = {"true": ("text", 0), "text": ("text", 0), "binary": ("binary", 1)}
# Statements that PostgreSQL computes over few rows, and those that Spark cannot compute.
_COMPUTED: Final = (Route.SELECT, Route.INSERT, Route.UPDATE, Route.DELETE)
_ON: Final = frozenset({"true", "on", "1"})
# The explained statement's name at the backend, if that executes a part of it.
_EXPLAINED: Final = f"{OWN}_explained"

Open = Callable[["SessionContext", "Analysis", "Routed", Binding], Awaitable[Portal]]


class _Silent(StandIn):
    """Takes the place of the client while a statement is only measured; only notices reach the client.

    `tag` is that of the statement, `row_bytes` the length of its rows, as messages.
    """

    def __init__(self, exchange: SessionContext) -> None:
        super().__init__(exchange.client)
        self._scanner = RelayScanner()
        self.tag = ""
        self.row_bytes = 0

    def send(self, *messages: Message) -> None:
        for message in messages:
            if isinstance(message, CommandComplete):
                self.tag = message.tag
            else:
                self.write(message.encode())

    def write(self, data: bytes | memoryview) -> None:
        for item in self._scanner.feed(bytes(data)):
            if not isinstance(item, Frame):
                self.row_bytes += len(item)
            elif item.type == answers.NoticeResponse.type:
                self._client.write(item.data)

    def relay(self, data: bytes | memoryview) -> None:
        """The rows, in the client's encoding."""
        self.row_bytes += len(data)

    async def drain(self) -> None:
        await self._client.drain()

    def describe(self, columns: tuple[FieldDescription, ...] | None, *, copies: Copies = Copies.AS_THEY_ARE) -> None:
        """The rows are dropped."""


_NOT_OF_ROWS: Final = (SqlState.QUERY_CANCELED, SqlState.INTERNAL_ERROR, SqlState.IO_ERROR, SqlState.DATA_CORRUPTED)


class ExplainPortal(StatementPortal):
    """The statement's engine, files scanned and skipped, Spark's plan; with ANALYZE times and rows."""

    def __init__(
        self,
        session: SessionContext,
        analysis: Analysis,
        routed: Routed,
        binding: Binding,
        open_portal: Open,
        *,
        rehearsed: bool,
    ) -> None:
        """`rehearsed`: PostgreSQL executes the statement in the shadow (rows that it makes, MERGE, ON CONFLICT)."""
        super().__init__(session, analysis, routed, binding)
        self._open = open_portal
        self._rehearsed = rehearsed
        self._format = routed.options.get("format", "text")
        self._sizes: list[int] = []  # of the types of the statement's columns

    async def run(self) -> None:
        session, inner, routed = self.session, self.routed.inner, self.routed.inner_routed
        assert inner is not None
        assert routed is not None
        await self._check_options()
        inner, routed, binding = await self._executed(inner, routed, self.binding)
        began = time.perf_counter()
        plan = await self._plan_of(inner, routed, binding)
        summary: dict[str, Any] = {}
        if self.routed.options.get("analyze", "false") in _ON:
            planned = time.perf_counter()
            serialized = _SERIALIZED.get(self.routed.options.get("serialize", "none"))
            form, code = serialized or ("text", 0)
            summary["Actual Rows"], output = await self._carry_out(inner, routed, binding, code)
            summary["Planning Time"] = (planned - began) * 1000
            if serialized is not None:
                summary["Serialization"] = {"Output Volume": output, "Format": form}
            summary["Execution Time"] = (time.perf_counter() - planned) * 1000
        if self.routed.options.get("costs", "true") not in _ON:
            plan = without_costs(plan)
        self.announce()
        lines = as_lines(plan, summary) if self._format == "text" else [as_values(plan, summary, self._format)]
        for line in lines:
            session.client.send(DataRow((line.encode(),)))
        session.client.send(CommandComplete("EXPLAIN"))

    async def _executed(self, inner: Analysis, routed: Routed, binding: Binding) -> tuple[Analysis, Routed, Binding]:
        """The prepared statement, in place of its EXECUTE."""
        if routed.route is not Route.EXECUTE:
            return inner, routed, binding
        binding = await executed_binding(self.session, inner, routed, ())
        assert routed.inner is not None
        assert routed.inner_routed is not None
        return routed.inner, routed.inner_routed, binding

    async def _plan_of(self, inner: Analysis, routed: Routed, binding: Binding) -> Plan:
        """The plan of a statement; for CREATE TABLE AS, that of its query."""
        query = routed.query
        assert query is not None
        made = routed.route
        if made in (Route.TABLE_AS, Route.TEMPORARY) and is_utility(query):
            assert routed.inner is not None
            assert routed.inner_routed is not None
            inner, routed, binding = await self._executed(routed.inner, routed.inner_routed, binding)
            if routed.route in (Route.RELAY, Route.GUARDED):
                return postgres_plan(made, [])
        self._sizes = [column.type_length for column in inner.columns or ()]
        reading = await read(self.session, inner, binding, routed.lake, scans=False)
        self.limit_time(reading.timeout)
        if routed.route is Route.TEMPORARY:
            await check_target(self.session, query)
            return self._computed(command(query), query, reading, unsupported(CHANGED))
        if routed.route in _COMPUTED and made is routed.route and not self._rehearsed and first_strength(query) is None:
            return await self._placed(routed, reading)
        return await self._plan(routed, reading)

    async def _placed(self, routed: Routed, reading: Reading) -> Plan:
        """The plan of the engine that begins with the query."""
        assert routed.query is not None
        where = await self._place(routed.route, routed.query, reading)
        if where.is_with_postgres:
            if routed.route is Route.INSERT:
                reading = what_is_read(routed.query, reading)
            plan = self._computed(routed.route, routed.query, reading, not_computed(), where)
        elif where.stored is not None:
            plan = await self._stored(where.stored, reading)
            plan |= self._estimate(routed.query, [Scanned(where.stored.version.table, where.stored.row_count)])
        elif where.change is not None:
            version = reading.versions[target_oid(routed.query)]
            found = where.found.get(version.table.oid)
            rows = version.row_count if found is None else found.rows.num_rows
            plan = constants_plan(routed.route, version.table, rows)
            plan |= self._estimate(routed.query, [Scanned(version.table, rows)])
        else:
            plan = await self._plan(routed, reading)
        return plan | {"Placed By": where.placement.why}

    async def _stored(self, read: StoredRead, reading: Reading) -> Plan:
        """The plan of a query that only reads columns, or counts rows."""
        if read.reads_no_file:
            return counted_plan(read.version.table, read.row_count)
        if read.runnable.rows is not None:
            reads = Reads(read.version.table, 0, 0, rows=read.row_count)
        else:
            bound = BoundScan(read.scan, read.version, reading.sidecars)
            reads = await asyncio.to_thread(_reads, self.session.gateway.data_path, bound)
        return stored_plan(read.scan, reads, by_key=read.runnable.rows is not None)

    async def _place(self, route: Route, query: Node, reading: Reading) -> Placed:
        if route is Route.SELECT:
            return await placed(self.session, query, reading)
        version = reading.versions[target_oid(query)]
        if route is not Route.INSERT:
            return await place_change(self.session, query, version, reading)
        return await place_insert(self.session, query, version, reading, await rules(self.session, version.table))

    def _computed(
        self, route: Route, query: Node, reading: Reading, refusal: SluiceError, where: Placed | None = None
    ) -> Plan:
        """PostgreSQL's part, over the rows that are copied for it."""
        copied = loads(self.session, query, reading, refusal, made_by_users=True, placed=where)
        hidden = restricted_tables(query)
        counted = [
            (each.version.table, None if each.version.table.oid in hidden else each.row_count, each.found)
            for each in copied
        ]
        plan = postgres_plan(route, counted)
        if None in (rows for _, rows, _ in counted):
            return plan
        return plan | self._estimate(query, [Scanned(table, rows or 0) for table, rows, _ in counted])

    def _estimate(self, query: Node, scans: Sequence[Scanned]) -> Plan:
        return of_query(query, scans, self._sizes, self.session.gateway.builtins)

    async def _check_options(self) -> None:
        """Have PostgreSQL check the options, their values and combinations, by an EXPLAIN of an empty query."""
        options = self.routed.options
        if not options:
            return
        start, _ = self.analysis.taken_apart(explained)
        await self.session.backend.run(Statement(f"{self.analysis.sql[:start]}SELECT"))
        unknown = set(options) - _KNOWN_OPTIONS
        if unknown or self._format not in FORMATS:
            raise unsupported(f"EXPLAIN ({', '.join(sorted(unknown)).upper() or 'FORMAT ' + self._format.upper()})")

    async def _plan(self, routed: Routed, reading: Reading) -> Plan:
        assert routed.query is not None
        if self._rehearsed:
            return postgres_plan(routed.route, []) | self._estimate(routed.query, [])
        cursor = current_of(routed.query) if routed.route in (Route.UPDATE, Route.DELETE) else None
        if cursor is not None:  # it may be on no row, or missing, because the statement is not executed here
            reading = replace(reading, context=replace(reading.context, current=(f"current of {cursor}", 0)))
        try:
            handed = await with_temporary_tables(self.session, routed.query, reading)
            query = discreet(await _query(self.session, routed, handed))
            run = runnable(query, handed)
        except SluiceError as refusal:
            if (
                refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED
                or routed.route not in _COMPUTED
                or cursor is not None
            ):
                raise
            assert routed.query is not None
            if routed.route is Route.INSERT:
                reading = what_is_read(routed.query, reading)
            return self._computed(routed.route, routed.query, reading, refusal)
        path = self.session.gateway.data_path
        reads = {each.scan.name: await asyncio.to_thread(_reads, path, each) for each in run.scans}
        try:
            physical = await self.session.gateway.engine.explain(run, self.session.tag)
        except SluiceError as error:
            if error.sqlstate in _NOT_OF_ROWS:
                raise
            # Spark computes few rows while it plans: what they raise belongs to the statement, not to its plan.
            physical = "(fails over the rows)"
        plan = spark_plan(routed.route, query, reads, physical)
        if any(scan.restricted for scan in query.scans):
            return plan
        return plan | self._estimate(routed.query, [Scanned(each.table, each.rows) for each in reads.values()])

    async def _carry_out(self, inner: Analysis, routed: Routed, bound: Binding, code: int) -> tuple[int, int]:
        """Execute the statement; return the number of rows that it returned or changed, and the kilobytes of its result
        in that format.
        """
        session, client = self.session, self.session.client
        # The backend executes a part of some statements, so it needs a name for this one.
        binding = Binding(_EXPLAINED, bound.parameters, bound.parameter_formats, (code,), bound.canonical)
        silent = _Silent(session)
        async with prepared(session.backend, _EXPLAINED, inner.sql, inner.parameter_types):
            session.client = silent
            try:
                portal = await self._open(session, inner, routed, binding)
                try:
                    await portal.execute(0)
                finally:
                    await portal.close()
            finally:
                session.client = client
        count = silent.tag.rpartition(" ")[2]
        rows = int(count) if count.isdigit() else 0  # IF NOT EXISTS has found the table
        output = silent.row_bytes - rows * HEADER_BYTES if silent.row_bytes else 0
        return rows, -(-output // 1024)


def _reads(data_path: str, bound: BoundScan) -> Reads:
    """The files that a scan reads. Blocking."""
    table, files = bound.version.table, bound.version.files
    if bound.rows is not None:
        return Reads(table, 0, 0, rows=bound.row_count, are_handed=True)
    found = look_up(data_path, bound)
    scanned = len(found.whole) + len(found.rows)
    if found.index is None:
        return Reads(table, scanned, len(found.skipped), rows=sum(file.live_count for file in found.whole))
    opened, total = row_groups(data_path, table, files, found.rows)
    return Reads(table, scanned, len(found.skipped), found.index, found.row_count, opened, total - opened)


async def _query(session: SessionContext, routed: Routed, reading: Reading) -> SparkQuery:
    assert routed.query is not None
    match routed.route:
        case Route.SELECT if strongest(routed.query) is not None:
            return (await planned(session, reading, plan_locking, routed.query)).query
        case Route.SELECT:
            return await planned(session, reading, plan_select, routed.query)
        case Route.INSERT:
            return (await planned(session, reading, plan_insert, routed.query)).query
        case Route.UPDATE:
            return (await planned(session, reading, plan_update, routed.query)).query
        case Route.DELETE:
            return (await planned(session, reading, plan_delete, routed.query)).query
        case _:
            raise unsupported(f"EXPLAIN {routed.route.value.upper()}")
