"""SELECT … FOR UPDATE, NO KEY UPDATE, SHARE, KEY SHARE, outermost or in a subquery: see `locked_rows`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from gateway.lake.changing import Changing
from gateway.lake.locked_rows import locked_rows, with_subqueries_locked
from gateway.lake.reading import Reading, read, runnable
from gateway.lake.select import SelectPortal
from gateway.lake.table_locks import ROW_SHARE
from planner.locking import LockingPlan, plan_locking, strongest, subqueries
from planner.select import plan_select

if TYPE_CHECKING:
    from gateway.analysis import Analysis
    from gateway.exchange import Exchange
    from gateway.portal import Binding, Portal
    from gateway.routing import Routed


def select_portal(session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """The portal of a query, which may lock rows."""
    portal = LockingSelectPortal if locks_rows(routed) else SelectPortal
    return portal(session, analysis, routed, binding)


def locks_rows(routed: Routed) -> bool:
    """Whether a query locks rows, be it in a subquery."""
    return strongest(routed.query) is not None or bool(subqueries(routed.query))


class LockingSelectPortal(SelectPortal):
    """A query that locks the rows that it gives."""

    async def _open(self) -> Reading:
        outermost = strongest(self._routed.query)
        strength = outermost or strongest(subqueries(self._routed.query)[0])
        what, lake = f"SELECT FOR {strength}", self._routed.lake
        async with Changing(self, what, *lake, mode=ROW_SHARE) as changing:
            while True:
                reading = await read(self.session, self._analysis, self._binding, lake)
                locked = await with_subqueries_locked(self.session, self._routed.query, reading)
                if locked is None:
                    continue
                if not outermost:
                    break
                plan = plan_locking(self._routed.query, locked.context)
                batches = await locked_rows(self.session, plan, locked)
                if batches is not None:
                    self._batches = _shown(batches, plan)
                    break
            if not outermost:
                query = plan_select(self._routed.query, locked.context)
                self._stream = await self.session.gateway.engine.stream(runnable(query, locked), self.session.tag)
                self._batches = aiter(self._stream)
            await changing.finish()
        return reading


async def _shown(batches: Sequence[pa.RecordBatch], plan: LockingPlan) -> AsyncIterator[pa.RecordBatch]:
    """The columns that the client sees, less the rows of OFFSET."""
    skipped = plan.offset
    columns = list(range(plan.tables[0].place))
    for batch in batches:
        yield batch.slice(skipped).select(columns)
        skipped = max(0, skipped - batch.num_rows)
