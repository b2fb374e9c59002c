"""UPDATE and DELETE of many rows that PostgreSQL computes in the shadow, portion by portion, in bounded memory.

A row's outcome does not depend on the table's other rows (`planner.plans.row_wise`), so it is the same in any portion.
The conditions that Spark can compute choose the rows beforehand; without any, every row is copied.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.execution.changes.shadow_execution import Outcome, gone_rows, paired
from gateway.execution.reading.plan_context import runnable
from gateway.execution.reading.postgres_query import SMALL_ROWS, Computing, rows_at_once
from gateway.execution.shadow.loaded_rows import Loaded, live_places, load, places_in
from gateway.session.cancel_listener import attending, check
from gateway.session.offload import offloaded
from gateway.session.response_spool import ResponseSpool
from gateway.wire.messages.backend import RowDescription
from planner.plans.row_filter import needed_places
from planner.plans.row_wise import is_row_wise
from storage.indexes.keys import LiveFile
from storage.spark.async_parquet_writer import WriterAside
from storage.spark.write import WriteResult, replace_rows

if TYPE_CHECKING:
    from catalog.errors import SluiceError
    from catalog.model import Table, TableVersion
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.session_context import SessionContext
    from planner.tree.nodes import Node

_HINT: Final = (
    f"PostgreSQL computes it where the table has no more than {SMALL_ROWS} rows, or where a row's new values do not"
    " depend on the table's other rows, nor on functions of users."
)

# Executes the statement over loaded rows; what it answers is kept.
Rehearsal = Callable[[Loaded, ResponseSpool], Awaitable[Outcome]]


class Answers(ResponseSpool):
    """The answers to one statement that is executed in portions: its rows are described once."""

    def __init__(self) -> None:
        super().__init__()
        self._described = False

    async def keep(self, data: bytes | memoryview) -> None:
        """Keep the answers of a portion. Rows come as memoryviews, cut anywhere; other messages as bytes."""
        if isinstance(data, bytes) and data[0] == RowDescription.type:
            if self._described:
                return
            self._described = True
        await super().keep(data)


class Portions:
    """The rows of a large table that a statement needs, in portions that fit into the shadow."""

    def __init__(self, session: SessionContext, version: TableVersion, places: npt.NDArray[np.int64] | None) -> None:
        """`places`: those of the rows (`places_of`), ascending; None for all rows."""
        self._session = session
        self._version = version
        self._places = places
        self._size = rows_at_once(version)

    async def loaded(self) -> AsyncIterator[Loaded]:
        """At least one portion, be it without rows."""
        table, files, path = self._version.table, self._version.files, self._session.gateway.data_path
        waiting, is_first = np.empty(0, np.int64), True
        async for places in self._by_files():
            waiting = np.concatenate([waiting, places])
            while len(waiting) >= self._size:
                portion, waiting = waiting[: self._size], waiting[self._size :]
                yield await asyncio.to_thread(load, path, table, files, portion)
                is_first = False
        if is_first or len(waiting):
            yield await asyncio.to_thread(load, path, table, files, waiting)

    async def _by_files(self) -> AsyncIterator[npt.NDArray[np.int64]]:
        if self._places is not None:
            yield self._places
            return
        for number, file in enumerate(self._version.files):
            yield await asyncio.to_thread(
                live_places, self._session.gateway.data_path, self._version.table, number, LiveFile.of(file)
            )


async def portions(  # noqa: PLR0917
    session: SessionContext,
    query: Node,
    version: TableVersion,
    reading: Reading,
    of_rules: frozenset[int],
    refusal: SluiceError,
) -> Portions:
    """The portions of a large table; raises `refusal` if the statement must see its rows together.

    `of_rules` are the users' functions that PostgreSQL runs for each new row.
    """
    refusal.fields.setdefault("H", _HINT)
    oid = version.table.oid
    if of_rules or not await offloaded(session, reading.size, is_row_wise, query, oid, session.gateway.builtins):
        raise refusal
    needed = await offloaded(session, reading.size, needed_places, query, oid, reading.context)
    if needed is None:
        return Portions(session, version, None)
    [scan] = needed.scans
    numbers = {file.path: number for number, file in enumerate(version.files)}
    found = [np.empty(0, np.int64)]
    async with attending(session):
        stream = await session.gateway.engine.stream(runnable(needed, reading, {scan.name: version}), session.tag)
        try:
            found += [places_in(batch, 0, numbers) async for batch in stream]
        finally:
            await stream.close()
    return Portions(session, version, np.sort(np.concatenate(found)))


async def change_portions(
    session: SessionContext,
    version: TableVersion,
    parts: Portions,
    computing: Computing,
    rehearse: Rehearsal,
) -> tuple[WriteResult, Answers, str, pa.Table | None]:
    """Execute the statement over each portion. Returns what was written, the answers with their tag, and which old row
    each new one replaced (`WriteResult.sources`; None if that is unknown).
    """
    table, path = version.table, session.gateway.data_path
    answers, tag, count = Answers(), "", 0
    replaced: dict[str, list[npt.NDArray[np.int64]]] = {}
    pairs: list[pa.Table | None] = []
    try:
        async with WriterAside(path, table, session.transaction.hot_rows_max, order_max=sys.maxsize) as writer:
            async for loaded in parts.loaded():
                check(session)
                computing.count_copied(loaded.rows.nbytes)
                outcome = await rehearse(loaded, answers)
                tag, _, number = outcome.tag.rpartition(" ")
                count += int(number)
                gone, sources = await asyncio.to_thread(_compared, table, loaded, outcome)
                for name, positions in gone.items():
                    replaced.setdefault(name, []).append(positions)
                pairs.append(sources)
                await writer.write_made(outcome.fresh.to_batches)
            made = await writer.finish()
        result = await _with_deletions(session, version, made, replaced)
    except BaseException:
        answers.close()
        raise
    known = [each for each in pairs if each is not None]
    return result, answers, f"{tag} {count}", pa.concat_tables(known) if len(known) == len(pairs) else None


def _compared(
    table: Table, loaded: Loaded, outcome: Outcome
) -> tuple[dict[str, npt.NDArray[np.int64]], pa.Table | None]:
    """The loaded rows that have changed or gone, and which of them each new one replaced. Blocking."""
    return gone_rows(table, loaded, outcome.kept), paired(table, loaded, outcome)


async def _with_deletions(
    session: SessionContext,
    version: TableVersion,
    made: WriteResult,
    replaced: Mapping[str, Sequence[npt.NDArray[np.int64]]],
) -> WriteResult:
    """The new files together with the deletions of the rows that theirs replace."""
    path, hot_rows = session.gateway.data_path, session.transaction.hot_rows_max
    try:
        gone = {name: np.concatenate(positions) for name, positions in replaced.items()}
        result = await asyncio.to_thread(replace_rows, path, version, gone, (), hot_rows)
    except BaseException:
        await session.gateway.engine.discard(made, version.table.path)
        raise
    return WriteResult(made.data_files, result.delete_files, result.row_count, None, result.positions, order=made.order)
