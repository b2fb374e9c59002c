"""The row changes that a transaction stages for one table, as `pg_sluice.stage` takes them.

Pure. The catalog's side, with the JSON's shape, is `publish_rows` in catalog/sql/publish.sql.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalog.errors import SluiceError, SqlState
from catalog.model import ColumnStatistics, DataFile, DeleteFile, TableVersion
from catalog.partitions import partition_from_json, partition_to_json


@dataclass(frozen=True, slots=True)
class Deletion:
    """The new delete file of a data file; `data_file_id` is None for an unpublished data file."""

    data_path: str
    data_file_id: int | None
    file: DeleteFile


@dataclass(frozen=True, slots=True)
class RowChange:
    """Files added to a table and positions deleted from it.

    With `truncate`, all earlier rows are removed first. `combined` are the paths of data files that the transaction has
    staged before; the new data file has their rows.
    """

    relation_oid: int
    data_files: Sequence[DataFile] = ()
    deleted: Sequence[Deletion] = ()
    truncate: bool = False
    combined: Sequence[str] = ()

    def to_json(self) -> str:
        """Return the argument of `pg_sluice.stage`."""
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
                        "hot_rows": file.hot_rows,
                        "partition": partition_to_json(file.partition),
                        "statistics": {str(key): _fields(value) for key, value in file.statistics.items()},
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
                        "positions": deletion.file.positions,
                        "base": None if deletion.file.base is None else _base(deletion.file.base),
                    }
                    for deletion in self.deleted
                ],
            }
        )


def _base(file: DeleteFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "delete_count": file.delete_count,
        "size_bytes": file.size_bytes,
        "footer_size": file.footer_size,
        "delete_file_id": file.delete_file_id,
    }


def _fields(statistics: ColumnStatistics) -> dict[str, Any]:
    # dataclasses.asdict copies each value, which takes ten times as long.
    return {name: getattr(statistics, name) for name in ColumnStatistics.__slots__}


def change_from_json(change: Mapping[str, Any]) -> RowChange:
    """Read the result of `pg_sluice.squashed`."""
    return RowChange(
        change["relid"],
        [
            DataFile(
                path=file["path"],
                record_count=file["record_count"],
                size_bytes=file["size_bytes"],
                footer_size=file["footer_size"],
                statistics=statistics_from_json(file["statistics"]),
                hot_rows=file["hot_rows"],
                partition=partition_from_json(file["partition"]),
            )
            for file in change["data_files"]
        ],
        [deletion_from_json(deletion) for deletion in change["delete_files"]],
        truncate=change["truncate"],
    )


def statistics_from_json(statistics: Mapping[str, Any]) -> dict[int, ColumnStatistics]:
    """Read the statistics of a data file, by column ID."""
    return {int(key): ColumnStatistics(**value) for key, value in statistics.items()}


def deletion_from_json(deletion: Mapping[str, Any]) -> Deletion:
    """Read one of a change's delete files."""
    return Deletion(deletion["data_path"], deletion["data_file_id"], delete_file_from_json(deletion))


def delete_file_from_json(fields: Mapping[str, Any]) -> DeleteFile:
    """Read a delete file, published (`pg_sluice.delete_file_json`) or staged."""
    positions, base = fields["positions"], fields["base"]
    return DeleteFile(
        path=fields["path"],
        delete_count=fields["delete_count"],
        size_bytes=fields["size_bytes"],
        footer_size=fields["footer_size"],
        delete_file_id=fields.get("delete_file_id"),
        replaces=fields.get("replaces"),
        positions=None if positions is None else tuple(positions),
        base=None if base is None else DeleteFile(**base),
    )


def applied(version: TableVersion, change: RowChange) -> tuple[TableVersion, list[tuple[DataFile, DeleteFile]]]:
    """Return the version as the transaction that staged `change` on it sees it, and the stale data files.

    A data file is stale if its committed delete file is no longer the one that the transaction's own replaces. Each
    comes with its committed delete file. The version shows the transaction's own, so both must be merged. 40001 if a
    data file that lost rows is gone.
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
