"""The history of deletions from one data file: its delete files in order, and which transactions also added rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog.model import DeleteFile, Table
from catalog.publish import delete_file_from_json

if TYPE_CHECKING:
    from catalog.store import Store

_DELETIONS: Final = """
SELECT f.end_snapshot IS NULL AS live,
       CASE WHEN d.data_file_id IS NOT NULL THEN pg_sluice.delete_file_json(d)::text END AS deletes,
       EXISTS (SELECT FROM pg_sluice.data_file n
               WHERE n.table_id = f.table_id AND n.begin_snapshot = d.begin_snapshot) AS adds
FROM pg_sluice.data_file f LEFT JOIN pg_sluice.delete_file d USING (data_file_id)
WHERE f.table_id = $1 AND f.path = $2 ORDER BY d.begin_snapshot
"""


@dataclass(frozen=True, slots=True)
class FileDeletions:
    """The deletions of a data file. `files` are its delete files in order, each with all positions of the one before.

    `adds` marks those whose transaction also added rows to the table. `live` says whether the table still has the data
    file.
    """

    live: bool
    files: tuple[tuple[DeleteFile, bool], ...]


async def deletions_of(store: Store, table: Table, path: str) -> FileDeletions | None:
    """Return the deletions of the data file with this path in the table's folder; None if it is not committed."""
    rows = await store.fetch(_DELETIONS, table.table_id, path)
    if not rows:
        return None
    files = tuple(
        (delete_file_from_json(json.loads(row["deletes"])), bool(row["adds"]))
        for row in rows
        if row["deletes"] is not None
    )
    return FileDeletions(bool(rows[0]["live"]), files)
