"""Whether a table has two rows with the same key, without Spark: what a new UNIQUE constraint asks of it.

Keys are compared by their bytes. All keys are in memory at once, so a large table is left to Spark. Blocking: call it
in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.model import Column, TableVersion
from storage.indexes.keys import deleted_of, live_files
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles

# 128 MB for the keys of numbers, as much again for their columns, one by one.
_ROWS_MAX: Final = 1 << 24
# Texts are in memory twice: as they are, and in the groups.
_BYTES_MAX: Final = 1 << 28
_KEYS_MAX: Final = 1 << 62


def can_tell(version: TableVersion) -> bool:
    """Whether so few rows are in the table that `repeats` may be asked."""
    return version.row_count <= _ROWS_MAX


def repeats(data_path: str, version: TableVersion, columns: Sequence[Column]) -> bool | None:
    """Return whether two live rows have equal values in the columns, of which none is NULL; None if that takes too much
    memory."""
    files, batches, size = LakeFiles(data_path), list[pa.RecordBatch](), 0
    for each in live_files(version):
        deleted = deleted_of(files, version.table, each)
        for first, batch in read_rows(files, version.table, each.file, columns):
            rows = _live(batch, first, deleted)
            batches.append(rows)
            size += rows.nbytes
            if size > _BYTES_MAX:
                return None
    if not batches:
        return False
    keys = pa.Table.from_batches(batches)
    numbers = _numbers(keys.columns)
    if numbers is not None:
        numbers.sort()
        return bool((numbers[1:] == numbers[:-1]).any())
    return bool(keys.group_by(keys.column_names, use_threads=False).aggregate([]).num_rows < keys.num_rows)


def _live(batch: pa.RecordBatch, first: int, deleted: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Return a batch of keys without deleted rows, and without those of which a part is NULL."""
    rows = pa.RecordBatch.from_arrays(
        [_as_number(array) for array in batch.columns], [f"k{n}" for n in range(batch.num_columns)]
    )
    wanted: pa.Array | None = None
    for array in rows.columns:
        if array.null_count:
            wanted = array.is_valid() if wanted is None else pc.and_(wanted, array.is_valid())
    if len(deleted):
        there = pa.array(~np.isin(np.arange(first, first + batch.num_rows), deleted))
        wanted = there if wanted is None else pc.and_(wanted, there)
    return rows if wanted is None else rows.filter(wanted)


def _as_number(array: pa.Array) -> pa.Array:
    """Return numbers, dates and times as integers, and all else as it is."""
    kind = array.type
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return array.cast(pa.int8()) if pa.types.is_boolean(kind) else array


def _numbers(columns: Iterable[pa.ChunkedArray]) -> npt.NDArray[np.int64] | None:
    """Return each key as one number, in which each column has a range; None if they are too many, or texts."""
    found: npt.NDArray[np.int64] | None = None
    taken = 1
    for column in columns:
        if not pa.types.is_integer(column.type):
            return None
        ends = pc.min_max(column)
        least = ends["min"].as_py()
        if least is None:
            return np.empty(0, np.int64)
        width = ends["max"].as_py() - least + 1
        taken *= width
        if taken > _KEYS_MAX:
            return None
        values = column.to_numpy().astype(np.int64) - least
        if found is None:
            found = values
        else:
            found *= width
            found += values
    return found
