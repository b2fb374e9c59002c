"""Copies the rows that Spark has locked, for PostgreSQL to compute what Spark cannot
(`planner.plans.postgres_locking`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from catalog.model import TableVersion
from gateway.execution.reading.plan_context import planned
from gateway.execution.reading.postgres_query import SMALL_ROWS, Locked
from gateway.execution.shadow.loaded_rows import load, places_in
from planner.plans.locking_plan import LockingPlan, plan_locking
from planner.plans.postgres_locking import is_cut, locking_alone, reads_one_table_once

if TYPE_CHECKING:
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.session_context import SessionContext
    from planner.tree.nodes import Node


async def plan_locks(
    session: SessionContext, query: Node | None, reading: Reading
) -> tuple[LockingPlan, SluiceError | None]:
    """The plan of a query that locks rows; with a refusal, it gives the rows' places only."""
    try:
        return await planned(session, reading, plan_locking, query), None
    except SluiceError as refusal:
        alone = None
        if refusal.sqlstate == SqlState.FEATURE_NOT_SUPPORTED:
            alone = locking_alone(query, session.gateway.builtins)
        if alone is None:
            raise
        return await planned(session, reading, plan_locking, alone), refusal


async def locked_copies(  # noqa: PLR0917
    session: SessionContext,
    query: Node | None,
    plan: LockingPlan,
    batches: Sequence[pa.RecordBatch],
    reading: Reading,
    refusal: SluiceError,
    *,
    passes_over: bool = False,
) -> Locked:
    """The rows to copy for PostgreSQL, of tables of which it may have no other rows; these `batches` are locked.

    `passes_over`: some rows that satisfy the query's conditions may be missing. Raises `refusal` if the rows cannot be
    determined.
    """
    assert query is not None
    if not is_cut(query) and not passes_over:
        return Locked({})
    if not reads_one_table_once(query):
        raise refusal
    [table] = plan.tables
    version = reading.versions[table.table_oid]
    places = _places(batches, table.place, version)
    if len(places) > SMALL_ROWS:
        raise refusal
    loaded = await asyncio.to_thread(load, session.gateway.data_path, version.table, version.files, places)
    return Locked({table.table_oid: loaded.rows})


def _places(batches: Sequence[pa.RecordBatch], column: int, version: TableVersion) -> npt.NDArray[np.int64]:
    """The distinct positions of the rows in the files of this version, ascending."""
    numbers = {file.path: number for number, file in enumerate(version.files)}
    found = [places_in(batch, column, numbers) for batch in batches]
    return np.unique(np.concatenate([np.empty(0, np.int64), *found]))
