"""Read the live rows of a table without Spark, for tables so small that Spark's latency would dominate.

`live_rows` blocks: call it in a thread; `live_rows_aside` does so itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pyarrow as pa

from catalog.model import TableVersion
from storage.parquet.file_rows import live_rows_of
from storage.parquet.files import LakeFiles

# Each batch costs its reader a statement.
_ROWS_TOGETHER: Final = 20_000
_BYTES_TOGETHER: Final = 4 * 2**20


def live_rows(data_path: str, version: TableVersion) -> Iterator[pa.RecordBatch]:
    """Yield all columns in lake form, under the columns' names; the rows of small files come together."""
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in _live_batches(data_path, version):
        parts.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS_TOGETHER or size >= _BYTES_TOGETHER:
            yield pa.concat_batches(parts)
            parts, rows, size = [], 0, 0
    if parts:
        yield pa.concat_batches(parts)


def _live_batches(data_path: str, version: TableVersion) -> Iterator[pa.RecordBatch]:
    files, table = LakeFiles(data_path), version.table
    for file in version.files:
        yield from filter(len, live_rows_of(files, table, file, table.columns))


async def live_rows_aside(data_path: str, version: TableVersion) -> AsyncIterator[pa.RecordBatch]:
    """Yield the same, each batch read in a thread."""
    batches = live_rows(data_path, version)
    while (batch := await asyncio.to_thread(_next, batches)) is not None:
        yield batch


def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next(batches, None)
