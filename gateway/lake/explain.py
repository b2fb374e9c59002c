"""EXPLAIN of a lake statement: Sluice's own plan, for PostgreSQL's would be that of an empty table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from catalog.errors import unsupported
from gateway.lake.reading import Reading, read, runnable
from gateway.messages.backend import CommandComplete, DataRow
from gateway.portal import Binding, StatementPortal
from planner.change import plan_delete, plan_insert, plan_update
from planner.explain import explain_lines
from planner.locking import plan_locking, strongest
from planner.plan import SparkQuery
from planner.routes import Route
from planner.select import plan_select
from storage.pruning import prune

if TYPE_CHECKING:
    from gateway.analysis import Analysis
    from gateway.exchange import Exchange
    from gateway.routing import Routed

_KNOWN_OPTIONS = frozenset(
    {"analyze", "verbose", "costs", "timing", "summary", "buffers", "settings", "wal", "format", "memory"}
)


class ExplainPortal(StatementPortal):
    """Route, files scanned and skipped, Spark's plan; with ANALYZE a SELECT is run, and times and rows are added."""

    def __init__(self, session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        super().__init__(session, analysis, routed, binding)
        unknown = set(routed.options) - _KNOWN_OPTIONS
        if unknown or routed.options.get("format", "text") != "text":
            raise unsupported(f"EXPLAIN ({', '.join(sorted(unknown)).upper() or 'FORMAT other than TEXT'})")

    async def run(self) -> None:
        session, inner, routed = self.session, self.routed.inner, self.routed.inner_routed
        assert inner is not None
        assert routed is not None
        began = time.perf_counter()
        reading = await read(session, inner, self.binding, routed.lake)
        query = _plan(routed, reading)
        planned = time.perf_counter()
        files = {}
        for scan in query.scans:
            version = reading.versions[scan.table_oid]
            kept, skipped = prune(version.files, version.table, scan.predicate)
            files[scan.name] = (version.table, len(kept), len(skipped))
        physical = await session.gateway.engine.explain(runnable(query, reading), session.tag)
        lines = explain_lines(routed.route, query, files, physical)
        if self.routed.options.get("analyze", "false") in {"true", "on", "1"}:
            lines += await self._analyze(routed, query, reading, planned - began)
        self.announce()
        for line in lines:
            session.client.send(DataRow((line.encode(),)))
        session.client.send(CommandComplete("EXPLAIN"))

    async def _analyze(self, routed: Routed, query: SparkQuery, reading: Reading, planning: float) -> list[str]:
        if routed.route is not Route.SELECT or strongest(routed.query) is not None:
            raise unsupported("EXPLAIN ANALYZE of a statement that changes or locks rows")
        began = time.perf_counter()
        stream = await self.session.gateway.engine.stream(runnable(query, reading), self.session.tag)
        rows = 0
        try:
            async for batch in stream:
                rows += batch.num_rows
        finally:
            await stream.close()
        return [
            f"Actual rows: {rows}",
            f"Planning Time: {planning * 1000:.3f} ms",
            f"Execution Time: {(time.perf_counter() - began) * 1000:.3f} ms",
        ]


def _plan(routed: Routed, reading: Reading) -> SparkQuery:
    assert routed.query is not None
    match routed.route:
        case Route.SELECT if strongest(routed.query) is not None:
            return plan_locking(routed.query, reading.context).query
        case Route.SELECT:
            return plan_select(routed.query, reading.context)
        case Route.INSERT:
            return plan_insert(routed.query, reading.context).query
        case Route.UPDATE:
            return plan_update(routed.query, reading.context).query
        case Route.DELETE:
            return plan_delete(routed.query, reading.context).query
        case _:
            raise unsupported(f"EXPLAIN {routed.route.value.upper()}")
