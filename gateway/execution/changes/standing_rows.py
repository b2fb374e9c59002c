"""The rows of a locking query that its transaction has not changed since it read the tables.

Source: nodeLockRows.c of PostgreSQL, which locks each row as it is fetched, and passes over those that the transaction
itself has changed. A savepoint that is undone brings such rows back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import unsupported
from gateway.execution.locks.row_locks import Strength
from gateway.session.visibility import staged
from storage.parquet.files import LakeFiles
from storage.parquet.positions import deleted_positions

if TYPE_CHECKING:
    from catalog.model import DeleteFile, Table
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.session_context import SessionContext
    from planner.plans.locking_plan import LockedTable, LockingPlan

# Positions of rows, by the table's OID and the path of their data file.
RowsByTable = Mapping[int, Mapping[str, npt.NDArray[np.int64]]]


@dataclass(frozen=True, slots=True)
class _Locked:
    """What a query has locked. `is_cut`: LIMIT may have left rows."""

    plan: LockingPlan
    reading: Reading
    is_cut: bool


class StandingRows:
    """Locked rows on their way to the client: `look` before each fetch, then `take`."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._locked: _Locked | None = None
        self._stagings = 0
        self._replaced: RowsByTable = {}
        self._passed_over = False

    def locked(self, plan: LockingPlan, reading: Reading, rows: Sequence[pa.RecordBatch]) -> None:
        """The query has just locked these rows, including those of OFFSET; their places follow the visible columns."""
        is_cut = plan.limit is not None and sum(map(len, rows)) >= plan.offset + plan.limit
        self._locked = _Locked(plan, reading, is_cut)
        self._stagings = self._count(plan)

    async def look(self) -> None:
        """Ask what the transaction has changed by now."""
        if self._locked is not None and self._count(self._locked.plan) != self._stagings:
            plan, reading = self._locked.plan, self._locked.reading
            self._replaced = await replaced_since(self._session, plan, reading, locked=True)

    def take(self, rest: pa.RecordBatch, count: int) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The next of the rows, at most `count`, and what is left of them."""
        if self._locked is None or not any(self._replaced.values()):
            rows, end = rest.slice(0, count), count
        else:
            standing = np.flatnonzero(not_among(rest, self._locked.plan.tables, self._replaced))
            chosen = standing[:count]
            rows, end = rest.take(pa.array(chosen)), rest.num_rows
            if len(chosen) == count:
                end = int(chosen[-1]) + 1
            self._passed_over |= len(chosen) < end
        return rows, rest.slice(end) if end < rest.num_rows else None

    def check_end(self) -> None:
        """After the last row: raise if PostgreSQL would lock others in place of those that were passed over."""
        if self._passed_over and self._locked is not None and self._locked.is_cut:
            raise unsupported(
                "FETCH beyond rows that the transaction has changed, in a query with LIMIT and FOR UPDATE or FOR SHARE",
                hint="Leave LIMIT away.",
            )

    def _count(self, plan: LockingPlan) -> int:
        """How many changes of these tables there are; some may be undone."""
        return sum(self._session.transaction.stagings(table.table_oid) for table in plan.tables)


async def replaced_since(
    session: SessionContext, plan: LockingPlan, reading: Reading, *, locked: bool = False
) -> RowsByTable:
    """The rows that the transaction itself has changed or deleted since it read the tables: PostgreSQL does not lock
    them. If those that matter are `locked`, others that are not may be among them.
    """
    found = dict[int, dict[str, npt.NDArray[np.int64]]]()
    for oid in {table.table_oid for table in plan.tables}:
        version = reading.versions[oid]
        before = {file.path: file.delete_file for file in version.files}
        own = {
            each.data_path: each.file
            for each in (await staged(session, oid)).deleted
            if each.data_path in before and each.file != before[each.data_path]
        }
        strengths = {Strength(table.strength) for table in plan.tables if table.table_oid == oid}
        shared = not locked or Strength.KEY_SHARE in strengths
        found[oid] = await _deleted(session, version.table, own, shared=shared) if own else {}
    return found


async def _deleted(
    session: SessionContext, table: Table, own: Mapping[str, DeleteFile], *, shared: bool
) -> dict[str, npt.NDArray[np.int64]]:
    """The positions that the transaction has deleted, by the path of their data file, from its delete files. If they
    are `shared`, they also have positions that other transactions have deleted before.
    """
    newest = (await session.gateway.store.versions([table.oid])).get(table.oid) if shared else None
    others = {file.path: file.delete_file for file in newest.files} if newest is not None else {}

    def read() -> dict[str, npt.NDArray[np.int64]]:
        files, found = LakeFiles(session.gateway.data_path), {}
        for path, deleted in own.items():
            positions, committed = deleted_positions(files, table.path, deleted), others.get(path)
            if committed is not None:
                positions = np.setdiff1d(positions, deleted_positions(files, table.path, committed))
            found[path] = positions
        return found

    return await asyncio.to_thread(read)


def not_among(rows: pa.RecordBatch, tables: Sequence[LockedTable], replaced: RowsByTable) -> npt.NDArray[np.bool_]:
    """Which rows have no part, in any of these tables, that was `replaced`."""
    standing = np.ones(rows.num_rows, np.bool_)
    for table in tables:
        for path, gone in replaced.get(table.table_oid, {}).items():
            here = pc.fill_null(pc.equal(rows.column(table.place), path), False).to_numpy(zero_copy_only=False)
            standing &= ~(here & np.isin(rows.column(table.place + 1).to_numpy(zero_copy_only=False), gone))
    return standing
