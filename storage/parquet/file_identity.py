"""File identity: the catalog's record of a file, by which each read detects damage.

Every reader of `storage.parquet.files.LakeFiles` takes one, so that none can read a file without the comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from catalog.model import DataFile, DeleteFile
from storage.parquet import layout


class Expected(NamedTuple):
    """A file by its path below the data path. `footer_size` is of the Parquet metadata, 0 if unknown."""

    path: str
    size_bytes: int
    footer_size: int
    row_count: int


def expected(folder: str, file: DataFile | DeleteFile) -> Expected:
    """Return the catalog's record of a file in a folder below the data path."""
    count = file.record_count if isinstance(file, DataFile) else file.delete_count
    return Expected(layout.join(folder, file.path).lstrip("/"), file.size_bytes, file.footer_size or 0, count)


def expected_all(folder: str, files: Iterable[DataFile]) -> Iterator[Expected]:
    """Return the catalog's records of data files and of their delete files; hot rows have none."""
    for file in files:
        if file.hot_rows is None:
            yield expected(folder, file)
        if file.delete_file is not None and file.delete_file.file is not None:
            yield expected(folder, file.delete_file.file)
