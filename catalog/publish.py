"""The commit's vocabulary: what a transaction did to the rows of one table, as `pg_sluice.stage` takes it.

Pure. The catalog's side, with the JSON's shape, is `publish_rows` in catalog/sql/publish.sql.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from catalog.errors import SluiceError, SqlState
from catalog.model import ColumnStatistics, DataFile, DeleteFile, TableVersion


@dataclass(frozen=True, slots=True)
class Deletion:
    """The delete file that a data file is to have; `data_file_id` is None for an unpublished data file."""

    data_path: str
    data_file_id: int | None
    file: DeleteFile


@dataclass(frozen=True, slots=True)
class RowChange:
    """Files added to a table and positions deleted from it.

    With `truncate`, everything that was there before is removed first. The rows of the data files `combined`, which the
    transaction has staged before, by their paths, are in the new one.
    """

    relation_oid: int
    data_files: Sequence[DataFile] = ()
    deleted: Sequence[Deletion] = ()
    truncate: bool = False
    combined: Sequence[str] = ()

    def to_json(self) -> str:
        """The argument of `pg_sluice.stage`."""
        return json.dumps(
            {
                "relid": self.relation_oid,
                "truncate": self.truncate,
                "combined": list(self.combined),
                "data_files": [
                    {
                        "path": file.path,
                        "record_count": file.record_count,
                        "size_bytes": file.size_bytes,
                        "footer_size": file.footer_size,
                        "statistics": {str(key): asdict(value) for key, value in file.statistics.items()},
                    }
                    for file in self.data_files
                ],
                "delete_files": [
                    {
                        "data_path": deletion.data_path,
                        "data_file_id": deletion.data_file_id,
                        "replaces": deletion.file.replaces,
                        "path": deletion.file.path,
                        "delete_count": deletion.file.delete_count,
                        "size_bytes": deletion.file.size_bytes,
                        "footer_size": deletion.file.footer_size,
                    }
                    for deletion in self.deleted
                ],
            }
        )


def change_from_json(change: Mapping[str, Any]) -> RowChange:
    """What `pg_sluice.squashed` returns."""
    return RowChange(
        change["relid"],
        [
            DataFile(
                path=file["path"],
                record_count=file["record_count"],
                size_bytes=file["size_bytes"],
                footer_size=file["footer_size"],
                statistics={int(key): ColumnStatistics(**value) for key, value in file["statistics"].items()},
            )
            for file in change["data_files"]
        ],
        [deletion_from_json(deletion) for deletion in change["delete_files"]],
        truncate=change["truncate"],
    )


def deletion_from_json(deletion: Mapping[str, Any]) -> Deletion:
    """One of a change's delete files."""
    file = DeleteFile(
        path=deletion["path"],
        delete_count=deletion["delete_count"],
        size_bytes=deletion["size_bytes"],
        footer_size=deletion["footer_size"],
        replaces=deletion["replaces"],
    )
    return Deletion(deletion["data_path"], deletion["data_file_id"], file)


def applied(version: TableVersion, change: RowChange) -> tuple[TableVersion, list[tuple[DataFile, DeleteFile]]]:
    """The version as the transaction sees it that staged `change` upon it.

    Beside it the data files whose committed delete file is no longer the one that the transaction's own replaces: each
    with its committed delete file, and with the transaction's own, which the version shows; both have to become one.
    """
    own = {deletion.data_path: deletion.file for deletion in change.deleted}
    files, stale = [], []
    for file in () if change.truncate else version.files:
        mine = own.pop(file.path, None)
        if mine is not None and mine.replaces != (file.delete_file and file.delete_file.delete_file_id):
            stale.append((file, mine))
        files.append(file if mine is None else replace(file, delete_file=mine))
    for file in change.data_files:
        mine = own.pop(file.path, None)
        files.append(file if mine is None else replace(file, delete_file=mine))
    if own:
        raise SluiceError(SqlState.SERIALIZATION_FAILURE, "could not serialize access due to concurrent delete")
    return replace(version, files=tuple(files)), stale
