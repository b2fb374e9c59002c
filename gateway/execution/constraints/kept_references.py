"""FOREIGN KEY, the referencing side: which new rows have the references of the rows that they replace.

PostgreSQL neither checks these nor locks what they reference, unless the transaction itself has made the replaced row.
A row with a NULL in the key's columns references nothing. Source: PostgreSQL's ri_triggers.c,
`RI_FKey_fk_upd_check_required`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.model import Column, DataFile, Table, TableVersion
from storage.indexes.keys import keys_of
from storage.parquet.file_rows import read_positions, read_rows
from storage.parquet.files import LakeFiles

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext
    from gateway.transaction.unchanged_references import UnchangedReferences

# Of statements with more rows nothing is recorded: their references are checked.
_ROWS_MAX: Final = 1_000_000


async def note_unchanged(
    session: SessionContext,
    version: TableVersion,
    files: Sequence[DataFile],
    assigned: Collection[int] | None,
    pairs: pa.Table | None,
) -> None:
    """Record for the transaction which rows of new `files` have unchanged references. `pairs` has for each the row of
    `version` that it replaces, as `WriteResult.sources`; `assigned` are the columns that may differ (None: all).
    """
    table = version.table
    if pairs is None or not table.foreign_keys or pairs.num_rows > _ROWS_MAX:
        return
    if pairs.num_rows != sum(file.record_count for file in files):
        return
    path, unchanged = session.gateway.data_path, session.transaction.unchanged
    for attnums in {each.attnums for each in table.foreign_keys}:
        columns = [table.column(attnum) for attnum in attnums]
        if assigned is not None and set(attnums).isdisjoint(assigned):
            same = _published(version, pairs)
        else:
            same = await asyncio.to_thread(_same, path, version, files, columns, pairs)
        _note(unchanged, files, attnums, same)


async def note_checked(
    session: SessionContext,
    version: TableVersion,
    files: Sequence[DataFile],
    replaced: Mapping[str, npt.NDArray[np.int64]],
    removed: Collection[int],
) -> None:
    """The same after PostgreSQL has checked all changed references. So a new row counts as unchanged if any replaced
    row had its reference, also without pairs. `replaced` has the positions of those rows, by the path of their file.
    References by deferrable foreign keys are not checked until COMMIT. Those to tables that have lost rows meanwhile
    (`removed`, OIDs) are looked at again.
    """
    table = version.table
    if not files or sum(file.record_count for file in files) > _ROWS_MAX:
        return
    path, published = session.gateway.data_path, [file for file in version.files if file.data_file_id is not None]
    doubtful = {each.attnums for each in table.foreign_keys if each.deferrable or each.parent in removed}
    for attnums in {each.attnums for each in table.foreign_keys} - doubtful:
        columns = [table.column(attnum) for attnum in attnums]

        def kept(columns: Sequence[Column] = columns) -> npt.NDArray[np.bool_]:
            old = [
                _keys_at(path, table, file, columns, replaced[file.path]) for file in published if file.path in replaced
            ]
            new = _keys(path, table, files, columns)
            same = pc.or_(pc.is_in(new, pa.chunked_array(old, pa.binary())), new.is_null())
            found: npt.NDArray[np.bool_] = same.to_numpy(zero_copy_only=False)
            return found

        _note(session.transaction.unchanged, files, attnums, await asyncio.to_thread(kept))


def _note(
    unchanged: UnchangedReferences, files: Sequence[DataFile], attnums: Sequence[int], same: npt.NDArray[np.bool_]
) -> None:
    first = 0
    for file in files:
        unchanged.note(file.path, attnums, np.flatnonzero(same[first : first + file.record_count]))
        first += file.record_count


def _published(version: TableVersion, pairs: pa.Table) -> npt.NDArray[np.bool_]:
    """For each new row, whether it replaces one that other transactions see."""
    published = pa.array([file.path for file in version.files if file.data_file_id is not None], pa.string())
    is_one = pc.and_(pc.is_in(pairs["file"].cast(pa.string()), published), pairs["position"].is_valid())
    found: npt.NDArray[np.bool_] = is_one.to_numpy()
    return found


def _same(
    data_path: str, version: TableVersion, files: Sequence[DataFile], columns: Sequence[Column], pairs: pa.Table
) -> npt.NDArray[np.bool_]:
    """For each new row, whether its key is that of the row that it replaces, or NULL. Blocking."""
    table, published = version.table, _published(version, pairs)
    new = _keys(data_path, table, files, columns)
    same: npt.NDArray[np.bool_] = pairs["position"].is_valid().to_numpy() & new.is_null().to_numpy(zero_copy_only=False)
    paths, positions = pairs["file"].cast(pa.string()).combine_chunks().dictionary_encode(), pairs["position"]
    numbers = np.where(published, paths.indices.fill_null(-1).to_numpy(zero_copy_only=False), -1)
    by_file = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[by_file], np.arange(-1, len(paths.dictionary)), side="right")
    files_by_path = {file.path: file for file in version.files}
    for path, start, end in zip(paths.dictionary.to_pylist(), ends, ends[1:], strict=False):
        here, file = by_file[start:end], files_by_path.get(path)
        if file is None or not len(here):
            continue
        wanted, order = np.unique(positions.take(pa.array(here)).to_numpy(), return_inverse=True)
        old = _keys_at(data_path, table, file, columns, wanted).take(pa.array(order))
        equal = pc.fill_null(pc.equal(old, new.take(pa.array(here))), False)
        same[here] |= equal.to_numpy(zero_copy_only=False)
    return same


def _keys_at(
    data_path: str, table: Table, file: DataFile, columns: Sequence[Column], positions: npt.NDArray[np.int64]
) -> pa.Array:
    """The keys of these rows (ascending) of a file."""
    rows = read_positions(data_path, table, file, columns, positions)
    return keys_of(columns, [rows[column.name].combine_chunks() for column in columns])


def _keys(data_path: str, table: Table, files: Sequence[DataFile], columns: Sequence[Column]) -> pa.Array:
    """The keys of all rows of files, in their order."""
    opened = LakeFiles(data_path)
    batches = (batch for file in files for _, batch in read_rows(opened, table, file, columns))
    return pa.concat_arrays([pa.array([], pa.binary()), *(keys_of(columns, batch.columns) for batch in batches)])
