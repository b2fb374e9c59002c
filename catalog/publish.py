"""The commit's vocabulary: what a transaction did to the rows of one table, as `pg_sluice.stage` takes it.

Pure. The catalog's side, with the JSON's shape, is `publish_rows` in catalog/sql/sluice.sql.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from catalog.model import DataFile, DeleteFile


@dataclass(frozen=True, slots=True)
class RowChange:
    """Files added to a table and positions deleted from it by one statement.

    `deleted` maps the ID of a data file to its new delete file and the ID of the one that this replaces.
    With `truncate`, everything that was there before is removed first.
    """

    relation_oid: int
    data_files: Sequence[DataFile] = ()
    deleted: Mapping[int, tuple[DeleteFile, int | None]] | None = None
    truncate: bool = False

    def to_json(self) -> str:
        """The argument of `pg_sluice.stage`."""
        deleted = self.deleted or {}
        return json.dumps(
            {
                "relid": self.relation_oid,
                "truncate": self.truncate,
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
                        "data_file_id": data_file_id,
                        "replaces": replaces,
                        "path": file.path,
                        "delete_count": file.delete_count,
                        "size_bytes": file.size_bytes,
                        "footer_size": file.footer_size,
                    }
                    for data_file_id, (file, replaces) in deleted.items()
                ],
            }
        )
