"""Small files, and hot rows: their rows are kept in memory once read.

A table with many writers has many small files, and each read of the table would open all of them again.
`storage.parquet.read_cache` says why cached rows are true.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.model import Column, DataFile
from storage.parquet.arrow_types import FIELD_ID
from storage.parquet.bounded_file import BoundedFile
from storage.parquet.file_identity import expected
from storage.parquet.files import LakeFiles
from storage.parquet.hot_rows import decode
from storage.parquet.read_cache import KeptReads

# A file of more bytes or rows is not kept in memory.
FILE_BYTES_MAX: Final = 64 * 1024
FILE_ROWS_MAX: Final = 2_000
# A row of few columns takes some kilobytes, by Arrow's padding and Python's objects.
_COLUMN_BYTES: Final = 512
_KEPT_BYTES_MAX: Final = 64 * 2**20
# All rows of a small file take at most so much memory; of one that is packed well, they are read in batches.
_ROWS_BYTES_MAX: Final = 16 * 2**20


class _LargeRowsError(Exception):
    """The rows of a file may take too much memory."""


@dataclass(slots=True)
class FileRows:
    """All rows of a data file as stored, and the names of its columns by their IDs.

    `forms` has the rows as columns of a table in lake form, by the identities of these columns, which it keeps alive.
    """

    rows: pa.RecordBatch
    names: dict[int, str]
    forms: dict[tuple[int, ...], tuple[pa.RecordBatch, tuple[Column, ...]]] = field(default_factory=dict)


class SmallFiles:
    """A cache of small files, up to so many bytes of memory. Safe in threads."""

    def __init__(self, bytes_max: int = _KEPT_BYTES_MAX) -> None:
        self._kept = KeptReads[FileRows](bytes_max, _size)

    def read(self, files: LakeFiles, folder: str, file: DataFile) -> FileRows | None:
        """Return the rows of a file; None if they may be large in memory, however small the file is.

        Errors as `LakeFiles.parquet`, also if the rows are cached but the file is missing. Blocking.
        """
        of, hot_rows = expected(folder, file), file.hot_rows
        if hot_rows is not None:
            return self._kept.made(files, of.path, lambda: FileRows(*decode(hot_rows)))

        def read() -> FileRows:
            with BoundedFile(files, of) as opened:
                if not opened.fits(_ROWS_BYTES_MAX):
                    raise _LargeRowsError
                parquet = opened.parquet
                rows = parquet.read(use_threads=False).combine_chunks()
                batches = rows.to_batches()
                batch = batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)
                return FileRows(batch, names_by_id(parquet))

        try:
            return self._kept.get(files, of, read)
        except _LargeRowsError:
            return None

    def keep(self, files: LakeFiles, folder: str, file: DataFile, rows: pa.Table) -> None:
        """Cache the rows that were written to the file (`can_keep`): its first reader need not read it. Does nothing
        if it is no small file."""
        if is_small(file):
            for batch in rows.combine_chunks().to_batches():  # one, or none if there are no columns
                self._kept.keep(files, expected(folder, file).path, FileRows(batch, _names_by_id(rows.schema)))


def can_keep(rows: pa.Table) -> bool:
    """Whether rows about to be written may be kept in memory; parts of larger buffers may not."""
    return bool(rows.num_rows <= FILE_ROWS_MAX and rows.get_total_buffer_size() <= FILE_BYTES_MAX)


def is_small(file: DataFile) -> bool:
    """Whether the file is a small file."""
    return file.hot_rows is not None or (file.size_bytes <= FILE_BYTES_MAX and file.record_count <= FILE_ROWS_MAX)


def names_by_id(parquet: pq.ParquetFile) -> dict[int, str]:
    """Return the names of a Parquet file's columns by their IDs."""
    return _names_by_id(parquet.schema_arrow)


def _names_by_id(schema: pa.Schema) -> dict[int, str]:
    found = {}
    for each in schema:
        identity = (each.metadata or {}).get(FIELD_ID)
        if identity is not None:
            found[int(identity)] = each.name
    return found


def _size(found: FileRows) -> int:
    return int(found.rows.nbytes) + _COLUMN_BYTES * int(found.rows.num_columns)


small_files: Final = SmallFiles()
