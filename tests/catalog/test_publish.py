"""Schema and rows become visible together, as one snapshot, at the COMMIT of a client's backend."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import asyncpg
import pytest

from catalog.model import ColumnStatistics, DataFile, DeleteFile
from catalog.publish import Deletion, RowChange
from catalog.store import Store
from gateway.backend.own_message import own
from tests.catalog.conftest import CatalogUnderTest

_FILE = DataFile(
    "a.parquet", 3, 100, 50, {1: ColumnStatistics(3, 0, 10, "-5", "10"), 2: ColumnStatistics(3, 1, 10, "a", "b")}
)


async def _oid(lake: CatalogUnderTest, name: str) -> int:
    oid: int = await lake.client.fetchval("SELECT $1::pg_catalog.text::pg_catalog.regclass::oid::bigint", name)
    return oid


async def _stage(lake: CatalogUnderTest, change: RowChange) -> None:
    await lake.client.execute(own("SELECT pg_sluice.stage($1::pg_catalog.text::pg_catalog.jsonb)"), change.to_json())


def _deleting(oid: int, path: str, count: int, replaces: int | None = None) -> RowChange:
    """`count` rows of the first file that was published are deleted."""
    return RowChange(oid, deleted=[Deletion("a.parquet", 0, DeleteFile(path, count, 10, 5, replaces=replaces))])


async def _changes(lake: CatalogUnderTest) -> list[str]:
    rows = await lake.superuser.fetch(
        "SELECT changes_made FROM pg_ducklake.ducklake_snapshot_changes ORDER BY snapshot_id"
    )
    return [row[0] for row in rows[1:]]


async def test_a_table_with_every_kind_of_column(lake: CatalogUnderTest) -> None:
    await lake.client.execute(
        "CREATE TABLE t (a smallint NOT NULL, n numeric(10,2), m numeric, w numeric(50,2), i interval, u uuid,"
        " l integer[], v varchar(5), j jsonb)"
    )
    rows = await lake.superuser.fetch(
        "SELECT column_id, column_name, column_type, nulls_allowed, parent_column FROM pg_ducklake.ducklake_column"
        " ORDER BY column_id"
    )
    assert [tuple(row) for row in rows] == [
        (1, "a", "int16", False, None),
        (2, "n", "decimal(10,2)", True, None),
        (3, "m", "varchar", True, None),
        (4, "w", "varchar", True, None),
        (5, "i", "struct", True, None),
        (6, "months", "int32", True, 5),
        (7, "days", "int32", True, 5),
        (8, "microseconds", "int64", True, 5),
        (9, "u", "uuid", True, None),
        (10, "l", "list", True, None),
        (11, "element", "int32", True, 10),
        (12, "v", "varchar", True, None),
        (13, "j", "json", True, None),
    ]
    assert await _changes(lake) == ['created_table:"public"."t"']


async def test_rollback_and_savepoints_leave_nothing(lake: CatalogUnderTest) -> None:
    transaction = lake.client.transaction()
    await transaction.start()
    await lake.client.execute("CREATE TABLE gone (a int)")
    await transaction.rollback()
    async with lake.client.transaction():
        await lake.client.execute("CREATE TABLE kept (a int)")
        inner = lake.client.transaction()
        await inner.start()
        await lake.client.execute("CREATE TABLE gone (a int)")
        await inner.rollback()
    assert await _changes(lake) == ['created_table:"public"."kept"']


async def test_ddl_and_rows_of_a_transaction_are_one_snapshot(lake: CatalogUnderTest) -> None:
    async with lake.client.transaction():
        await lake.client.execute("CREATE TABLE t (a int, b text)")
        await _stage(lake, RowChange(await _oid(lake, "t"), [_FILE]))
        assert await _changes(lake) == []
    [change] = await _changes(lake)
    table_id = await lake.superuser.fetchval("SELECT table_id FROM pg_sluice.relation")
    assert change == f'created_table:"public"."t",inserted_into_table:{table_id}'


async def test_statistics_of_files_widen_those_of_the_table(lake: CatalogUnderTest) -> None:
    await lake.client.execute("CREATE TABLE t (a int, b text)")
    oid = await _oid(lake, "t")
    await _stage(lake, RowChange(oid, [_FILE]))
    more = DataFile(
        "b.parquet", 2, 80, 50, {1: ColumnStatistics(2, 1, 5, "9", "100"), 2: ColumnStatistics(2, 2, 5, None, None)}
    )
    await _stage(lake, RowChange(oid, [more]))
    rows = await lake.superuser.fetch(
        "SELECT column_id, contains_null, min_value, max_value FROM pg_ducklake.ducklake_table_column_stats ORDER BY 1"
    )
    assert [tuple(row) for row in rows] == [(1, True, "-5", "100"), (2, True, None, None)]
    stats = await lake.superuser.fetchrow(
        "SELECT record_count, next_row_id, file_size_bytes FROM pg_ducklake.ducklake_table_stats"
    )
    assert stats is not None
    assert tuple(stats) == (5, 5, 180)
    starts = await lake.superuser.fetch("SELECT row_id_start FROM pg_ducklake.ducklake_data_file ORDER BY 1")
    assert [row[0] for row in starts] == [0, 3]


async def test_files_of_one_change_count_as_much_as_each_by_itself(lake: CatalogUnderTest) -> None:
    """Statistics and row numbers; with bounds that are unknown, and values that are no number."""
    random = Random(7)

    def statistics(minimum: str | None, maximum: str | None, contains_nan: bool | None = None) -> ColumnStatistics:
        return ColumnStatistics(9, random.randrange(2), 5, minimum, maximum, contains_nan)

    files = []
    for number in range(40):
        low = random.randrange(-1000, 1000)
        word = random.choice(["a", "b", "Ä", "", None])
        files.append(
            DataFile(
                f"{number}.parquet", random.randrange(1, 9), 10, 5,
                {
                    1: statistics(str(low), str(low + 5)),
                    2: statistics(word, word),
                    3: statistics(f"{low}.5", "1e10", contains_nan=random.random() < 0.1),
                    4: statistics("2026-01-02", "2026-11-22" if number else None),
                },
            )
        )  # fmt: skip
    for table in ("at_once", "one_by_one"):
        await lake.client.execute(f"CREATE TABLE {table} (a integer, b text, c double precision, d date)")
    await _stage(lake, RowChange(await _oid(lake, "at_once"), files))
    for file in files:
        await _stage(lake, RowChange(await _oid(lake, "one_by_one"), [file]))
    for columns, table in (
        ("column_id, contains_null, contains_nan, min_value, max_value", "table_column_stats"),
        ("record_count, next_row_id, file_size_bytes", "table_stats"),
        ("path, record_count, row_id_start", "data_file"),
    ):
        of_table = "table_id = (SELECT table_id FROM pg_sluice.relation WHERE relid = $1::text::regclass)"
        query = f"SELECT {columns} FROM pg_ducklake.ducklake_{table} WHERE {of_table} ORDER BY 1"
        at_once, one_by_one = [await lake.superuser.fetch(query, name) for name in ("at_once", "one_by_one")]
        assert at_once == one_by_one
        assert at_once


async def test_delete_files_of_one_change(lake: CatalogUnderTest) -> None:
    """Of files that were there and of files of its own; all of them, or none."""
    await lake.client.execute("CREATE TABLE t (a int, b text)")
    oid = await _oid(lake, "t")
    files = [replace(_FILE, path=f"{number}.parquet") for number in range(3)]
    await _stage(lake, RowChange(oid, files))
    known = {
        row["path"]: row["data_file_id"]
        for row in await lake.superuser.fetch("SELECT path, data_file_id FROM pg_ducklake.ducklake_data_file")
    }

    def deleting(path: str, of: str, replaces: int | None = None) -> Deletion:
        return Deletion(of, known.get(of), DeleteFile(path, 1, 10, 5, replaces=replaces))

    own = replace(_FILE, path="own.parquet")
    change = RowChange(
        oid, [own], [deleting("d2", "2.parquet"), deleting("d0", "0.parquet"), deleting("d", "own.parquet")]
    )
    await _stage(lake, change)
    query = """
        SELECT f.path, d.path, d.end_snapshot IS NULL FROM pg_ducklake.ducklake_delete_file d
        JOIN pg_ducklake.ducklake_data_file f USING (data_file_id) ORDER BY 1, 2
    """
    told = [("0.parquet", "d0", True), ("2.parquet", "d2", True), ("own.parquet", "d", True)]
    assert [tuple(row) for row in await lake.superuser.fetch(query)] == told
    for wrong, why in ((deleting("e0", "0.parquet"), "update"), (deleting("e", "nowhere.parquet"), "delete")):
        with pytest.raises(asyncpg.SerializationError, match=f"concurrent {why}"):
            await _stage(lake, RowChange(oid, deleted=[deleting("e1", "1.parquet"), wrong]))
        assert [tuple(row) for row in await lake.superuser.fetch(query)] == told


async def test_a_delete_file_must_replace_the_live_one(lake: CatalogUnderTest) -> None:
    await lake.client.execute("CREATE TABLE t (a int, b text)")
    oid = await _oid(lake, "t")
    await _stage(lake, RowChange(oid, [_FILE]))
    await _stage(lake, _deleting(oid, "d1.parquet", 1))
    with pytest.raises(asyncpg.SerializationError):
        await _stage(lake, _deleting(oid, "d2.parquet", 2))
    live = await lake.superuser.fetchval("SELECT delete_file_id FROM pg_ducklake.ducklake_delete_file")
    await _stage(lake, _deleting(oid, "d3.parquet", 2, live))
    rows = await lake.superuser.fetch(
        "SELECT path, end_snapshot IS NULL AS live FROM pg_ducklake.ducklake_delete_file ORDER BY begin_snapshot"
    )
    assert [tuple(row) for row in rows] == [("d1.parquet", False), ("d3.parquet", True)]


async def test_truncate_and_drop_end_files_and_keep_history(lake: CatalogUnderTest) -> None:
    await lake.client.execute("CREATE TABLE t (a int, b text)")
    oid = await _oid(lake, "t")
    await _stage(lake, RowChange(oid, [_FILE]))
    await _stage(lake, RowChange(oid, truncate=True))
    await _stage(lake, RowChange(oid, [_FILE]))
    await lake.client.execute("DROP TABLE t")
    rows = await lake.superuser.fetch(
        "SELECT begin_snapshot, end_snapshot FROM pg_ducklake.ducklake_data_file ORDER BY 1"
    )
    assert [tuple(row) for row in rows] == [(2, 3), (4, 5)]
    assert await lake.superuser.fetchval("SELECT count(*) FROM pg_sluice.relation") == 0


async def test_rename_add_and_drop_column_keep_ids(lake: CatalogUnderTest) -> None:
    await lake.client.execute("CREATE TABLE t (a int, b text)")
    await lake.client.execute("ALTER TABLE t RENAME a TO a2; ALTER TABLE t DROP b; ALTER TABLE t ADD b int DEFAULT 7")
    await lake.client.execute("ALTER TABLE t RENAME TO t2; CREATE SCHEMA s; ALTER TABLE t2 SET SCHEMA s")
    rows = await lake.superuser.fetch(
        "SELECT column_id, column_name, initial_default FROM pg_ducklake.ducklake_column WHERE end_snapshot IS NULL"
        " ORDER BY 1"
    )
    assert [tuple(row) for row in rows] == [(1, "a2", None), (3, "b", "7")]
    table = await lake.superuser.fetchrow(
        "SELECT schema_name, table_name, t.path, t.path_is_relative FROM pg_ducklake.ducklake_table t"
        " JOIN pg_ducklake.ducklake_schema USING (schema_id) WHERE t.end_snapshot IS NULL"
    )
    assert table is not None
    assert (table["schema_name"], table["table_name"]) == ("s", "t2")
    # Its files stay where they are, in the folder of the schema that it was made in.
    assert table["path"].startswith("/lake/public/t-")
    assert not table["path_is_relative"]


async def test_rename_of_a_schema_takes_its_tables_along(lake: CatalogUnderTest) -> None:
    names = (
        "SELECT schema_name, table_name, t.begin_snapshot, t.end_snapshot FROM pg_ducklake.ducklake_table t"
        " JOIN pg_ducklake.ducklake_schema USING (schema_id) ORDER BY t.begin_snapshot, t.table_id"
    )
    schemas = "SELECT schema_name FROM pg_ducklake.ducklake_schema WHERE end_snapshot IS NULL ORDER BY 1"
    await lake.client.execute("CREATE SCHEMA one; CREATE TABLE one.t (a int)")
    await lake.client.execute("ALTER SCHEMA one RENAME TO two")
    assert [row[0] for row in await lake.superuser.fetch(schemas)] == ["main", "public", "two"]
    await lake.client.execute("CREATE SCHEMA one; CREATE TABLE one.t (a int)")
    assert [tuple(row) for row in await lake.superuser.fetch(names)] == [
        ("one", "t", 1, 2), ("two", "t", 2, None), ("one", "t", 3, None),
    ]  # fmt: skip
    # In one transaction they change places.
    await lake.client.execute(
        "ALTER SCHEMA one RENAME TO three; ALTER SCHEMA two RENAME TO one; ALTER SCHEMA three RENAME TO two"
    )
    (
        first,
        *_,
    ) = await lake.superuser.fetch("SELECT DISTINCT table_id FROM pg_ducklake.ducklake_table ORDER BY 1")
    live = [tuple(row) for row in await lake.superuser.fetch(names) if row["end_snapshot"] is None]
    assert live == [("one", "t", 4, None), ("two", "t", 4, None)]
    where = "SELECT schema_name FROM pg_ducklake.ducklake_table t JOIN pg_ducklake.ducklake_schema USING (schema_id)"
    assert await lake.superuser.fetchval(f"{where} WHERE table_id = {first[0]} AND t.end_snapshot IS NULL") == "one"
    await lake.client.execute("ALTER SCHEMA one OWNER TO CURRENT_USER; DROP SCHEMA one, two CASCADE")
    assert [row[0] for row in await lake.superuser.fetch(schemas)] == ["main", "public"]


@pytest.mark.turns
@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t SET UNLOGGED",
        "TRUNCATE t",
        "SET LOCAL sluice.watched = 'on'; SET LOCAL sluice.filled = 'on'; TRUNCATE t",
        "SET LOCAL sluice.watched = 'on'; TRUNCATE t; SET CONSTRAINTS ALL IMMEDIATE",
        "CREATE RULE r AS ON INSERT TO t DO INSTEAD NOTHING",
        "CREATE TABLE u (a interval PRIMARY KEY)",
        "CREATE TABLE u (a interval[] UNIQUE)",
        "CREATE TABLE u (a int, b int, c int, d int, UNIQUE (a, b), FOREIGN KEY (c, d) REFERENCES u (a, b) MATCH FULL)",
        "CREATE TABLE u (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE u () INHERITS (t)",
        "CREATE TABLE u (a t)",
        "CREATE UNLOGGED TABLE u (a int)",
        "CREATE TABLE u AS SELECT 1 AS a",
        "SELECT 1 AS a INTO u",
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM t",
        "INSERT INTO t VALUES (1)",
        "DO $$ BEGIN INSERT INTO t VALUES (1); END $$",
    ],
)
async def test_what_is_not_there_yet_is_refused_by_name(lake: CatalogUnderTest, sql: str) -> None:
    await lake.client.execute("CREATE TABLE t (a int, b text)")
    before = await _changes(lake)
    with pytest.raises(asyncpg.FeatureNotSupportedError, match="is not supported on lake tables"):
        await lake.client.execute(sql)
    assert await _changes(lake) == before


async def test_temporary_tables_are_none_of_the_lake(lake: CatalogUnderTest) -> None:
    await lake.client.execute("CREATE TEMP TABLE t (a money PRIMARY KEY); INSERT INTO t VALUES (1); DROP TABLE t")
    assert await _changes(lake) == []


async def test_the_guard_is_not_seen_by_catalog_browsers(lake: CatalogUnderTest) -> None:
    await lake.client.execute("CREATE TABLE t (a int)")
    assert (
        await lake.client.fetchval("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = 't'::regclass")
        == 0
    )
    assert await lake.client.fetchval("SELECT count(*) FROM information_schema.triggers") == 0


async def test_scans_of_shadows_are_counted(lake: CatalogUnderTest) -> None:
    await lake.client.execute("CREATE TABLE t (a int)")
    async with lake.client.transaction():
        before = await lake.client.fetchval("SELECT pg_sluice.shadow_scans()")
        await lake.client.execute("DO $$ BEGIN PERFORM count(*) FROM t; END $$")
        assert await lake.client.fetchval("SELECT pg_sluice.shadow_scans()") == before + 1


async def test_writes_into_shadows_are_counted(lake: CatalogUnderTest) -> None:
    await lake.client.execute("CREATE TABLE t (a int)")
    transaction = lake.client.transaction()
    await transaction.start()
    counted = "SELECT * FROM pg_sluice.shadow_writes($1::oid[])"
    assert await lake.client.fetch(counted, []) == []
    await lake.client.execute("DO $$ BEGIN INSERT INTO t VALUES (1), (2); END $$")
    assert [tuple(row) for row in await lake.client.fetch(counted, [])] == [("t", 2)]
    assert await lake.client.fetch(counted, [await _oid(lake, "t")]) == []
    await transaction.rollback()


async def test_the_store_sees_versions_as_they_are_committed(lake: CatalogUnderTest) -> None:
    store = Store(lake.url)
    await store.open()
    try:
        await lake.client.execute("CREATE TABLE t (a int CHECK (a > 0), b text DEFAULT 'x')")
        oid = await _oid(lake, "t")
        assert await store.lake_relations([oid, 1259]) == {oid}
        first = (await store.versions([oid]))[oid]
        assert (first.files, first.row_count) == ((), 0)
        assert (await store.versions([oid]))[oid] is first
        await _stage(lake, RowChange(oid, [_FILE]))
        await _stage(lake, _deleting(oid, "d.parquet", 2))
        second = (await store.versions([oid]))[oid]
        assert second.row_count == 1
        assert second.files[0].statistics[1].minimum == "-5"
        rules = await store.rules(oid, second.table.schema_version)
        assert [check.name for check in rules.checks] == ["t_a_check"]
        assert set(rules.defaults) == {2}
        history = await store.history()
        assert [(version.snapshot_id, version.row_count) for version in history] == [(1, 0), (2, 3), (3, 1)]
        await lake.client.execute("DROP TABLE t")
        assert await store.versions([oid]) == {}
        assert [version.row_count for version in await store.history()] == [0, 3, 1]
    finally:
        await store.close()


async def test_hot_rows_are_published_and_kept_up_to_a_limit(
    lake: CatalogUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a gateway has in memory of them does not grow with the number of tables."""
    monkeypatch.setattr("catalog.store._HOT_BYTES_KEPT_MAX", 4_000)
    oids = []
    store = Store(lake.url)
    await store.open()
    try:
        for number in range(5):
            await lake.client.execute(f"CREATE TABLE hot_{number} (a integer)")
            oids.append(await _oid(lake, f"hot_{number}"))
            rows = f'{{"1":{{"type":"int32","values":[{", ".join(["7"] * 400)}]}}}}'
            await _stage(lake, RowChange(oids[-1], [replace(_FILE, record_count=400, footer_size=0, hot_rows=rows)]))
            [file] = (await store.versions([oids[-1]]))[oids[-1]].files
            assert file.record_count == 400
            assert json.loads(file.hot_rows or "") == json.loads(rows)
        kept = store.kept_versions(oids).versions
        assert [kept[oid] is not None for oid in oids] == [False, False, True, True, True]
        assert await lake.superuser.fetchval("SELECT count(*) FROM pg_ducklake.ducklake_data_file") == 0
        [[table]] = await lake.superuser.fetch("SELECT max(table_name) FROM pg_ducklake.ducklake_inlined_data_tables")
        assert await lake.superuser.fetchval(f"SELECT sum(a) FROM pg_ducklake.{table}") == 2800
    finally:
        await store.close()


async def test_a_session_in_the_past_may_commit_what_makes_views(lake: CatalogUnderTest) -> None:
    """At COMMIT, DuckLake's views are made by Sluice itself."""
    await lake.client.execute("BEGIN; CREATE TABLE later (a integer); SET LOCAL sluice.as_of = '1'")
    await lake.client.execute("COMMIT")
    assert await _oid(lake, "later")
