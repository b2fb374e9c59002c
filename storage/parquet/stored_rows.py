"""The rows of a table as its files store them, for a query that only reads columns: from Parquet, without Spark.

Rows come file by file in their order of insertion, in batches of bounded memory. Blocking: iterate in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from catalog.model import Column, DataFile, TableVersion
from storage.parquet.arrow_types import arrow_type
from storage.parquet.file_rows import live_rows_of
from storage.parquet.files import LakeFiles
from storage.parquet.initial_default import initial_default

BATCH_ROWS_MAX: Final = 65_536


class StoredRows:
    """Columns of the live rows of a table's version, each column a place in the batches; see `schema`.

    `offset` rows are left out, then at most `limit` are given. Iterate once. 0A000 if an initial default has no lake
    form; errors of files as `LakeFiles.parquet`.
    """

    def __init__(
        self,
        data_path: str,
        version: TableVersion,
        columns: Sequence[Column],
        offset: int = 0,
        limit: int | None = None,
    ) -> None:
        self._files = LakeFiles(data_path)
        self._version = version
        self._distinct = list(dict.fromkeys(columns))
        self._places = [self._distinct.index(column) for column in columns]
        self._offset = offset
        self._limit = limit
        self.schema = pa.schema([pa.field(str(place), arrow_type(column.form)) for place, column in enumerate(columns)])
        for column in self._distinct:
            if column.initial_default is not None:
                initial_default(column)  # a refusal comes before the first row

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        left_out, left = self._offset, self._limit
        for file in self._version.files:
            if left is not None and left <= 0:
                return
            if left_out >= file.live_count:
                left_out -= file.live_count
                continue
            for batch in self._live(file, left_out, left):
                rows = batch.slice(left_out, left)
                left_out = max(0, left_out - batch.num_rows)
                if not rows.num_rows:
                    continue
                left = None if left is None else left - rows.num_rows
                yield pa.RecordBatch.from_arrays([rows.column(place) for place in self._places], schema=self.schema)
                if left == 0:
                    return

    def _live(self, file: DataFile, left_out: int, left: int | None) -> Iterator[pa.RecordBatch]:
        """Return the live rows of a file, few at a time if few are wanted."""
        at_once = BATCH_ROWS_MAX
        if left is not None and file.delete_file is None:
            at_once = min(BATCH_ROWS_MAX, left_out + left)
        return live_rows_of(self._files, self._version.table, file, self._distinct, at_once, streamed=True)
