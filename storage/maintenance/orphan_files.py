"""Delete orphan files of dead gateways."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from storage.parquet import layout
from storage.parquet.files import LakeFiles

_JOB_PREFIX: Final = "_"


def written_by(data_path: str, writers: Collection[int]) -> list[str]:
    """Return the existing files of these gateways, by their path below the data path. Blocking."""
    return [path for path in LakeFiles(data_path).list() if layout.writer_of(path) in writers]


def remove_leftovers(data_path: str, written: Iterable[str], published: Collection[str]) -> int:
    """Remove those of the files that are not published, by their names, and the folders of their jobs; return the
    number of files.

    `published` must have been asked for after the files were listed, and after their gateways' end. Blocking.
    """
    files = LakeFiles(data_path)
    names = {path.rpartition("/")[2] for path in published}
    found = [path for path in written if path.rpartition("/")[2] not in names]
    files.remove(found)
    for folder in {folder for path in found if (folder := _job_folder(path)) is not None}:
        files.remove_folder(folder)
    return len(found)


def _job_folder(path: str) -> str | None:
    parts = path.split("/")
    for number, part in enumerate(parts[:-1], 1):
        if part.startswith(_JOB_PREFIX) and layout.writer_of(part) is not None:
            return "/".join(parts[:number])
    return None
