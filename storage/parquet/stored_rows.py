"""The rows of a table as its files store them, for a query that only reads columns or counts rows: without Spark.

Rows come file by file in their order of insertion, in batches of bounded memory. Blocking: iterate in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from catalog.model import DataFile
from storage.parquet.arrow_types import arrow_type
from storage.parquet.file_rows import live_rows_at, live_rows_of, together
from storage.parquet.files import LakeFiles
from storage.parquet.initial_default import initial_default
from storage.parquet.row_conditions import RowFilter, read_columns
from storage.plan import RunnableStored

BATCH_ROWS_MAX: Final = 65_536


class StoredRows:
    """The rows of a scan, each of its columns a place in the batches; see `schema`.

    Batches may be empty, so that a reader who waits for rows that meet a condition can be cancelled. Iterate once.
    0A000 if an initial default has no lake form; errors of files as `LakeFiles.parquet`.
    """

    def __init__(self, data_path: str, stored: RunnableStored) -> None:
        self._data_path = data_path
        self._files = LakeFiles(data_path)
        self._stored = stored
        self._left_out = stored.offset
        self._read = read_columns(stored.table, stored.columns, stored.conditions)
        self._filter = RowFilter(self._read, stored.conditions)
        self._places = [self._read.index(column) for column in stored.columns]
        types = [pa.int64()] * stored.counts or [arrow_type(column.form) for column in stored.columns]
        self.schema = pa.schema([pa.field(str(place), kind) for place, kind in enumerate(types)])
        for column in self._read:
            if column.initial_default is not None:
                initial_default(column)  # a refusal comes before the first row

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._counted() if self._stored.counts else self._rows()

    def _counted(self) -> Iterator[pa.RecordBatch]:
        """Yield the number of rows; without conditions the catalog knows it, and no file is read."""
        count = 0
        if self._stored.rows is None and not self._stored.conditions:
            count = sum(part.file.live_count for part in self._stored.parts)
        else:
            for batch in self._batches():
                count += self._filter.of(batch).num_rows
                yield pa.RecordBatch.from_pylist([], self.schema)
        yield pa.RecordBatch.from_arrays([pa.array([count], pa.int64())] * self._stored.counts, schema=self.schema)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        left = self._stored.limit
        if left is not None and left <= 0:
            return
        for batch in self._batches():
            found = self._filter.of(batch)
            rows = found.slice(self._left_out, left)
            self._left_out = max(0, self._left_out - found.num_rows)
            left = None if left is None else left - rows.num_rows
            yield pa.RecordBatch.from_arrays([rows.column(place) for place in self._places], schema=self.schema)
            if left == 0:
                return

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._stored.rows is not None:
            return self._given(self._stored.rows)
        if self._stored.conditions or self._stored.limit is None:
            return together(self._of_parts(), BATCH_ROWS_MAX)
        return self._of_parts()

    def _given(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        yield from rows.select([column.name for column in self._read]).to_batches(BATCH_ROWS_MAX)

    def _of_parts(self) -> Iterator[pa.RecordBatch]:
        parts = list(self._stored.parts)
        if not self._stored.conditions:
            while parts and parts[0].positions is None and self._left_out >= parts[0].file.live_count:
                self._left_out -= parts.pop(0).file.live_count
        for part in parts:
            if part.positions is not None:
                yield from live_rows_at(self._files, self._stored.table, part.file, self._read, part.positions)
            else:
                at_once = self._rows_wanted(part.file)
                yield from live_rows_of(self._files, self._stored.table, part.file, self._read, at_once, streamed=True)

    def _rows_wanted(self, file: DataFile) -> int:
        """Return how many rows of a file to read at once: few if few are wanted."""
        if self._stored.conditions or self._stored.limit is None or file.delete_file is not None:
            return BATCH_ROWS_MAX
        return min(BATCH_ROWS_MAX, self._left_out + self._stored.limit)
