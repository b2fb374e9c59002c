"""Rows of one data file in lake form: by field IDs, with initial defaults for columns that the file was written
without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.model import Column, DataFile, Table
from storage.parquet.arrow_types import arrow_type
from storage.parquet.bounded_file import BoundedFile
from storage.parquet.file_identity import expected
from storage.parquet.files import LakeFiles
from storage.parquet.initial_default import initial_default
from storage.parquet.positions import deleted_positions
from storage.parquet.small_files import FileRows, is_small, names_by_id, small_files

_BATCH_ROWS: Final = 131_072
# Rows that are unpacked at once where few are wanted: those behind the last one stay packed.
_LOCATED_ROWS: Final = 16_384
# So many selections of a small file's columns are kept: by key, of all columns, and of a condition.
_FORMS_MAX: Final = 4
_SMALL_ROWS: Final = 1_024
# After so many small files, a reader that has waited may be told that it is cancelled.
_BATCHES_TOGETHER: Final = 256
_BYTES_TOGETHER: Final = 4 * 2**20
# What a file that is read while a client reads has in memory of each column.
_STREAMED_BYTES: Final = 1 << 18


def read_rows(  # noqa: PLR0917
    files: LakeFiles,
    table: Table,
    file: DataFile,
    columns: Sequence[Column],
    positions: npt.NDArray[np.int64] | None = None,
    rows_max: int | None = None,
    *,
    streamed: bool = False,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield columns of a data file in lake form, in batches of bounded memory, each with the position of its first row.

    Row groups without any of the `positions` (ascending) are not read. `streamed`: the reader may pause for long, so
    that little of the file is kept in memory.
    """
    kept = small_files.read(files, table.path, file) if is_small(file) else None
    if kept is not None:
        yield 0, _kept_rows(kept, columns)
        return
    with BoundedFile(files, expected(table.path, file), _STREAMED_BYTES if streamed else 0) as opened:
        parquet = opened.parquet
        names = names_by_id(parquet)
        present = [names[column.column_id] for column in columns if column.column_id in names]
        counts = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
        starts = np.cumsum([0, *counts])
        for group in range(len(counts)) if positions is None else _groups_of(positions, starts):
            first = int(starts[group])
            for batch in opened.batches(group, present, rows_max or _BATCH_ROWS, use_threads=streamed):
                yield first, in_lake_form(batch, columns, names)
                first += batch.num_rows


def together(
    batches: Iterable[pa.RecordBatch], rows_max: int, small_rows: int = _SMALL_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows; batches of fewer than `small_rows` become one of up to `rows_max` and of bounded bytes."""
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        full = rows + batch.num_rows > rows_max or size >= _BYTES_TOGETHER or len(parts) == _BATCHES_TOGETHER
        if parts and (batch.num_rows >= small_rows or full):
            yield pa.concat_batches(parts)
            parts, rows, size = [], 0, 0
        if batch.num_rows >= small_rows:
            yield batch
            continue
        parts.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if parts:
        yield pa.concat_batches(parts)


def live_rows_of(
    files: LakeFiles,
    table: Table,
    file: DataFile,
    columns: Sequence[Column],
    rows_max: int | None = None,
    *,
    streamed: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `read_rows` that are not deleted."""
    deletes = file.delete_file
    deleted = None if deletes is None else deleted_positions(files, table.path, deletes)
    for first, batch in read_rows(files, table, file, columns, rows_max=rows_max, streamed=streamed):
        if deleted is None:
            yield batch
            continue
        here = deleted[slice(*np.searchsorted(deleted, [first, first + batch.num_rows]))]
        alive = np.ones(batch.num_rows, np.bool_)
        alive[here - first] = False
        yield batch.filter(pa.array(alive)) if len(here) else batch


def live_rows_at(
    files: LakeFiles, table: Table, file: DataFile, columns: Sequence[Column], positions: npt.NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file at `positions` (ascending) that are not deleted, as `read_rows` does."""
    if file.delete_file is not None:
        deleted = deleted_positions(files, table.path, file.delete_file)
        positions = np.setdiff1d(positions, deleted, assume_unique=True)
    if len(positions):
        yield from _rows_at(files, table, file, columns, positions)


def read_positions(
    data_path: str, table: Table, file: DataFile, columns: Sequence[Column], positions: npt.NDArray[np.int64]
) -> pa.Table:
    """Return these columns of the rows at `positions` (ascending) of a data file, in lake form."""
    schema = pa.schema([(column.name, arrow_type(column.form)) for column in columns])
    parts = list(_rows_at(LakeFiles(data_path), table, file, columns, positions))
    return pa.Table.from_batches(parts, schema).combine_chunks() if parts else schema.empty_table()


def _rows_at(
    files: LakeFiles, table: Table, file: DataFile, columns: Sequence[Column], positions: npt.NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at `positions`."""
    for first, batch in read_rows(files, table, file, columns, positions, _LOCATED_ROWS):
        low, high = np.searchsorted(positions, [first, first + batch.num_rows])
        if low < high:
            yield batch.take(pa.array(positions[low:high] - first))
        if high == len(positions):
            return


def _groups_of(positions: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> list[int]:
    """Return the row groups that have these positions; `starts` are those of the groups, then the number of rows."""
    found: list[int] = np.unique(np.searchsorted(starts[1:], positions, side="right")).tolist()
    return found


def _kept_rows(kept: FileRows, columns: Sequence[Column]) -> pa.RecordBatch:
    """Return `in_lake_form` of a small file; it is kept for the next read of the same columns."""
    key = tuple(map(id, columns))
    found = kept.forms.get(key)
    if found is None:
        if len(kept.forms) >= _FORMS_MAX:
            kept.forms.clear()
        kept.forms[key] = found = in_lake_form(kept.rows, columns, kept.names), tuple(columns)
    return found[0]


def in_lake_form(batch: pa.RecordBatch, columns: Sequence[Column], names: Mapping[int, str]) -> pa.RecordBatch:
    """Return the columns of a file's rows under their own names; `names` are the file's, by field ID."""
    arrays = []
    for column in columns:
        kind = arrow_type(column.form)
        name = names.get(column.column_id)
        if name is not None:
            array = batch.column(name)
            arrays.append(array if array.type == kind else array.cast(kind))
        elif column.initial_default is None:
            arrays.append(pa.nulls(batch.num_rows, kind))
        else:
            arrays.append(pa.repeat(initial_default(column), batch.num_rows))
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
