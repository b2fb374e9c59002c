"""The live rows of a table, read without Spark: for tables so small that its latency would be most of the work.

`live_rows` blocks: call it in a thread; `live_rows_aside` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import numpy as np
import pyarrow as pa

from catalog.model import TableVersion
from storage.files import LakeFiles
from storage.keys import read_rows
from storage.positions import deleted_positions


def live_rows(data_path: str, version: TableVersion) -> Iterator[pa.RecordBatch]:
    """All columns in lake form, under the columns' names, batch by batch."""
    files, table = LakeFiles(data_path), version.table
    for file in version.files:
        deleted = None if file.delete_file is None else deleted_positions(files, table.path, file.delete_file)
        for first, batch in read_rows(files, table, file, table.columns):
            live = batch
            if deleted is not None:
                places = np.arange(first, first + batch.num_rows)
                live = batch.filter(pa.array(~np.isin(places, deleted)))
            if live.num_rows:
                yield live


async def live_rows_aside(data_path: str, version: TableVersion) -> AsyncIterator[pa.RecordBatch]:
    """The same, each batch read in a thread."""
    batches = live_rows(data_path, version)
    while (batch := await asyncio.to_thread(_next, batches)) is not None:
        yield batch


def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next(batches, None)
