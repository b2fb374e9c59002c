"""SELECT … FOR UPDATE, NO KEY UPDATE, SHARE, KEY SHARE, outermost or in a subquery: see `locked_rows`.

What Spark cannot compute of the rows that it has found to lock, PostgreSQL computes over copies of them
(`planner.computed_locking`), before the transaction goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from catalog.model import TableVersion
from gateway.kept_answers import KeptAnswers
from gateway.lake.changing import Changing
from gateway.lake.computed import SMALL_ROWS, Computing, Locked
from gateway.lake.locked_rows import locked_rows, with_subqueries_locked
from gateway.lake.reading import Reading, read, runnable
from gateway.lake.rehearsal import load, places_in
from gateway.lake.select import SelectPortal
from gateway.lake.table_locks import ROW_SHARE
from planner.computed_locking import is_cut, locking_alone
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
                plan, refusal = self._plan(locked)
                batches = await locked_rows(self.session, plan, locked)
                if batches is None:
                    continue
                if refusal is None:
                    self._batches = _shown(batches, plan)
                else:
                    await self._compute_locked(plan, batches, locked, refusal)
                break
            if not outermost:
                query = plan_select(self._routed.query, locked.context)
                self._stream = await self.session.gateway.engine.stream(runnable(query, locked), self.session.tag)
                self._batches = aiter(self._stream)
            await changing.finish()
        return reading

    def _plan(self, reading: Reading) -> tuple[LockingPlan, SluiceError | None]:
        """The plan; with a refusal, it gives no more than where the rows are."""
        try:
            return plan_locking(self._routed.query, reading.context), None
        except SluiceError as refusal:
            alone = None
            if refusal.sqlstate == SqlState.FEATURE_NOT_SUPPORTED:
                alone = locking_alone(self._routed.query, self.session.gateway.builtins)
            if alone is None:
                raise
            return plan_locking(alone, reading.context), refusal

    async def _compute_locked(
        self, plan: LockingPlan, batches: Sequence[pa.RecordBatch], reading: Reading, refusal: SluiceError
    ) -> None:
        """Have PostgreSQL compute what the query gives of the rows that are locked."""
        rows: dict[int, pa.Table] = {}
        if is_cut(self._routed.query):
            [table] = plan.tables
            version = reading.versions[table.table_oid]
            places = _places(batches, table.place, version)
            if len(places) > SMALL_ROWS:
                raise refusal
            path = self.session.gateway.data_path
            loaded = await asyncio.to_thread(load, path, version.table, version.files, places)
            rows[table.table_oid] = loaded.rows
        kept = self._computed = KeptAnswers(only_rows=True)
        async with Computing(
            self.session, self._routed.query, reading, refusal, made_by_users=True, locked=Locked(rows)
        ) as computing:
            tag = await computing.send(self._binding, kept)
        self._left = int(tag.removeprefix("SELECT "))


def _places(batches: Sequence[pa.RecordBatch], column: int, version: TableVersion) -> npt.NDArray[np.int64]:
    """Where the rows are in the files of this version, each once, ascending."""
    numbers = {file.path: number for number, file in enumerate(version.files)}
    found = [places_in(batch, column, numbers) for batch in batches]
    return np.unique(np.concatenate([np.empty(0, np.int64), *found]))


async def _shown(batches: Sequence[pa.RecordBatch], plan: LockingPlan) -> AsyncIterator[pa.RecordBatch]:
    """The columns that the client sees, less the rows of OFFSET."""
    skipped = plan.offset
    columns = list(range(plan.tables[0].place))
    for batch in batches:
        yield batch.slice(skipped).select(columns)
        skipped = max(0, skipped - batch.num_rows)
