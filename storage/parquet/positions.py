"""Deleted positions: collected, each once, and written to delete files.

A delete file is Parquet with the columns `file_path` and `pos` under the field IDs that DuckLake took from Iceberg
("Position Delete Files": 2147483546 and 2147483545 there; DuckLake 1.0 writes 2147483646 and 2147483645). It holds
every deleted position of one data file, those of the delete file before it included, and replaces that. Few positions,
and all of hot rows, are no file: the catalog has them (`DeleteFile.positions`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from catalog.errors import SluiceError, SqlState
from catalog.model import DataFile, DeleteFile, TableVersion
from storage.parquet import layout
from storage.parquet.arrow_types import FIELD_ID
from storage.parquet.compression import compression
from storage.parquet.file_identity import expected
from storage.parquet.files import LakeFiles
from storage.parquet.read_cache import KeptReads

_SCHEMA: Final = pa.schema(
    [
        pa.field("file_path", pa.string(), metadata={FIELD_ID: b"2147483646"}),
        pa.field("pos", pa.int64(), metadata={FIELD_ID: b"2147483645"}),
    ]
)
# The catalog has at most so many positions of one data file; further ones go to a file.
INLINED_MAX: Final = 2_000
_KEPT_BYTES_MAX: Final = 16 * 2**20

_Mask = npt.NDArray[np.bool_]
_kept: Final = KeptReads[npt.NDArray[np.int64]](_KEPT_BYTES_MAX, lambda positions: positions.nbytes)


class DeletedPositions:
    """Collects positions by data file. Memory: one byte per row of each file that loses a row."""

    def __init__(self, version: TableVersion) -> None:
        self._version = version
        self._files = {file.path: file for file in version.files}
        self._deleted: dict[str, _Mask] = {}
        self.count = 0

    def add(self, files: pa.Array, positions: pa.Array) -> _Mask:
        """Mark rows as deleted; return True for each that was not marked before, the first of equals within the
        batch."""
        encoded = files.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        numbers = positions.to_numpy(zero_copy_only=False)
        fresh = np.zeros(len(files), dtype=np.bool_)
        for code, path in enumerate(encoded.dictionary.to_pylist()):
            rows = np.flatnonzero(codes == code)
            fresh[rows[self.mark(path, numbers[rows])]] = True
        return fresh

    def mark(self, path: str, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Mark rows of one data file as deleted; return the indices of positions that were not marked before, the first
        of equals."""
        deleted = self._of(path)
        distinct, first = np.unique(positions, return_index=True)
        unmarked = first[~deleted[distinct]]
        deleted[distinct] = True
        self.count += len(unmarked)
        return unmarked

    def marked(self) -> dict[str, npt.NDArray[np.int64]]:
        """The positions marked here, ascending, by the path of their data file."""
        return {path: np.flatnonzero(deleted) for path, deleted in self._deleted.items()}

    def write(self, files: LakeFiles, inlined_max: int = 0) -> dict[str, DeleteFile]:
        """Write a delete file for every data file that lost a row; COMMIT waits for their syncs. On failure none is
        left. Up to `inlined_max` positions of a data file become the catalog's."""
        written: dict[str, DeleteFile] = {}
        try:
            for path, deleted in self._deleted.items():
                written[path] = self._write(files, self._files[path], np.flatnonzero(deleted), inlined_max)
            files.sync_later(self._paths(written))
        except BaseException:
            files.remove(self._paths(written))
            raise
        return written

    def _of(self, path: str) -> _Mask:
        if path not in self._deleted:
            file = self._files.get(path)
            if file is None:
                raise SluiceError(SqlState.INTERNAL_ERROR, f'rows of "{path}" are to be deleted, which was not scanned')
            self._deleted[path] = np.zeros(file.record_count, dtype=np.bool_)
        return self._deleted[path]

    def _write(
        self, files: LakeFiles, file: DataFile, positions: npt.NDArray[np.int64], inlined_max: int
    ) -> DeleteFile:
        folder = self._version.table.path
        before = file.delete_file
        if before is not None:
            positions = np.union1d(positions, deleted_positions(files, folder, before))
        return write_delete_file(files, folder, file, positions, before, inlined_max)

    def _paths(self, written: dict[str, DeleteFile]) -> list[str]:
        folder = self._version.table.path
        return [layout.join(folder, path) for delete in written.values() for path in delete.new_paths]


def deleted_positions(files: LakeFiles, folder: str, delete_file: DeleteFile) -> npt.NDArray[np.int64]:
    """Return the positions in a delete file, ascending."""
    if delete_file.positions is not None:
        beside = np.array(delete_file.positions, np.int64)
        if delete_file.base is None:
            return beside
        deleted = deleted_positions(files, folder, delete_file.base)
        return np.insert(deleted, np.searchsorted(deleted, beside), beside)
    of = expected(folder, delete_file)

    def read() -> npt.NDArray[np.int64]:
        positions: npt.NDArray[np.int64] = files.read_column(of, "pos").to_numpy()
        positions.flags.writeable = False  # all callers get the same array
        return positions

    return _kept.get(files, of, read)


def merged(  # noqa: PLR0917
    files: LakeFiles, folder: str, file: DataFile, own: DeleteFile, live: DeleteFile | None, common: int
) -> DeleteFile:
    """Write a delete file that replaces `live` and deletes what either does.

    `common` is how many positions the delete file has that both have replaced; with more in common, a row was deleted
    twice: 40001.
    """
    positions = deleted_positions(files, folder, own)
    if live is not None:
        others = deleted_positions(files, folder, live)
        both = np.union1d(positions, others)
        if len(positions) + len(others) - len(both) != common:
            raise SluiceError(SqlState.SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        positions = both
    inlines = any(each is not None and each.positions is not None for each in (own, live))
    written = write_delete_file(files, folder, file, positions, live, INLINED_MAX if inlines else 0)
    files.sync([layout.join(folder, path) for path in written.new_paths])
    return written


def write_delete_file(  # noqa: PLR0917
    files: LakeFiles,
    folder: str,
    file: DataFile,
    positions: npt.NDArray[np.int64],
    before: DeleteFile | None,
    inlined_max: int = 0,
) -> DeleteFile:
    """Return the delete file of a data file with these positions, ascending, in place of the one `before`, which it
    includes. A new file is not synced.

    Positions that are new become the catalog's, up to `inlined_max` of a Parquet file, and all of hot rows. Once it has
    some, they stay there: for readers of DuckLake no position may be in two places.
    """
    published = None if before is None else before.file
    if published is not None and published.delete_file_id is None:
        published = None  # the transaction's own: its rows are written anew
    kept = np.array(() if before is None else before.positions or (), np.int64)
    there = kept if published is None else np.union1d(kept, deleted_positions(files, folder, published))
    fresh = np.setdiff1d(positions, there, assume_unique=True)
    replaces = None if before is None else before.published_id
    if file.hot_rows is not None or len(kept) + len(fresh) <= inlined_max:
        inlined = np.union1d(kept, fresh)
        return DeleteFile(
            layout.new_delete_file(),
            len(positions),
            inlined.nbytes,
            0,
            None,
            replaces,
            tuple(inlined.tolist()),
            published,
        )
    written = _write_file(files, folder, file, np.setdiff1d(positions, kept, assume_unique=True))
    if not len(kept):
        return replace(written, replaces=replaces)
    return DeleteFile(
        layout.new_delete_file(), len(positions), kept.nbytes, 0, None, replaces, tuple(kept.tolist()), written
    )


def _write_file(files: LakeFiles, folder: str, file: DataFile, positions: npt.NDArray[np.int64]) -> DeleteFile:
    name = layout.new_delete_file()
    path = layout.join(folder, name)
    data_file = layout.join(files.data_path, folder, file.path)
    rows = pa.Table.from_arrays([pa.repeat(data_file, len(positions)), pa.array(positions)], schema=_SCHEMA)
    try:
        with files.output(path) as sink:
            pq.write_table(rows, sink, store_schema=False, **compression(rows.nbytes))
        return DeleteFile(name, len(positions), files.size(path), files.footer(path).serialized_size)
    except BaseException:
        files.remove([path])
        raise
