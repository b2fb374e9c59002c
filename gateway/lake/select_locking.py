"""SELECT … FOR UPDATE, NO KEY UPDATE, SHARE, KEY SHARE: the rows are locked, as many as are shown, before any is sent.

Where another transaction has replaced any of them since the query began, the query is computed again on what that one
committed, as an UPDATE would be; what was locked stays locked. Rows are kept in memory until all of them are locked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.model import TableVersion
from gateway.lake.changing import Changing
from gateway.lake.reading import Reading, read, runnable
from gateway.lake.row_locks import Strength, Waiting, changed_meanwhile, lock_rows, untouched
from gateway.lake.select import SelectPortal
from gateway.lake.table_locks import ROW_SHARE
from gateway.transaction import Isolation
from planner.locking import LockedTable, LockingPlan, plan_locking, strongest

if TYPE_CHECKING:
    from gateway.analysis import Analysis
    from gateway.exchange import Exchange
    from gateway.portal import Binding, Portal
    from gateway.routing import Routed


def select_portal(session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """The portal of a query, which may lock rows."""
    locks = strongest(routed.query) is not None
    return (LockingSelectPortal if locks else SelectPortal)(session, analysis, routed, binding)


class LockingSelectPortal(SelectPortal):
    """A query that locks the rows that it gives."""

    async def _open(self) -> Reading:
        what, lake = f"SELECT FOR {strongest(self._routed.query)}", self._routed.lake
        async with Changing(self, what, *lake, mode=ROW_SHARE) as changing:
            while True:
                reading = await read(self.session, self._analysis, self._binding, self._routed.lake)
                plan = plan_locking(self._routed.query, reading.context)
                batches = await self._locked(plan, reading)
                if batches is not None:
                    break
                if self.session.transaction.isolation is not Isolation.READ_COMMITTED:
                    raise changed_meanwhile()
            await changing.finish()
        self._batches = _shown(batches, plan)
        return reading

    async def _locked(self, plan: LockingPlan, reading: Reading) -> list[pa.RecordBatch] | None:
        """The rows that are locked, those of OFFSET among them; None where somebody has changed any meanwhile."""
        wanted = None if plan.limit is None else plan.offset + plan.limit
        found: list[pa.RecordBatch] = []
        stream = await self.session.gateway.engine.stream(runnable(plan.query, reading), self.session.tag)
        try:
            async for batch in stream:
                rest = batch
                while rest.num_rows and wanted != 0:
                    part = rest if wanted is None else rest.slice(0, wanted)
                    rest = rest.slice(part.num_rows)
                    locked = await self._lock(part, plan.tables, reading)
                    if locked is None:
                        return None
                    found.append(part.filter(pa.array(locked)))
                    if wanted is not None:
                        wanted -= found[-1].num_rows
                if wanted == 0:
                    break
        finally:
            await stream.close()
        return found

    async def _lock(
        self, rows: pa.RecordBatch, tables: Sequence[LockedTable], reading: Reading
    ) -> npt.NDArray[np.bool_] | None:
        """Which of the rows are locked in all of these tables; None where any has been changed meanwhile."""
        locked = np.ones(rows.num_rows, np.bool_)
        for table in tables:
            version = reading.versions[table.table_oid]
            files = _published(rows.column(table.place), version)
            positions = rows.column(table.place + 1).to_numpy(zero_copy_only=False)
            asked = np.flatnonzero((files >= 0) & locked)
            if not len(asked):
                continue
            places, inverse = np.unique(np.stack([files[asked], positions[asked]]), axis=1, return_inverse=True)
            taken = await lock_rows(
                self.session, version, places[0], places[1], Strength(table.strength), Waiting(table.waiting)
            )
            locked[asked] = taken[inverse.reshape(-1)]
            kept = places[:, taken]
            by_file = {int(number): kept[1][kept[0] == number] for number in np.unique(kept[0])}
            if not await untouched(self.session, by_file, version):
                return None
        return locked


def _published(paths: pa.Array, version: TableVersion) -> npt.NDArray[np.int64]:
    """The ID of each row's data file; -1 for one that only this transaction sees."""
    ids = {file.path: -1 if file.data_file_id is None else file.data_file_id for file in version.files}
    encoded = paths.dictionary_encode()
    numbers = np.array([ids[path] for path in encoded.dictionary.to_pylist()], np.int64)
    of_rows: npt.NDArray[np.int64] = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return of_rows


async def _shown(batches: Sequence[pa.RecordBatch], plan: LockingPlan) -> AsyncIterator[pa.RecordBatch]:
    """The columns that the client sees, less the rows of OFFSET."""
    skipped = plan.offset
    columns = list(range(plan.tables[0].place))
    for batch in batches:
        yield batch.slice(skipped).select(columns)
        skipped = max(0, skipped - batch.num_rows)
