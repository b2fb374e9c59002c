"""Snapshots by number and by time, and the tables of a snapshot.

Contract: the snapshot of a time never changes. A running commit is waited for if it might still come before that time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from catalog.errors import SluiceError, SqlState
from catalog.partitions import partition_from_json, partition_to_json
from catalog.store import Store

_BY_NUMBER: Final = """
SELECT EXISTS (SELECT FROM pg_ducklake.ducklake_snapshot WHERE snapshot_id = $1),
       (SELECT max(snapshot_id) FROM pg_ducklake.ducklake_snapshot)
"""
_BY_TIME: Final = """
SELECT (SELECT max(snapshot_id) FROM pg_ducklake.ducklake_snapshot WHERE snapshot_time <= $1) AS snapshot,
       (SELECT max(snapshot_time) FROM pg_ducklake.ducklake_snapshot) > $1 AS is_past,
       clock_timestamp() < $1 AS is_future
"""
_TABLES: Final = """
SELECT r.relid::bigint, s.schema_name, t.table_name, k.column_id, k.column_name, k.column_type,
       NOT EXISTS (SELECT FROM pg_sluice.unpopulated u WHERE u.table_id = r.table_id
                   AND u.begin_snapshot <= $2 AND (u.end_snapshot IS NULL OR u.end_snapshot > $2)) AS populated
FROM pg_sluice.relation r
JOIN pg_ducklake.ducklake_table t ON t.table_id = r.table_id
    AND t.begin_snapshot <= $2 AND (t.end_snapshot IS NULL OR t.end_snapshot > $2)
JOIN pg_ducklake.ducklake_schema s ON s.schema_id = t.schema_id
    AND s.begin_snapshot <= $2 AND (s.end_snapshot IS NULL OR s.end_snapshot > $2)
LEFT JOIN pg_ducklake.ducklake_column k ON k.table_id = r.table_id AND k.parent_column IS NULL
    AND k.begin_snapshot <= $2 AND (k.end_snapshot IS NULL OR k.end_snapshot > $2)
WHERE r.relid = ANY ($1::oid[])
"""
_TYPES: Final = """
SELECT type_oid::bigint, typmod, pg_sluice.column_type(type_oid::oid, typmod) AS ducklake
FROM unnest($1::bigint[], $2::integer[]) AS t (type_oid, typmod)
"""
# Shadows with rows, by PostgreSQL's statistics: to ask a table itself may run code of its owner.
_FILLED: Final = """
SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS name
FROM pg_sluice.relation r JOIN pg_catalog.pg_class c ON c.oid = r.relid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE pg_catalog.pg_stat_get_live_tuples(c.oid) > 0 ORDER BY c.oid
"""
_SCHEDULED: Final = "SELECT path FROM pg_ducklake.ducklake_files_scheduled_for_deletion"
# Files of a snapshot without the catalog rows by which it would find or understand them.
_UNREADABLE: Final = """
WITH oldest AS (SELECT min(snapshot_id) AS id FROM pg_ducklake.ducklake_snapshot)
SELECT d.path, 'a delete file that outlives its data file' AS message
FROM pg_sluice.delete_file d LEFT JOIN pg_sluice.data_file f USING (data_file_id)
WHERE f.data_file_id IS NULL OR f.begin_snapshot > d.begin_snapshot
    OR (f.end_snapshot IS NOT NULL AND coalesce(d.end_snapshot > f.end_snapshot, true))
UNION ALL
SELECT f.path, 'a data file of a table that its first snapshot does not have'
FROM pg_sluice.data_file f CROSS JOIN oldest o
WHERE NOT EXISTS (SELECT FROM pg_ducklake.ducklake_table t
    JOIN pg_ducklake.ducklake_schema s ON s.schema_id = t.schema_id
        AND s.begin_snapshot <= greatest(f.begin_snapshot, o.id)
        AND (s.end_snapshot IS NULL OR s.end_snapshot > greatest(f.begin_snapshot, o.id))
    WHERE t.table_id = f.table_id AND t.begin_snapshot <= greatest(f.begin_snapshot, o.id)
        AND (t.end_snapshot IS NULL OR t.end_snapshot > greatest(f.begin_snapshot, o.id)))
"""
# Files with a partition, and the key of the partition that DuckLake has of them.
_PARTITIONS: Final = """
SELECT f.path, f.partition::text AS partition, (
    SELECT jsonb_agg(jsonb_build_array(c.column_id, c.transform) ORDER BY c.partition_key_index)::text
    FROM pg_ducklake.ducklake_partition_column c
    WHERE c.table_id = f.table_id AND c.partition_id = f.partition_id) AS key
FROM pg_sluice.data_file f WHERE f.partition_id IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class PastTable:
    """A table of a snapshot; `columns` maps column IDs to name and DuckLake type.

    A materialized view was readable then if it was `populated`.
    """

    schema: str
    name: str
    columns: Mapping[int, tuple[str, str]]
    populated: bool


async def snapshot_of_number(store: Store, number: int) -> int:
    """Return that snapshot; 22023 if there is none."""
    exists, newest = False, None
    if number < 2**63:
        [(exists, newest)] = await store.fetch(_BY_NUMBER, number)
    if not exists:
        raise SluiceError(
            SqlState.INVALID_PARAMETER_VALUE,
            f"there is no snapshot {number}",
            hint=None if newest is None else f"The newest is {newest}.",
        )
    return number


async def snapshot_of_time(store: Store, instant: datetime) -> int:
    """Return the last snapshot committed until then; 22023 before the first one, and in the future."""
    async with store.pool.acquire() as connection:
        [found] = await connection.fetch(_BY_TIME, instant)
        if not found["is_past"] and not found["is_future"]:
            # Under this lock, no session can commit a snapshot of an earlier time.
            async with connection.transaction():
                await connection.execute("LOCK TABLE pg_sluice.head IN SHARE MODE")
                [found] = await connection.fetch(_BY_TIME, instant)
    if found["is_future"]:
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, "the lake cannot be read as of a time in the future")
    if found["snapshot"] is None:
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, "the lake did not exist at that time")
    snapshot: int = found["snapshot"]
    return snapshot


async def tables_at(store: Store, relation_oids: Iterable[int], snapshot: int) -> dict[int, PastTable]:
    """Return those of the lake tables that the snapshot has, whatever their names today."""
    found: dict[int, PastTable] = {}
    columns: dict[int, dict[int, tuple[str, str]]] = {}
    rows = await store.fetch(_TABLES, list(relation_oids), snapshot)
    for oid, schema, name, column_id, column, type_name, populated in rows:
        known = columns.setdefault(oid, {})
        if column_id is not None:
            known[column_id] = (column, type_name)
        found[oid] = PastTable(schema, name, known, populated)
    return found


async def ducklake_types(store: Store, types: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """Return DuckLake's name of each type, given as PostgreSQL's OID and typmod."""
    pairs = sorted(set(types))
    rows = await store.fetch(_TYPES, [oid for oid, _ in pairs], [typmod for _, typmod in pairs])
    return {(oid, typmod): ducklake for oid, typmod, ducklake in rows}


async def scheduled_files(store: Store) -> list[str]:
    """Return the paths, below the data path, of files that are about to be removed."""
    return [row["path"] for row in await store.fetch(_SCHEDULED)]


async def unreadable(store: Store) -> list[tuple[str, str]]:
    """Return the faults of kept snapshots that the catalog can see: a file and the fault."""
    return [(row["path"], row["message"]) for row in await store.fetch(_UNREADABLE)]


async def misplaced(store: Store) -> list[tuple[str, str]]:
    """Return the files of which DuckLake has other partition values than the catalog itself, and the fault."""
    found = []
    for row in await store.fetch(_PARTITIONS):
        told = json.loads(row["partition"] or "null")
        partition = partition_from_json(told)
        right = json.loads(json.dumps(partition_to_json(partition)))
        if partition is None or right != told or json.loads(row["key"] or "null") != told["key"]:
            found.append((row["path"], "DuckLake has other partition values of this file"))
    return found


async def filled(store: Store) -> list[tuple[str, str]]:
    """Return the shadows that have rows, and the fault: a shadow is empty but within a transaction."""
    return [(row["name"], "the shadow has rows") for row in await store.fetch(_FILLED)]
