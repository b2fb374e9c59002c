"""A Parquet file that is read in batches of bounded memory.

What bounds a batch is not plain: a file of a few kilobytes may repeat a value of a megabyte a million times, by its
dictionary. So each dictionary is looked at first. Columns with wide values are read as dictionaries, and their values
are put in place for few rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from threading import Lock
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from cachetools import LRUCache

from storage.parquet.file_identity import Expected
from storage.parquet.files import LakeFiles

# A batch has about so many bytes.
BATCH_BYTES: Final = 4 * 2**20
# A batch as read, before it is cut, has at most about so many bytes.
_READ_BYTES_MAX: Final = 32 * 2**20
# Bytes of a value from which on its column is read as a dictionary.
_WIDE: Final = 1_024
# The part of a value in memory that does not depend on its length, at most.
_FIXED_BYTES: Final = 16
_BYTES: Final = "BYTE_ARRAY"
# Rows that are read to see a dictionary.
_PROBED_ROWS: Final = 1_024
# Of so many columns of row groups the widest value is kept, in some hundred bytes each: a file never changes, and to
# look takes as long as to read few rows.
_WIDEST_MAX: Final = 100_000
_widest_values: Final = LRUCache[tuple[str, Expected, int, str], int](_WIDEST_MAX)
_LOCK: Final = Lock()


class BoundedFile:
    """An open file. Use as a context manager. Errors as `LakeFiles.parquet`. Blocking."""

    def __init__(self, files: LakeFiles, of: Expected, buffer_bytes: int = 0) -> None:
        """For `buffer_bytes` see `LakeFiles.parquet`."""
        self._files = files
        self._of = of
        self._buffer_bytes = buffer_bytes
        self._opened = ExitStack()
        self._readers: dict[tuple[str, ...], pq.ParquetFile] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)

    @property
    def parquet(self) -> pq.ParquetFile:
        """The file as it is."""
        return self._reader(())

    def batches(
        self, group: int, columns: Sequence[str], rows_max: int, *, use_threads: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of a row group, in batches of bounded bytes and at most so many rows."""
        wide, row_bytes = self._widths(group, frozenset(columns))
        rows = min(rows_max, max(1, int(_READ_BYTES_MAX / row_bytes)))
        reader = self._reader(wide)
        for batch in reader.iter_batches(rows, row_groups=[group], columns=list(columns), use_threads=use_threads):
            yield from cut(batch)

    def fits(self, bytes_max: int) -> bool:
        """Whether all rows, unpacked, surely take no more memory than this."""
        total, names = 0, frozenset(self.parquet.schema_arrow.names)
        for group in range(self.parquet.num_row_groups):
            metadata = self.parquet.metadata.row_group(group)
            chunks = [metadata.column(number) for number in range(metadata.num_columns)]
            total += sum(chunk.total_uncompressed_size for chunk in chunks)
            repeated = [chunk for chunk in chunks if chunk.has_dictionary_page]
            bound = sum(chunk.total_uncompressed_size * chunk.num_values for chunk in repeated)
            if total + bound > bytes_max:
                if any(chunk.path_in_schema not in names for chunk in repeated):
                    return False  # within lists: how many a row has is not looked up
                bound = sum(self._widest(group, chunks).values()) * metadata.num_rows
            total += bound
            if total > bytes_max:
                return False
        return True

    def _reader(self, dictionaries: tuple[str, ...]) -> pq.ParquetFile:
        found = self._readers.get(dictionaries)
        if found is None:
            opening = self._files.parquet(
                self._of,
                dictionaries=dictionaries,
                buffer_bytes=self._buffer_bytes,
                metadata=next((reader.metadata for reader in self._readers.values()), None),
            )
            found = self._readers[dictionaries] = self._opened.enter_context(opening)
        return found

    def _widths(self, group: int, columns: AbstractSet[str]) -> tuple[tuple[str, ...], float]:
        """Return the columns of a row group to be read as dictionaries, and a bound for the bytes of a row's others,
        as far as a dictionary repeats them, else their average."""
        metadata = self.parquet.metadata.row_group(group)
        chunks = [metadata.column(number) for number in range(metadata.num_columns)]
        chunks = [chunk for chunk in chunks if _is_of(chunk.path_in_schema, columns)]
        average = sum(chunk.total_uncompressed_size for chunk in chunks) / max(1, metadata.num_rows)
        widest = self._widest(group, [chunk for chunk in chunks if chunk.total_uncompressed_size > _WIDE])
        narrow = sum(size for size in widest.values() if size <= _WIDE)
        wide = tuple(name for name, size in widest.items() if size > _WIDE)
        return wide, _FIXED_BYTES * (1 + len(chunks)) + average + narrow

    def _widest(self, group: int, chunks: Sequence[Any]) -> dict[str, int]:
        """Return the bytes of the widest value in each column's dictionary."""
        repeated = (chunk for chunk in chunks if chunk.physical_type == _BYTES and chunk.has_dictionary_page)
        names = [chunk.path_in_schema for chunk in repeated]
        keys = {name: (self._files.data_path, self._of, group, name) for name in names}
        with _LOCK:
            found = {name: _widest_values[key] for name, key in keys.items() if key in _widest_values}
        if missing := tuple(name for name in names if name not in found):
            probed = self._probed(group, missing)
            with _LOCK:
                _widest_values.update({keys[name]: size for name, size in probed.items()})
            found |= probed
        return found

    def _probed(self, group: int, names: tuple[str, ...]) -> dict[str, int]:
        """`_widest`, from the file: the first rows bring along all of a dictionary. 0 where none is seen."""
        batch = next(self._reader(names).iter_batches(_PROBED_ROWS, row_groups=[group], columns=list(names)), None)
        none = dict.fromkeys(names, 0)
        if batch is None:
            return none
        columns = {name: batch.column(name) for name in names if name in batch.schema.names}
        repeated = {name: column.dictionary for name, column in columns.items() if pa.types.is_dictionary(column.type)}
        return none | {name: pc.max(pc.binary_length(values)).as_py() or 0 for name, values in repeated.items()}


def cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
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


def _is_of(path: str, columns: AbstractSet[str]) -> bool:
    """Whether a path in a file is that of one of the columns or of a field in it."""
    parts = path.split(".")
    return any(".".join(parts[:end]) in columns for end in range(1, len(parts) + 1))


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
