"""A catalog is created once, found again, and refused if it is another lake's."""

from __future__ import annotations

import asyncpg
import pytest

from catalog.bootstrap import bootstrap
from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from tests.catalog.conftest import CLIENT, DATA_PATH, CatalogUnderTest


async def test_is_safe_to_repeat(lake: CatalogUnderTest) -> None:
    assert await bootstrap(lake.url, DATA_PATH) == lake.nonce
    assert await lake.superuser.fetchval("SELECT count(*) FROM pg_ducklake.ducklake_snapshot") == 1


async def test_refuses_another_lake(lake: CatalogUnderTest) -> None:
    with pytest.raises(SluiceError, match=r"/lake/.*/other/"):
        await bootstrap(lake.url, "/other/")


async def test_refuses_another_version(lake: CatalogUnderTest) -> None:
    await lake.superuser.execute("UPDATE pg_sluice.setting SET value = '999' WHERE name = 'catalog_version'")
    with pytest.raises(SluiceError, match="version 999"):
        await bootstrap(lake.url, DATA_PATH)


async def test_needs_a_superuser(postgres: EmbeddedPostgres, lake: CatalogUnderTest) -> None:
    name = lake.url.partition("@/")[2].partition("?")[0]
    with pytest.raises(SluiceError, match="superuser"):
        await bootstrap(postgres.url(name, CLIENT), DATA_PATH)


async def test_keeps_the_analysed_trees_out_of_the_server_log(
    lake: CatalogUnderTest, postgres: EmbeddedPostgres
) -> None:
    name = lake.url.partition("@/")[2].partition("?")[0]
    fresh = await asyncpg.connect(postgres.url(name, CLIENT))
    try:
        assert await fresh.fetchval("SHOW log_min_messages") == "fatal"
    finally:
        await fresh.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM pg_sluice.setting",
        "SELECT * FROM pg_ducklake.ducklake_snapshot",
        "SELECT pg_sluice.stage('{}')",
        "SELECT pg_sluice.lock_all_rows('pg_class'::regclass, '')",
        "SELECT pg_sluice.lock_rows('pg_class'::regclass, '{1}', '{1}', 'SHARE', '')",
        "SELECT pg_sluice.move_row_locks('{1}', '{1}', '{2}', '{2}')",
        "SELECT pg_sluice.moved_rows('{1}', '{1}')",
        "SELECT pg_sluice.note_updates('pg_class'::regclass)",
        "SELECT * FROM pg_sluice.noted_updates()",
        "SELECT pg_sluice.put_row_locks('{1}', '{1}', 0, '{}')",
        "SELECT pg_sluice.prepare_commit('{}')",
        "SELECT pg_sluice.uncommitted('{}', '{}')",
        "SELECT pg_sluice.claim_keys(0, '{}')",
        "SELECT pg_sluice.lock_checked('{}')",
        "SELECT pg_sluice.version_since('pg_class'::regclass, 0, 0)",
        "SELECT pg_sluice.adopt_constraints('pg_class'::regclass)",
        "SELECT pg_sluice.as_owner('pg_authid'::regclass, 'TABLE pg_authid')",
        "SELECT pg_sluice.guard('pg_class'::regclass)",
        "SELECT pg_sluice.set_populated('pg_class'::regclass, true)",
        "SELECT pg_sluice.lock_relation('pg_class'::regclass, 'ACCESS EXCLUSIVE', false)",
        "SELECT pg_sluice.enter(pg_backend_pid(), 1)",
        "INSERT INTO pg_sluice.dirty VALUES (0, NULL)",
        "DELETE FROM pg_ducklake.ducklake_data_file",
        "SELECT nextval('pg_sluice.snapshot_id')",
        "ALTER EVENT TRIGGER pg_sluice_ddl DISABLE",
        "SET event_triggers = off",
        "SET session_replication_role = replica",
        "DROP SCHEMA pg_sluice CASCADE",
        "CREATE FUNCTION pg_sluice.mine() RETURNS int LANGUAGE sql AS 'select 1'",
    ],
)
async def test_is_closed_to_clients(lake: CatalogUnderTest, sql: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await lake.client.execute(sql)


async def test_a_table_is_described_by_its_own_indexes_alone(lake: CatalogUnderTest) -> None:
    """PostgreSQL's own indexes are hundreds, and a table is described by each statement."""
    await lake.client.execute("CREATE TABLE numbered (a integer PRIMARY KEY, b integer UNIQUE)")
    table = await lake.client.fetchval("SELECT 'numbered'::regclass::oid")
    async with lake.superuser.transaction():
        await lake.superuser.execute("SET LOCAL track_functions = 'all'")
        described = await lake.superuser.fetchval("SELECT description FROM pg_sluice.describe(ARRAY[$1::oid])", table)
        calls = await lake.superuser.fetchval("SELECT pg_stat_get_xact_function_calls('pg_sluice.index_form'::regproc)")
    assert described.count('"index_id"') == calls == 2
