"""Data files written anew with other columns, row for row: what is kept is copied, what is new is given.

A new file has its rows where the old one had them, deleted ones too, so that whatever names rows by their positions
stays true of it. Blocking: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.model import DataFile, DeleteFile, Table
from storage import layout
from storage.files import LakeFiles
from storage.keys import read_rows
from storage.parquet_writer import ParquetWriter
from storage.positions import deleted_positions, write_delete_file

_ONE_FILE_BYTES: Final = 2**62
_EMPTY: Final = np.empty(0, np.int64)


def lost_positions(data_path: str, table: Table, file: DataFile) -> npt.NDArray[np.int64]:
    """The positions of the file's rows that are deleted, ascending."""
    if file.delete_file is None:
        return _EMPTY
    return deleted_positions(LakeFiles(data_path), table.path, file.delete_file)


def live_positions(data_path: str, table: Table, file: DataFile) -> npt.NDArray[np.int64]:
    """The positions of the file's rows that are not deleted, ascending."""
    alive = np.ones(file.record_count, np.bool_)
    alive[lost_positions(data_path, table, file)] = False
    return np.flatnonzero(alive).astype(np.int64)


def rewritten(  # noqa: PLR0917
    data_path: str,
    old: Table,
    new: Table,
    file: DataFile,
    positions: npt.NDArray[np.int64],
    values: Mapping[int, pa.Array],
) -> DataFile:
    """A new file in place of one of the table `old`, with the columns of `new`, which has the same folder.

    `values` are those of new columns, by attnum, in lake form, of the rows at `positions` (ascending); other rows have
    NULL there. Other columns are read, by ID: those that the file lacks have their initial default.
    """
    known = {column.column_id for column in old.columns}
    kept = [column for column in new.columns if column.attnum not in values]
    counted = [] if any(column.column_id in known for column in kept) else old.columns[:1]
    writer = ParquetWriter(data_path, new, file_bytes=_ONE_FILE_BYTES)
    try:
        # Where nothing is in the file, one of its columns is read for the number of rows alone.
        for first, batch in read_rows(LakeFiles(data_path), old, file, [*kept, *counted]):
            writer.write(_completed(new, batch, first, positions, values))
        [written] = writer.finish()
    except BaseException:
        writer.abort()
        raise
    return written


def _completed(
    table: Table,
    batch: pa.RecordBatch,
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
    """The delete file of an unpublished file that is to lose the rows at `positions` too, beside those that it has lost
    `before`. None where one of them was lost already."""
    files = LakeFiles(data_path)
    lost = _EMPTY if before is None else deleted_positions(files, table.path, before)
    if np.isin(positions, lost).any():
        return None
    written = write_delete_file(files, table.path, file, np.union1d(lost, positions), None)
    files.sync([layout.join(table.path, written.path)])
    return written
