"""Read the live rows of a table without Spark, for tables so small that Spark's latency would dominate.

`live_rows` blocks: call it in a thread; `live_rows_aside` does so itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pyarrow as pa

from catalog.model import TableVersion
from storage.parquet.file_rows import live_rows_of, together
from storage.parquet.files import LakeFiles

# Each batch costs its reader a statement.
_ROWS_TOGETHER: Final = 20_000


def live_rows(data_path: str, version: TableVersion) -> Iterator[pa.RecordBatch]:
    """Yield all columns in lake form, under the columns' names; the rows of small files come together."""
    yield from together(_live_batches(data_path, version), _ROWS_TOGETHER, _ROWS_TOGETHER)


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
