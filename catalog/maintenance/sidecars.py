"""Sidecars in the catalog: which exist, which are missing, and which are superseded.

Contract: `Sidecars.of` returns the sidecars of a table's files that a reader may use. A file without a known sidecar is
read whole, so results never depend on a new sidecar. Sidecars belong to no snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Final

import asyncpg

from catalog.indexes import SIDECAR_ROWS_MIN, Index, index_from_row
from catalog.model import ColumnStatistics, DataFile, Sidecar, TableVersion
from catalog.postgres.pool import Pool

# Faults of a request while the catalog restarts.
_KEPT_MAX: Final = 65_536
_OF: Final = """
SELECT s.index_id, s.data_file_id, s.path, s.record_count, s.size_bytes, s.footer_size, s.statistics, s.since_snapshot
FROM pg_sluice.sidecar s WHERE s.index_id = ANY ($1) AND s.data_file_id = ANY ($2)
"""
_LACKING: Final = "SELECT data_file_id FROM pg_sluice.files_lacking($1, $2)"
_TOTAL: Final = """
SELECT count(*) FROM pg_sluice.data_file f JOIN pg_sluice.relation r ON r.table_id = f.table_id
WHERE r.relid = $1::bigint::oid AND f.end_snapshot IS NULL AND f.record_count >= $2
"""
_ADD: Final = "SELECT pg_sluice.add_sidecar(ROW($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8)::pg_sluice.sidecar)"
_UNUSED: Final = "UPDATE pg_sluice.lake_index SET unused = $2 WHERE index_id = $1"
_FIND: Final = """
SELECT x.index_id, x.index_oid::bigint, x.name, x.form::text FROM pg_sluice.lake_index x
WHERE x.relid = $1::bigint::oid AND x.name = $2 AND x.unused IS NULL
"""
# Valid indexes only: the sidecars of an index under construction are written by the change that adds it.
_ALL: Final = """
SELECT x.relid::bigint, x.index_id, x.index_oid::bigint, x.name, x.form::text FROM pg_sluice.lake_index x
JOIN pg_index i ON i.indexrelid = x.index_oid
WHERE i.indisvalid AND x.unused IS NULL AND EXISTS (SELECT FROM pg_sluice.files_lacking(x.index_id, $1))
ORDER BY x.relid, x.index_id
"""
_SUPERSEDED: Final = "SELECT index_id, data_file_id, path FROM pg_sluice.superseded_sidecar"
_FORGET: Final = "DELETE FROM pg_sluice.sidecar WHERE index_id = $1 AND data_file_id = $2"
_PATHS: Final = "SELECT path, size_bytes FROM pg_sluice.sidecar"


class Sidecars:
    """The sidecars that one gateway knows. A sidecar never changes, so it is kept."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._kept: dict[tuple[int, int], Sidecar] = {}

    async def of(self, version: TableVersion, indexes: Sequence[Index]) -> Mapping[tuple[int, int], Sidecar]:
        """Return the sidecars that a reader of this version may use, by index and data file."""
        wanted = [
            (index.index_id, file.data_file_id)
            for index in indexes
            for file in version.files
            if file.data_file_id is not None and file.record_count >= SIDECAR_ROWS_MIN
        ]
        unknown = [each for each in wanted if each not in self._kept]
        if unknown:
            ids, files = sorted({each[0] for each in unknown}), sorted({each[1] for each in unknown})
            if len(self._kept) + len(unknown) > _KEPT_MAX:
                self._kept.clear()
            for row in await self._pool.fetch(_OF, ids, files):
                self._kept[row["index_id"], row["data_file_id"]] = _sidecar(row)
        found = {each: self._kept[each] for each in wanted if each in self._kept}
        return {each: sidecar for each, sidecar in found.items() if sidecar.since_snapshot <= version.snapshot_id}

    async def lacking(self, index: Index) -> list[int]:
        """Return the IDs of the data files that need a sidecar."""
        return [row["data_file_id"] for row in await self._pool.fetch(_LACKING, index.index_id, SIDECAR_ROWS_MIN)]

    async def total(self, relid: int) -> int:
        """Return how many files of a table are large enough for a sidecar."""
        [row] = await self._pool.fetch(_TOTAL, relid, SIDECAR_ROWS_MIN)
        count: int = row["count"]
        return count

    async def add(self, sidecar: Sidecar) -> bool:
        """Let readers use the sidecar; false if no reader ever will, so that its file may be removed."""
        file = sidecar.file
        statistics = {str(key): asdict(value) for key, value in file.statistics.items()}
        added: bool = await self._pool.fetchval(
            _ADD,
            sidecar.index_id,
            sidecar.data_file_id,
            file.path,
            file.record_count,
            file.size_bytes,
            file.footer_size,
            json.dumps(statistics),
            sidecar.since_snapshot,
        )
        return added

    async def refuse(self, index: Index, reason: str) -> None:
        """Record why the index can have no sidecars."""
        await self._pool.execute(_UNUSED, index.index_id, reason)

    async def find(self, relid: int, name: str) -> Index | None:
        """Return the index of that name, in any state; None if it has no sidecars."""
        rows = await self._pool.fetch(_FIND, relid, name)
        found = [index_from_row(row["index_id"], row["index_oid"], row["name"], row["form"]) for row in rows]
        return found[0] if found else None

    async def incomplete(self) -> list[tuple[int, Index]]:
        """Return the indexes of the whole lake that lack sidecars, each with its table."""
        rows = await self._pool.fetch(_ALL, SIDECAR_ROWS_MIN)
        return [
            (row["relid"], index_from_row(row["index_id"], row["index_oid"], row["name"], row["form"])) for row in rows
        ]

    async def superseded(self) -> list[tuple[tuple[int, int], str]]:
        """Return the sidecars of removed indexes and data files: index and data file, and the sidecar's path."""
        return [((row["index_id"], row["data_file_id"]), row["path"]) for row in await self._pool.fetch(_SUPERSEDED)]

    async def forget(self, gone: Collection[tuple[int, int]]) -> None:
        """Remove the records of sidecars whose files have been removed."""
        await self._pool.executemany(_FORGET, list(gone))

    async def paths(self) -> dict[str, int | None]:
        """Return every sidecar that the catalog names: its path, and its size, None while it is being removed."""
        gone = {path for _, path in await self.superseded()}
        rows = await self._pool.fetch(_PATHS)
        return {row["path"]: None if row["path"] in gone else row["size_bytes"] for row in rows}


def _sidecar(row: asyncpg.Record) -> Sidecar:
    statistics = {int(key): ColumnStatistics(**value) for key, value in json.loads(row["statistics"]).items()}
    file = DataFile(row["path"], row["record_count"], row["size_bytes"], row["footer_size"], statistics)
    return Sidecar(row["index_id"], row["data_file_id"], file, row["since_snapshot"])
