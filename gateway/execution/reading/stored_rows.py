"""The rows of a query that only reads columns, or their number: from the table's files, without PostgreSQL or Spark."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.session.offload import offloaded
from storage.indexes.lookup import LookUp, look_up
from storage.parquet.stored_rows import StoredRows
from storage.plan import BoundScan, RunnableStored, Scan, StoredPart

if TYPE_CHECKING:
    import pyarrow as pa

    from catalog.model import TableVersion
    from gateway.execution.reading.plan_context import Reading
    from gateway.execution.shadow.loaded_rows import Loaded
    from gateway.session.lake_cursor import RowStream
    from gateway.session.session_context import SessionContext
    from planner.plans.stored_scan import StoredScan

# Spark looks for rows that meet a condition among more rows than these: it has all cores, or other machines.
_SEARCHED_ROWS_MAX: Final = 2_000_000
# Statistics of more files are looked at in a thread.
_FILES_AT_ONCE: Final = 100
# Rows in memory that are more than so large are filtered in a thread.
_BYTES_AT_ONCE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class StoredRead:
    """What is read of a table; `scan` has the conditions by which files are left out."""

    version: TableVersion
    runnable: RunnableStored
    scan: Scan

    @property
    def reads_no_file(self) -> bool:
        """Whether the catalog tells the result: how many rows the table has."""
        return bool(self.runnable.counts) and not self.runnable.conditions

    @property
    def row_count(self) -> int:
        """The rows that are looked at."""
        rows = self.runnable.rows
        if rows is not None:
            return int(rows.num_rows)
        counts = (part.file.live_count if part.positions is None else len(part.positions)
                  for part in self.runnable.parts)  # fmt: skip
        return sum(counts)


async def to_read(
    session: SessionContext, stored: StoredScan, reading: Reading, by_key: Loaded | None
) -> StoredRead | None:
    """What a query reads; None if Spark has to look for its rows. `by_key` are the rows that keys have found, if they
    have found all that the query can need."""
    version = reading.versions.get(stored.table_oid)
    if version is None:
        raise SluiceError(SqlState.UNDEFINED_TABLE, "a table of this statement was dropped meanwhile")
    scan = Scan("", stored.table_oid, tuple(column.attnum for column in stored.columns), stored.predicate)
    parts = tuple[StoredPart, ...]()
    if by_key is None:
        looked_up = await _looked_up(session, BoundScan(scan, version, reading.sidecars), reading.size)
        parts = tuple(_parts(version, looked_up))
    runnable = RunnableStored(
        version.table,
        stored.columns,
        parts,
        stored.conditions,
        stored.offset,
        stored.limit,
        None if by_key is None else by_key.rows,
        stored.counts,
    )
    read = StoredRead(version, runnable, scan)
    return None if stored.conditions and read.row_count > _SEARCHED_ROWS_MAX else read


async def _looked_up(session: SessionContext, scan: BoundScan, size: int) -> LookUp:
    """What a scan must read; `size` is that of its statement."""
    data_path = session.gateway.data_path
    if not scan.sidecars and len(scan.version.files) <= _FILES_AT_ONCE:
        return await offloaded(session, size, look_up, data_path, scan)
    return await asyncio.to_thread(look_up, data_path, scan)


def _parts(version: TableVersion, found: LookUp) -> list[StoredPart]:
    """The parts of the table in which rows may meet the conditions, in the order of its rows."""
    whole = {file.path for file in found.whole}
    return [
        StoredPart(file, found.rows.get(file.path))
        for file in version.files
        if file.path in whole or file.path in found.rows
    ]


class _Ready:
    """A `RowStream` of batches that are in memory; each is given once."""

    def __init__(self, rows: StoredRows) -> None:
        self.schema = rows.schema
        self._batches = deque(rows)

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        while self._batches:
            yield self._batches.popleft()

    async def close(self) -> None:
        self._batches.clear()


async def stored_rows(
    session: SessionContext, read: StoredRead, reading: Reading, tag: str, limit_time: Callable[[float | None], None]
) -> RowStream:
    """Start reading; `tag` is the engine's name for the query."""
    limit_time(reading.timeout)
    given = read.runnable.rows
    if read.reads_no_file or (given is not None and given.nbytes <= _BYTES_AT_ONCE):
        return _Ready(StoredRows(session.gateway.data_path, read.runnable))
    return await session.gateway.engine.stored(read.runnable, tag)
