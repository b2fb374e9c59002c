"""The rows of a table as its files store them, for a query that only reads columns: from Parquet, without Spark.

Rows come file by file in their order of insertion, in batches of bounded bytes. What bounds a batch is not plain: a
file of a few kilobytes may repeat a value of a megabyte a million times, by its dictionary. So columns with such values
are read as dictionaries, and their values are put in place for few rows at a time.

Blocking: iterate in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catalog.model import Column, DataFile, TableVersion
from storage.parquet.arrow_types import arrow_type
from storage.parquet.file_identity import expected
from storage.parquet.file_rows import in_lake_form
from storage.parquet.files import LakeFiles
from storage.parquet.initial_default import initial_default
from storage.parquet.positions import deleted_positions
from storage.parquet.small_files import is_small, names_by_id, small_files

# A batch has about so many bytes, and no more rows.
BATCH_BYTES: Final = 4 * 2**20
BATCH_ROWS_MAX: Final = 65_536
# Bytes of a value from which on its column is read as a dictionary.
_WIDE: Final = 1_024
# A batch as read, before it is cut, has at most about so many bytes.
_READ_BYTES_MAX: Final = 32 * 2**20
# The part of a value in memory that does not depend on its length, at most.
_FIXED_BYTES: Final = 16
_BYTES: Final = "BYTE_ARRAY"
# Rows that are read to see a dictionary.
_PROBED_ROWS: Final = 1_024
# What Arrow holds of a column of an open file.
_BUFFER_BYTES: Final = 1 << 18


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
        self._columns = columns
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
        wanted = None if left is None or file.delete_file is not None else left_out + left
        batches = self._all(file, wanted)
        if file.delete_file is None:
            yield from batches
            return
        deleted = deleted_positions(self._files, self._version.table.path, file.delete_file)
        first = 0
        for batch in batches:
            here = deleted[np.searchsorted(deleted, first) : np.searchsorted(deleted, first + batch.num_rows)]
            yield batch.filter(_but(batch.num_rows, here - first)) if len(here) else batch
            first += batch.num_rows

    def _all(self, file: DataFile, wanted: int | None) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a file; at least `wanted` of them, if given."""
        of = expected(self._version.table.path, file)
        if is_small(file):
            kept = small_files.read(self._files, of)
            yield from _cut(in_lake_form(kept.rows, self._distinct, kept.names))
            return
        with ExitStack() as opened:

            @cache
            def reader(dictionaries: tuple[str, ...]) -> pq.ParquetFile:
                return opened.enter_context(
                    self._files.parquet(of, dictionaries=dictionaries, buffer_bytes=_BUFFER_BYTES)
                )

            parquet = reader(())
            names = names_by_id(parquet)
            present = [names[column.column_id] for column in self._distinct if column.column_id in names]
            for group in range(parquet.num_row_groups):
                wide, rows = _shape(reader, group, present)
                if wanted is not None:
                    rows = min(rows, max(wanted, 1))
                for batch in reader(wide).iter_batches(rows, row_groups=[group], columns=present):
                    for part in _cut(batch):
                        yield in_lake_form(part, self._distinct, names)


def _shape(
    reader: Callable[[tuple[str, ...]], pq.ParquetFile], group: int, present: Sequence[str]
) -> tuple[tuple[str, ...], int]:
    """Return the columns of a row group to be read as dictionaries, and how many rows may be read together."""
    metadata, names = reader(()).metadata.row_group(group), frozenset(present)
    chunks = [metadata.column(number) for number in range(metadata.num_columns)]
    chunks = [chunk for chunk in chunks if _is_of(chunk.path_in_schema, names)]
    narrow = sum(chunk.total_uncompressed_size for chunk in chunks) / max(1, metadata.num_rows)
    repeating = tuple(
        chunk.path_in_schema
        for chunk in chunks
        if chunk.physical_type == _BYTES and chunk.has_dictionary_page and chunk.total_uncompressed_size > _WIDE
    )
    widest = _widest(reader(repeating), group, repeating) if repeating else {}
    wide = tuple(name for name, size in widest.items() if size > _WIDE)
    row_bytes = _FIXED_BYTES * (1 + len(chunks)) + narrow + sum(size for size in widest.values() if size <= _WIDE)
    return wide, min(BATCH_ROWS_MAX, max(1, int(_READ_BYTES_MAX / row_bytes)))


def _is_of(path: str, names: AbstractSet[str]) -> bool:
    """Whether a path in a file is that of one of the columns or of a field in it."""
    parts = path.split(".")
    return any(".".join(parts[:end]) in names for end in range(1, len(parts) + 1))


def _widest(parquet: pq.ParquetFile, group: int, names: Sequence[str]) -> dict[str, int]:
    """Return the bytes of the widest value in each column's dictionary: the first rows bring it along, all of it."""
    batch = next(parquet.iter_batches(_PROBED_ROWS, row_groups=[group], columns=list(names)), None)
    if batch is None:
        return {}
    columns = {name: batch.column(name) for name in names}
    repeated = {name: column.dictionary for name, column in columns.items() if pa.types.is_dictionary(column.type)}
    return {name: pc.max(pc.binary_length(values)).as_py() or 0 for name, values in repeated.items()}


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of bounded bytes, with the values of dictionaries in their places."""
    repeated = [pa.types.is_dictionary(kind) for kind in batch.schema.types]
    if not any(repeated) and batch.nbytes <= 2 * BATCH_BYTES:
        yield batch
        return
    ends = np.cumsum(_FIXED_BYTES * batch.num_columns + sum(map(_lengths, batch.columns)))
    start = 0
    while start < batch.num_rows:
        before = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + BATCH_BYTES)))
        part = batch.slice(start, end - start)
        arrays = [
            column.dictionary_decode() if is_repeated else column
            for column, is_repeated in zip(part.columns, repeated, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=part.schema.names)
        start = end


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the bytes of each value of variable length; zeros for other columns."""
    if pa.types.is_dictionary(column.type):
        found = pc.binary_length(column.dictionary).take(column.indices)
    elif pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        found = pc.binary_length(column)
    else:
        return np.zeros(len(column), np.int64)
    lengths: npt.NDArray[np.int64] = found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _but(count: int, places: npt.NDArray[np.int64]) -> pa.Array:
    """Return a mask of so many rows without those at the places."""
    kept = np.ones(count, np.bool_)
    kept[places] = False
    return pa.array(kept)
