"""Table rewrite: write data files with other columns, row for row. Kept columns are copied, new ones are given.

A new file has the rows of one old file, or of several small ones in sequence. It includes deleted rows, so that
positions stay valid. Blocking: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.model import Column, DataFile, DeleteFile, Table
from storage.parquet import layout
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles
from storage.parquet.parquet_writer import ParquetWriter
from storage.parquet.positions import deleted_positions, write_delete_file
from storage.parquet.small_files import is_small
from storage.plan import FILE_COLUMN, POSITION_COLUMN

_ONE_FILE_BYTES: Final = 2**62
_EMPTY: Final = np.empty(0, np.int64)
# Rows of small files are completed so many at a time.
_BATCH_ROWS: Final = 100_000


class Rewritten(NamedTuple):
    """A new file, and the position in it of the first row of an old one."""

    file: DataFile
    first: int


def packs(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    """Yield groups of files that become one file: each alone, but adjacent small ones of a partition together. Pure."""
    for (small, _), run in groupby(files, lambda file: (is_small(file), file.partition)):
        if small:
            yield list(run)
        else:
            yield from ([file] for file in run)


def lost_positions(data_path: str, table: Table, file: DataFile) -> npt.NDArray[np.int64]:
    """Return the positions of the file's deleted rows, ascending."""
    if file.delete_file is None:
        return _EMPTY
    return deleted_positions(LakeFiles(data_path), table.path, file.delete_file)


def live_positions(data_path: str, table: Table, file: DataFile) -> npt.NDArray[np.int64]:
    """Return the positions of the file's live rows, ascending."""
    alive = np.ones(file.record_count, np.bool_)
    alive[lost_positions(data_path, table, file)] = False
    return np.flatnonzero(alive).astype(np.int64)


def by_new_file(
    files: Iterable[tuple[DataFile, Rewritten]],
) -> list[tuple[DataFile, list[tuple[DataFile, int]]]]:
    """Return each new file with its old files and the positions of their first rows in it. Pure."""
    found: dict[str, tuple[DataFile, list[tuple[DataFile, int]]]] = {}
    for old, (new, first) in files:
        found.setdefault(new.path, (new, []))[1].append((old, first))
    return list(found.values())


def lost_since(
    data_path: str, table: Table, new: DataFile, sources: Iterable[tuple[DataFile, int]]
) -> npt.NDArray[np.int64]:
    """Return the positions of a new file's rows that its sources have lost by now, ascending.

    The sources' first rows are at these positions. Rows are lost by deletion, or with the whole source.
    """
    alive = np.zeros(new.record_count, np.bool_)
    for file, first in sources:
        alive[first : first + file.record_count] = True
        alive[first + lost_positions(data_path, table, file)] = False
    return np.flatnonzero(~alive).astype(np.int64)


def rewritten(  # noqa: PLR0917
    data_path: str,
    old: Table,
    new: Table,
    files: Sequence[DataFile],
    positions: Sequence[npt.NDArray[np.int64]],
    values: Mapping[int, pa.Array],
) -> list[Rewritten]:
    """Write a new file in place of these of the table `old`, with the columns of `new`, which has the same folder.

    `values` are those of new columns, by attnum, in lake form, of the rows at the `positions` (ascending) of each file;
    other rows get NULL there. Other columns are read, by ID; a column that a file lacks has its initial default.
    """
    firsts = np.cumsum([0, *(file.record_count for file in files)])[:-1].tolist()
    given = np.concatenate([first + each for first, each in zip(firsts, positions, strict=True)])
    known = {column.column_id for column in old.columns}
    kept = [column for column in new.columns if column.attnum not in values]
    counted = [] if any(column.column_id in known for column in kept) else old.columns[:1]
    writer = ParquetWriter(data_path, new, file_bytes=_ONE_FILE_BYTES, divides=False)
    try:
        # If the file has none of the columns, one of its columns is read for the number of rows.
        first = 0
        for batch in _batches(LakeFiles(data_path), old, files, [*kept, *counted]):
            writer.write(_completed(new, batch, first, given, values))
            first += batch.num_rows
        [written] = writer.finish()
    except BaseException:
        writer.abort()
        raise
    return [Rewritten(written, first) for first in firsts]


def _batches(files: LakeFiles, table: Table, old: Sequence[DataFile], columns: Sequence[Column]) -> Iterator[pa.Table]:
    """Yield the columns of all rows of files, in order. Without columns, batches have only a number of rows."""
    if not columns:
        for file in old:
            for first in range(0, file.record_count, _BATCH_ROWS):
                yield pa.table({"": pa.nulls(min(_BATCH_ROWS, file.record_count - first))})
        return
    pending: list[pa.RecordBatch] = []
    count = 0
    for file in old:
        for _, batch in read_rows(files, table, file, columns):
            pending.append(batch)
            count += batch.num_rows
            if count >= _BATCH_ROWS:
                yield pa.Table.from_batches(pending)
                pending, count = [], 0
    if pending:
        yield pa.Table.from_batches(pending)


def _completed(
    table: Table,
    batch: pa.Table,
    first: int,
    positions: npt.NDArray[np.int64],
    values: Mapping[int, pa.Array],
) -> pa.Table:
    count = batch.num_rows
    low, high = np.searchsorted(positions, [first, first + count])
    places = np.full(count, -1, np.int64)
    places[positions[low:high] - first] = np.arange(low, high)
    indices = pa.array(places, mask=places < 0)
    kept = iter(batch.columns)
    arrays = [
        values[column.attnum].take(indices) if column.attnum in values else next(kept) for column in table.columns
    ]
    return pa.table(arrays, names=[column.name for column in table.columns])


def with_deletions(
    data_path: str, table: Table, file: DataFile, before: DeleteFile | None, positions: npt.NDArray[np.int64]
) -> DeleteFile | None:
    """Write the delete file of an unpublished file that loses the rows at `positions` beside those lost `before`.

    None if one of them was lost before.
    """
    files = LakeFiles(data_path)
    lost = _EMPTY if before is None else deleted_positions(files, table.path, before)
    if np.isin(positions, lost).any():
        return None
    written = write_delete_file(files, table.path, file, np.union1d(lost, positions), None)
    files.sync([layout.join(table.path, path) for path in written.new_paths])
    return written


def of_sources(values: pa.Table, files: Sequence[DataFile]) -> Iterator[tuple[str, pa.Table]]:
    """Split the values of the live rows of files, which come one file after the other, by file path."""
    first = 0
    for file in files:
        yield file.path, values.slice(first, file.live_count)
        first += file.live_count


def by_file(computed: pa.Table) -> dict[str, pa.Table]:
    """Return the rows of each file, ascending by position. Blocking."""
    computed = computed.sort_by([(FILE_COLUMN, "ascending"), (POSITION_COLUMN, "ascending")]).combine_chunks()
    runs = pc.run_end_encode(in_one_piece(computed.column(FILE_COLUMN), pa.string()))
    starts = [0, *runs.run_ends.to_pylist()]
    names = runs.values.to_pylist()
    return {
        name: computed.slice(start, end - start) for name, start, end in zip(names, starts, starts[1:], strict=False)
    }


def in_one_piece(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return a column in one chunk, of this type."""
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks)
    return whole if whole.type == kind else whole.cast(kind)
