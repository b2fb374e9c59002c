"""What became of a table's files since a version that the gateway keeps, as `pg_sluice.version_since` tells it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from catalog.model import DataFile, TableVersion
from catalog.partitions import partition_from_json
from catalog.publish import delete_file_from_json, statistics_from_json

# The answer of `pg_sluice.changed` for a table: its OID, its last snapshot, whether the kept one is expired, and
# the changes since in JSON.
ChangedRow = tuple[int, int, bool | None, str | None]


@dataclass(frozen=True, slots=True)
class KeptVersions:
    """The versions that the gateway has of some tables when it asks what has changed since; None for none."""

    versions: Mapping[int, TableVersion | None]

    @property
    def snapshots(self) -> list[int | None]:
        """The snapshot of each version."""
        return [None if version is None else version.snapshot_id for version in self.versions.values()]

    @property
    def schemas(self) -> list[int | None]:
        """The version of each table's schema."""
        return [None if version is None else version.table.schema_version for version in self.versions.values()]

    def with_rows_of(self, rows: Iterable[ChangedRow]) -> dict[int, TableVersion] | None:
        """The versions with all changes of rows since. None if a table is not kept, or is another one by now, maybe
        in the transaction alone that asks: then only the catalog's committed state tells.
        """
        found = {}
        for oid, snapshot, expired, text in rows:
            version = self.versions.get(oid)
            since = None if text is None else json.loads(text)
            if version is None or expired or (since is not None and since["description"] is not None):
                return None
            found[oid] = (
                version if since is None else TableVersion(version.table, snapshot, files_since(version, since))
            )
        return found if len(found) == len(self.versions) else None


def files_since(kept: TableVersion, since: Mapping[str, Any]) -> tuple[DataFile, ...]:
    """The table's files now, from its kept version and the result of `pg_sluice.version_since`."""
    deletes = {each["data_file_id"]: delete_file_from_json(each) for each in since["deletes"]}
    ended = set(since["ended"])
    files = kept.files
    if ended or deletes:
        files = tuple(
            replace(file, delete_file=deletes[file.data_file_id]) if file.data_file_id in deletes else file
            for file in files
            if file.data_file_id not in ended
        )
    new = tuple(
        DataFile(
            **{
                **file,
                "statistics": statistics_from_json(file["statistics"]),
                "partition": partition_from_json(file["partition"]),
                "delete_file": deletes.get(file["data_file_id"]),
            }
        )
        for file in since["files"]
    )
    if files and new and _place(new[0]) < _place(files[-1]):
        return tuple(sorted(files + new, key=_place))
    return files + new  # both are in order


def _place(file: DataFile) -> tuple[int, int]:
    assert file.place is not None
    assert file.data_file_id is not None
    return file.place, file.data_file_id
