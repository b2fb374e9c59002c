"""Locks the rows of a locking query: all that it returns are locked, before any of them is used.

If another transaction has replaced one since the query began, the query is computed again on the committed rows, like
an UPDATE; locks are kept. The rows are in memory until all are locked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.errors import unsupported
from gateway.execution.changes.standing_rows import RowsByTable, not_among
from gateway.execution.locks.row_locks import (
    Strength,
    Waiting,
    check_may_look_again,
    file_numbers,
    lock_rows,
    lockable_files,
    unharmed,
)
from gateway.execution.reading.plan_context import Reading, planned, runnable
from gateway.session.cancel_listener import attended
from planner.plans.locking_plan import LockedTable, LockingPlan, plan_locking, subqueries
from planner.spark.plan import Place
from planner.tree.nodes import Node

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# Joined rows are identified one by one, in the query that reads them again.
_JOINED_MAX: Final = 1000


class RowsAtHand:
    """A RowStream in memory."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = list(batches)
        self.schema = batches[0].schema if batches else pa.schema([])

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        for batch in self._batches:
            yield batch

    async def close(self) -> None:
        self._batches.clear()


def shown(batches: Sequence[pa.RecordBatch], plan: LockingPlan) -> list[pa.RecordBatch]:
    """The locked rows without those of OFFSET, with the columns for their places."""
    skipped, found = plan.offset, []
    for batch in batches:
        found.append(batch.slice(skipped))
        skipped = max(0, skipped - batch.num_rows)
    return found


def visible(batches: Sequence[pa.RecordBatch], plan: LockingPlan) -> RowsAtHand:
    """The locked rows as the client sees them."""
    columns = list(range(plan.tables[0].place))
    return RowsAtHand([batch.select(columns) for batch in shown(batches, plan)])


async def with_subqueries_locked(session: SessionContext, query: Node | None, reading: Reading) -> Reading | None:
    """The reading with the rows of each locking subquery. None if the query must begin again."""
    assert query is not None
    for node in subqueries(query):
        plan = await planned(session, reading, plan_locking, node, subquery=True)
        batches = await locked_rows(session, plan, reading)
        if batches is None:
            return None
        first = plan.tables[0].place
        rows: list[Sequence[Place]] = []
        for batch in shown(batches, plan):
            rows += zip(*(_places(batch, place) for place in range(first, batch.num_columns, 2)), strict=True)
        if len(rows) > _JOINED_MAX and batches[0].num_columns > first + 2:
            raise unsupported(f"FOR UPDATE or FOR SHARE of more than {_JOINED_MAX} joined rows in a subquery")
        context = replace(reading.context, locked={**reading.context.locked, id(node): rows})
        reading = replace(reading, context=context)
    return reading


def _places(batch: pa.RecordBatch, number: int) -> list[Place]:
    """The place of each row, from a column of files and the column of positions after it."""
    places = zip(batch.column(number).to_pylist(), batch.column(number + 1).to_pylist(), strict=True)
    return [None if file is None else (file, position) for file, position in places]


async def locked_rows(
    session: SessionContext, plan: LockingPlan, reading: Reading, replaced: RowsByTable | None = None
) -> list[pa.RecordBatch] | None:
    """The locked rows, including those of OFFSET, without those that were `replaced`. None if the query must begin
    again.
    """
    wanted = None if plan.limit is None else plan.offset + plan.limit
    found: list[pa.RecordBatch] = []
    stream = await session.gateway.engine.stream(runnable(plan.query, reading), session.tag)
    try:
        async for batch in attended(session, stream):
            rest = batch
            while rest.num_rows and wanted != 0:
                part = rest if wanted is None else rest.slice(0, wanted)
                rest = rest.slice(part.num_rows)
                locked = await _lock(session, part, plan.tables, reading, replaced or {})
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
    session: SessionContext,
    rows: pa.RecordBatch,
    tables: Sequence[LockedTable],
    reading: Reading,
    replaced: RowsByTable,
) -> npt.NDArray[np.bool_] | None:
    """Which rows are locked in all of these tables. None if another transaction has changed one meanwhile, and the
    isolation level permits a new attempt.
    """
    locked = not_among(rows, tables, replaced)
    for table in tables:
        version = reading.versions[table.table_oid]
        strength, waiting = Strength(table.strength), Waiting(table.waiting)
        lockable = lockable_files(session.transaction, version.files, strength)
        paths = {number: path for path, number in lockable.items()}
        files = file_numbers(rows.column(table.place))
        positions = rows.column(table.place + 1).to_numpy(zero_copy_only=False)
        asked = np.flatnonzero(np.isin(files, list(paths)) & locked)
        if not len(asked):
            continue
        places, inverse = np.unique(np.stack([files[asked], positions[asked]]), axis=1, return_inverse=True)
        taken = await lock_rows(session, version.table, places[0], places[1], strength, waiting)
        locked[asked] = taken[inverse.reshape(-1)]
        kept = places[:, taken]
        by_path = {paths[int(number)]: kept[1][kept[0] == number] for number in np.unique(kept[0])}
        if not await unharmed(session, by_path, version, strength):
            await check_may_look_again(session, version, by_path)
            return None
    return locked
