"""The gateway's reads of the catalog, over a pool of superuser connections.

Contract: `versions` gives the committed state of several tables at one snapshot. A table's version is loaded once and
kept until a commit changes the table (`relation.changed_snapshot`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
from cachetools import LRUCache

from catalog.constraints import exclusion_from_json, foreign_key_from_json, key_from_json
from catalog.errors import SluiceError, SqlState
from catalog.indexes import computed_key_from_json, index_from_json
from catalog.maintenance.compaction import Turn
from catalog.maintenance.dead_shadow_rows import UndoneRows
from catalog.maintenance.sidecars import Sidecars
from catalog.model import (
    Carried,
    Column,
    ColumnStatistics,
    DataFile,
    Domain,
    Label,
    PartitionColumn,
    SortColumn,
    Table,
    TableVersion,
    UserArray,
)
from catalog.partitions import partition_from_json
from catalog.postgres.backends import GONE, BackendId
from catalog.postgres.pool import Pool
from catalog.publish import delete_file_from_json, statistics_from_json
from catalog.row_locks import RowLocks
from catalog.schema.changing_elements import ChangingElement
from catalog.schema.compatibility import SchemaStep
from catalog.schema.schema_change_progress import Progress
from catalog.schema.schema_changes import Origin, SchemaChange, undo_abandoned
from catalog.schema.step_connections import StepConnections
from catalog.schema.triggers import FiredTriggers
from catalog.snapshot_pins import SnapshotPins
from catalog.version_changes import ChangedRow, KeptVersions, files_since

_LAKE: Final = "SELECT relid::bigint FROM pg_sluice.relation WHERE relid = ANY ($1::oid[])"
_SHARED: Final = """
SELECT EXISTS (SELECT FROM pg_class WHERE oid = $1::bigint::oid AND relkind IN ('v', 'S') AND relpersistence <> 't')
"""
_SHARED_TYPE: Final = "SELECT EXISTS (SELECT FROM pg_type WHERE oid = $1::bigint::oid)"

# The tables' last snapshots, and the changes since the kept one (NULL for none). They are unknown since an expired one.
_CHANGED: Final = "SELECT * FROM pg_sluice.changed_since($1::oid[], $2::bigint[], $3::bigint[])"

_DESCRIBE: Final = "SELECT description FROM pg_sluice.describe($1::oid[])"

_FILES: Final = """
SELECT f.data_file_id, f.path, f.record_count, f.file_size_bytes, f.footer_size, f.row_id_start,
       coalesce(f.file_order, f.data_file_id) AS place, f.hot_rows::text AS hot_rows,
       f.statistics::text AS statistics, f.partition::text AS partition,
       CASE WHEN d.data_file_id IS NOT NULL THEN pg_sluice.delete_file_json(d)::text END AS deletes
FROM pg_sluice.data_file f
LEFT JOIN pg_sluice.delete_file d
    ON d.data_file_id = f.data_file_id
    AND d.begin_snapshot <= $2 AND (d.end_snapshot IS NULL OR d.end_snapshot > $2)
WHERE f.table_id = $1 AND f.begin_snapshot <= $2 AND (f.end_snapshot IS NULL OR f.end_snapshot > $2)
ORDER BY place, f.data_file_id
"""

_STATISTICS: Final = """
SELECT s.data_file_id, s.column_id, s.value_count, s.null_count, s.column_size_bytes, s.min_value, s.max_value,
       s.contains_nan
FROM pg_ducklake.ducklake_file_column_stats s
WHERE s.table_id = $1 AND s.data_file_id = ANY ($2)
"""

_COLUMNS_MADE: Final = """
SELECT table_id, step_id, kind, subject FROM pg_sluice.schema_step
WHERE table_id = ANY ($1) AND snapshot_id > $2 AND kind IN ('rewrite column', 'add computed column') ORDER BY step_id
"""
# Every table of some snapshot, and every snapshot that changed its files; dropped tables have no relation.
_HISTORY: Final = """
SELECT DISTINCT t.table_id, r.relid::bigint, t.table_name, s.schema_name,
       CASE WHEN t.path_is_relative THEN s.path || t.path ELSE substr(t.path, length(m.value) + 1) END AS folder,
       f.snapshot
FROM pg_ducklake.ducklake_table t
JOIN pg_ducklake.ducklake_schema s ON s.schema_id = t.schema_id
    AND t.begin_snapshot >= s.begin_snapshot AND (s.end_snapshot IS NULL OR t.begin_snapshot < s.end_snapshot)
CROSS JOIN (SELECT value FROM pg_ducklake.ducklake_metadata WHERE key = 'data_path') m
LEFT JOIN pg_sluice.relation r ON r.table_id = t.table_id
CROSS JOIN LATERAL (
    SELECT begin_snapshot AS snapshot FROM pg_sluice.data_file f WHERE f.table_id = t.table_id
    UNION SELECT begin_snapshot FROM pg_sluice.delete_file d WHERE d.table_id = t.table_id
    UNION SELECT t.begin_snapshot) f
WHERE f.snapshot >= t.begin_snapshot AND (t.end_snapshot IS NULL OR f.snapshot < t.end_snapshot)
ORDER BY t.table_id, f.snapshot
"""

_PUBLISHED: Final = """
SELECT path FROM pg_sluice.data_file WHERE path = ANY ($1)
UNION ALL SELECT path FROM pg_sluice.delete_file WHERE path = ANY ($1)
UNION ALL SELECT base_path FROM pg_sluice.delete_file WHERE base_path = ANY ($1)
"""

_REPORT: Final = """
WITH told AS (
    UPDATE pg_sluice.schema_change SET step = $2, files_done = $3, files_total = $4, rows_done = $5, rows_total = $6
    WHERE change_id = $1
        AND (step, files_done, files_total, rows_done, rows_total) IS DISTINCT FROM ($2, $3, $4, $5, $6))
SELECT canceled FROM pg_sluice.schema_change WHERE change_id = $1
"""

_VERSIONS_KEPT_MAX: Final = 1024
_HOT_BYTES_KEPT_MAX: Final = 128 * 2**20


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint: its name and its expression as PostgreSQL's node text (pg_constraint.conbin)."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class TableRules:
    """The rules for every write to a table, beyond the types and NOT NULLs of its columns.

    `defaults` maps attnum to the node text of the column's default or generation expression. The rules are those of the
    table's schema in version `schema_version`.
    """

    checks: tuple[Check, ...]
    defaults: Mapping[int, str]
    generated: frozenset[int]
    identity: frozenset[int]
    schema_version: int = 0


def table_from_description(description: Mapping[str, Any]) -> Table:
    """Return the model of a table from its `pg_sluice.describe`."""
    return Table(
        oid=description["relid"],
        table_id=description["table_id"],
        schema=description["schema"],
        name=description["name"],
        path=description["path"],
        columns=tuple(
            Column(
                attnum=column["attnum"],
                column_id=column["column_id"],
                name=column["name"],
                type_oid=column["type"],
                typmod=column["typmod"],
                nullable=column["nullable"],
                initial_default=column["initial_default"],
                not_null=column["not_null"],
                labels=tuple(Label(*label) for label in column["labels"] or ()),
                domain=None if column["domain"] is None else _domain(column["domain"]),
                user_array=None if column["array"] is None else UserArray(*column["array"]),
                carried=None if column["carried"] is None else Carried(*column["carried"]),
            )
            for column in description["columns"] or ()
        ),
        keys=tuple(key_from_json(key) for key in description["keys"] or ()),
        foreign_keys=tuple(foreign_key_from_json(each) for each in description["foreign_keys"] or ()),
        computed_keys=tuple(computed_key_from_json(key) for key in description["computed_keys"] or ()),
        exclusions=tuple(exclusion_from_json(each) for each in description["exclusions"] or ()),
        indexes=tuple(index_from_json(index) for index in description["indexes"] or ()),
        schema_version=description["schema_version"],
        materialized=description["materialized"],
        populated=description["populated"],
        triggered=description["triggered"],
        defers=description["defers"],
        stilled=description["stilled"],
        sort_key=tuple(SortColumn(*each) for each in description["sort_key"] or ()),
        partition_key=tuple(PartitionColumn(*each) for each in description["partition_key"] or ()),
    )


def _domain(found: Mapping[str, Any]) -> Domain:
    rules = tuple((name, expression) for name, expression in found["rules"])
    return Domain(found["oid"], found["schema"], found["name"], found["defaulted"], rules)


def rules_from_description(description: Mapping[str, Any]) -> TableRules:
    """Return the rules of a table from its `pg_sluice.describe`."""
    columns = description["columns"] or ()
    return TableRules(
        checks=tuple(Check(check["name"], check["expression"]) for check in description["checks"] or ()),
        defaults={column["attnum"]: column["default"] for column in columns if column["default"] is not None},
        generated=frozenset(column["attnum"] for column in columns if column["generated"]),
        identity=frozenset(column["attnum"] for column in columns if column["identity"]),
        schema_version=description["schema_version"],
    )


def steps_from_json(text: str) -> dict[int, list[SchemaStep]]:
    """Read the result of `pg_sluice.steps_since`: each table's steps in order, by the table's ID."""
    found: dict[int, list[SchemaStep]] = {}
    for step in json.loads(text):
        taken = SchemaStep(step["step_id"], step["kind"], step["subject"], step["detail"])
        found.setdefault(step["table_id"], []).append(taken)
    return found


class Store:
    """The catalog as the gateway itself reads it. `open` before use, `close` after."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.pool = Pool(dsn)
        self._step_connections = StepConnections(dsn)
        self._kept: dict[int, TableVersion] = {}
        self._sizes: dict[int, int] = {}  # the bytes of hot rows in each of them
        self._hot_bytes = 0
        self._rules: LRUCache[int, TableRules] = LRUCache(_VERSIONS_KEPT_MAX)
        self._lake_relations: LRUCache[int, bool] = LRUCache(_VERSIONS_KEPT_MAX)
        self.gateway_number: int | None = None  # recorded in its schema changes (catalog/gateways.py)
        self.row_locks = RowLocks(self.pool)
        self.undone_rows = UndoneRows(self.pool)
        self.sidecars = Sidecars(self.pool)
        self.triggers = FiredTriggers(self.pool)
        self.readers = SnapshotPins(dsn)

    async def open(self) -> None:
        """Connect; raises 57P03 if the catalog cannot be reached."""
        await self.pool.open()

    async def close(self) -> None:
        """Close every connection of the pool."""
        await self._step_connections.close()
        await self.row_locks.close()
        await self.undone_rows.close()
        await self.readers.close()
        await self.pool.close()

    async def renew(self) -> None:
        """Give up all waits, because the catalog does not answer."""
        await self.pool.renew()

    async def lake_relations(self, relation_oids: Iterable[int]) -> frozenset[int]:
        """Return those of these relations that are lake tables."""
        wanted = list(relation_oids)
        if not wanted:
            return frozenset()
        return frozenset(row["relid"] for row in await self.pool.fetch(_LAKE, wanted))

    async def found_lake_relations(self, relation_oids: Iterable[int]) -> frozenset[int]:
        """Return those of these existing relations that are lake tables.

        A lake table stays one until it is dropped, so known ones are not asked for again.
        """
        wanted = set(relation_oids)
        known = {oid for oid in wanted if oid in self._lake_relations}
        found = await self.lake_relations(wanted - known)
        self._lake_relations.update(dict.fromkeys(found, True))
        return found | known

    async def is_shared(self, relation_oid: int) -> bool:
        """Whether it is a committed view or sequence, not a session's own."""
        shared: bool = await self.pool.fetchval(_SHARED, relation_oid)
        return shared

    async def is_shared_type(self, type_oid: int) -> bool:
        """Whether the type is committed."""
        shared: bool = await self.pool.fetchval(_SHARED_TYPE, type_oid)
        return shared

    async def newest_snapshot(self) -> int:
        """Return the last committed snapshot."""
        snapshot: int = await self.pool.fetchval("SELECT max(snapshot_id) FROM pg_ducklake.ducklake_snapshot")
        return snapshot

    async def delete_count(self, delete_file_id: int) -> int:
        """Return the number of rows of a delete file, live or not; 40001 if it is too old to be known."""
        count: int | None = await self.pool.fetchval(
            "SELECT delete_count FROM pg_sluice.delete_file WHERE delete_file_id = $1", delete_file_id
        )
        if count is None:
            raise SluiceError(SqlState.SERIALIZATION_FAILURE, "could not serialize access due to concurrent delete")
        return count

    async def versions_at(self, relation_oids: Iterable[int], snapshot: int) -> dict[int, TableVersion]:
        """Return the rows of each lake table among these relations as of `snapshot`, in today's columns."""
        found = {}
        for oid, version in (await self.versions(relation_oids)).items():
            if version.snapshot_id <= snapshot:
                found[oid] = version
                continue
            async with self.pool.acquire() as connection:
                found[oid] = TableVersion(version.table, snapshot, await _files(connection, version.table, snapshot))
        return found

    async def columns_made_since(self, table_ids: Sequence[int], snapshot: int) -> dict[int, list[SchemaStep]]:
        """Return the steps since a snapshot that added columns for which the files of that time have no values.

        By table ID; tables without such steps are left out.
        """
        found: dict[int, list[SchemaStep]] = {}
        for row in await self.pool.fetch(_COLUMNS_MADE, table_ids, snapshot):
            found.setdefault(row["table_id"], []).append(SchemaStep(row["step_id"], row["kind"], row["subject"], {}))
        return found

    async def versions(self, relation_oids: Iterable[int]) -> dict[int, TableVersion]:
        """Return the committed version of each lake table among these relations, all at one snapshot.

        Relations that are no lake tables are left out.
        """
        wanted = sorted(relation_oids)
        if not wanted:
            return {}
        async with self.pool.acquire() as connection:
            found = await self._changed(connection, wanted)
            if any(version is None for version in found.values()):
                async with connection.transaction(isolation="repeatable_read", readonly=True):
                    found = await self._changed(connection, wanted)
                    for oid, version in found.items():
                        found[oid] = version or self._keep(await self._load(connection, oid))
        return {oid: version for oid, version in found.items() if version is not None}

    async def _changed(
        self, connection: asyncpg.pool.PoolConnectionProxy, wanted: Sequence[int]
    ) -> dict[int, TableVersion | None]:
        """Return the lake tables among these relations: the kept version with all changes since, None if it must be
        loaded anew."""
        kept = self.kept_versions(wanted)
        found: dict[int, TableVersion | None] = {}
        for row in await connection.fetch(_CHANGED, wanted, kept.snapshots, kept.schemas):
            version = kept.versions[row["relid"]]
            if row["expired"]:
                version = None
            if version is not None and row["since"] is not None:
                since = json.loads(row["since"])
                described = since["description"]
                table = version.table if described is None else table_from_description(described)
                version = self._keep(TableVersion(table, row["changed_snapshot"], files_since(version, since)))
            found[row["relid"]] = version
        return found

    def kept_versions(self, wanted: Iterable[int]) -> KeptVersions:
        """What the gateway has of these tables without asking."""
        return KeptVersions({oid: self._kept.get(oid) for oid in wanted})

    def brought_up(self, kept: KeptVersions, rows: Iterable[ChangedRow]) -> dict[int, TableVersion] | None:
        """Return the versions with what a session's backend has told about changes since (`pg_sluice.changed`); None
        if that does not suffice.
        """
        found = kept.with_rows_of(rows)
        for oid, version in (found or {}).items():
            if version is not kept.versions[oid]:
                self._keep(version)
        return found

    async def published(self, paths: Collection[str]) -> set[str]:
        """Return those of these files, by their path below the data path, that some snapshot has."""
        names = {path.rpartition("/")[2]: path for path in paths}
        return {names[row["path"]] for row in await self.pool.fetch(_PUBLISHED, list(names))}

    async def is_gone(self, backend: BackendId) -> bool:
        """Whether that backend has ended; false too while the catalog cannot be asked."""
        try:
            return bool(await self.pool.fetchval(GONE, backend.process_id, backend.started))
        except SluiceError:
            return False

    async def rules(self, relation_oid: int, schema_version: int) -> TableRules:
        """Return the constraints and defaults of a lake table, of its schema in that version or a later one."""
        kept = self._rules.get(relation_oid)
        if kept is None or kept.schema_version != schema_version:
            kept = rules_from_description(json.loads(await self.pool.fetchval(_DESCRIBE, [relation_oid])))
            self._rules[relation_oid] = kept
        return kept

    async def steps_since(self, enlisted: Mapping[int, int]) -> dict[int, list[SchemaStep]]:
        """Return the schema steps of tables since a version of each; the keys are DuckLake IDs."""
        keyed = json.dumps({str(table_id): version for table_id, version in enlisted.items()})
        return steps_from_json(await self.pool.fetchval("SELECT pg_sluice.steps_since($1::text::jsonb)", keyed))

    async def history(self) -> list[TableVersion]:
        """Return every table at every snapshot that changed it, as far back as snapshots reach.

        Dropped tables have OID 0 and no columns: PostgreSQL has forgotten their types.
        """
        found = []
        async with (
            self.pool.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            for row in await connection.fetch(_HISTORY):
                table = None
                if row["relid"] is not None:
                    text = await connection.fetchval(_DESCRIBE, [row["relid"]])
                    table = table_from_description(json.loads(text)) if text else None
                if table is None:
                    table = Table(0, row["table_id"], row["schema_name"], row["table_name"], row["folder"], ())
                found.append(TableVersion(table, row["snapshot"], await _files(connection, table, row["snapshot"])))
        return found

    async def _load(self, connection: asyncpg.pool.PoolConnectionProxy, oid: int) -> TableVersion:
        description = json.loads(await connection.fetchval(_DESCRIBE, [oid]))
        table = table_from_description(description)
        snapshot = description["changed"]
        return TableVersion(table, snapshot, await _files(connection, table, snapshot))

    def _keep(self, version: TableVersion) -> TableVersion:
        """Keep the version; those brought up longest ago go if they are many, or have many bytes of hot rows."""
        oid, size = version.table.oid, version.hot_bytes
        self._kept.pop(oid, None)
        self._hot_bytes += size - self._sizes.pop(oid, 0)
        while self._kept and (len(self._kept) >= _VERSIONS_KEPT_MAX or self._hot_bytes > _HOT_BYTES_KEPT_MAX):
            eldest = next(iter(self._kept))
            del self._kept[eldest]
            self._hot_bytes -= self._sizes.pop(eldest)
        self._kept[oid], self._sizes[oid] = version, size
        return version

    async def begin_change(self, origin: Origin, elements: Sequence[ChangingElement]) -> SchemaChange:
        """Begin a change of a table's schema in steps."""
        return await SchemaChange.begin(self._step_connections, origin, elements, self.gateway_number)

    async def undo_abandoned(self, relid: int) -> None:
        """Undo changes of a table that a dead gateway has left."""
        await undo_abandoned(self._dsn, relid)

    async def take_turn(self, relid: int) -> Turn | None:
        """Take the turn to replace files of a table; None while another session has it."""
        return await Turn.take(self._dsn, relid)

    async def report(self, change_id: int, progress: Progress) -> bool:
        """Publish the progress of a change; return whether its end was asked for."""
        done = (progress.step, progress.files_done, progress.files_total, progress.rows_done, progress.rows_total)
        canceled: bool = await self.pool.fetchval(_REPORT, change_id, *done)
        return canceled

    async def fetch(self, sql: str, *arguments: object) -> Sequence[asyncpg.Record]:
        """Return the rows of a query of the gateway."""
        rows: Sequence[asyncpg.Record] = await self.pool.fetch(sql, *arguments)
        return rows


async def _files(connection: asyncpg.pool.PoolConnectionProxy, table: Table, snapshot: int) -> tuple[DataFile, ...]:
    """Return the table's files at a snapshot, with their statistics."""
    files = await connection.fetch(_FILES, table.table_id, snapshot)
    statistics: dict[int, dict[int, ColumnStatistics]] = {}
    rows = await connection.fetch(_STATISTICS, table.table_id, [row["data_file_id"] for row in files])
    for row in rows:
        statistics.setdefault(row["data_file_id"], {})[row["column_id"]] = ColumnStatistics(
            row["value_count"],
            row["null_count"],
            row["column_size_bytes"],
            row["min_value"],
            row["max_value"],
            row["contains_nan"],
        )
    for row in files:
        if row["statistics"] is not None:
            statistics[row["data_file_id"]] = statistics_from_json(json.loads(row["statistics"]))
    return tuple(_data_file(row, statistics.get(row["data_file_id"], {})) for row in files)


def _data_file(row: asyncpg.Record, statistics: Mapping[int, ColumnStatistics]) -> DataFile:
    return DataFile(
        path=row["path"],
        record_count=row["record_count"],
        size_bytes=row["file_size_bytes"],
        footer_size=row["footer_size"],
        statistics=statistics,
        data_file_id=row["data_file_id"],
        row_id_start=row["row_id_start"],
        place=row["place"],
        delete_file=None if row["deletes"] is None else delete_file_from_json(json.loads(row["deletes"])),
        hot_rows=row["hot_rows"],
        partition=partition_from_json(json.loads(row["partition"] or "null")),
    )
