"""Deletions that happened while files were merged: the merged files get them as deletions of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from catalog.model import DataFile, Table
from catalog.publish import Deletion
from storage.parquet import layout
from storage.parquet.files import LakeFiles
from storage.parquet.positions import INLINED_MAX, deleted_positions, write_delete_file


def carried_deletions(  # noqa: PLR0917
    data_path: str,
    table: Table,
    old: Sequence[DataFile],
    now: Mapping[str, DataFile],
    new: Sequence[DataFile],
    order: npt.NDArray[np.int64] | None = None,
) -> tuple[Deletion, ...]:
    """Return the deletions from `new`, which has the live rows of `old`, that make it what `old` is now.

    `order` has the number of each new row among the old ones; None if they are in order.
    `now` has the table's present files by path; all rows of a missing one have been deleted. New delete files are
    synced; on an error none is left. Blocking.
    """
    files = LakeFiles(data_path)
    gone = np.concatenate([_deleted_since(files, table, file, now.get(file.path)) for file in old])
    if order is not None:
        gone = gone[order]
    inlined_max = INLINED_MAX if any(file.hot_rows is not None for file in old) else 0
    deletions, paths, first = list[Deletion](), list[str](), 0
    try:
        for file in new:
            positions = np.flatnonzero(gone[first : first + file.record_count])
            first += file.record_count
            if len(positions):
                written = write_delete_file(files, table.path, file, positions, None, inlined_max)
                paths += [layout.join(table.path, path) for path in written.new_paths]
                deletions.append(Deletion(file.path, None, written))
        files.sync(paths)
    except BaseException:
        files.remove(paths)
        raise
    return tuple(deletions)


def _deleted_since(files: LakeFiles, table: Table, then: DataFile, now: DataFile | None) -> npt.NDArray[np.bool_]:
    """For each row that was alive then: whether it is deleted now."""
    if now is None:
        return np.ones(then.live_count, np.bool_)
    return _deleted(files, table, now)[~_deleted(files, table, then)]


def _deleted(files: LakeFiles, table: Table, file: DataFile) -> npt.NDArray[np.bool_]:
    deleted = np.zeros(file.record_count, np.bool_)
    if file.delete_file is not None:
        deleted[deleted_positions(files, table.path, file.delete_file)] = True
    return deleted
