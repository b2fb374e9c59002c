"""The schema log: the steps of each statement, and the answers to a transaction."""

from __future__ import annotations

import json

import asyncpg
import pytest

from catalog.store import Store, steps_from_json
from gateway.backend.own_message import own
from tests.catalog.conftest import CatalogUnderTest

_TABLE = (
    "CREATE TABLE t (id integer, v integer DEFAULT 1, n integer NOT NULL DEFAULT 0, g integer GENERATED ALWAYS AS"
    " (v + 1) STORED, CONSTRAINT positive CHECK (id > 0))"
)


async def _log(lake: CatalogUnderTest) -> list[tuple[str, str]]:
    rows = await lake.superuser.fetch("SELECT kind, subject FROM pg_sluice.schema_step ORDER BY step_id")
    return [(row["kind"], row["subject"]) for row in rows]


@pytest.mark.turns
@pytest.mark.parametrize(
    ("statement", "steps"),
    [
        ("DROP TABLE t", [("drop table", "t")]),
        ("ALTER TABLE t RENAME TO t2", [("rename table", "t")]),
        ("CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s", [("move table", "t")]),
        ("ALTER TABLE t ADD COLUMN w integer", [("add column", "w")]),
        ("ALTER TABLE t ADD COLUMN w integer DEFAULT 3, DROP COLUMN n", [("drop column", "n"), ("add column", "w")]),
        ("ALTER TABLE t DROP COLUMN n; ALTER TABLE t ADD COLUMN n text", [("drop column", "n"), ("add column", "n")]),
        ("ALTER TABLE t RENAME COLUMN v TO w", [("rename column", "v")]),
        ("ALTER TABLE t ALTER COLUMN n DROP NOT NULL", [("drop not null", "n")]),
        ("ALTER TABLE t ALTER COLUMN id SET DEFAULT 1", [("set default", "id")]),
        ("ALTER TABLE t ALTER COLUMN v SET DEFAULT 2", [("change default", "v")]),
        ("ALTER TABLE t ALTER COLUMN v DROP DEFAULT", [("drop default", "v")]),
        ("ALTER TABLE t ALTER COLUMN g DROP EXPRESSION", [("drop default", "g")]),
        ("ALTER TABLE t RENAME CONSTRAINT positive TO p", [("rename constraint", "positive")]),
        ("ALTER TABLE t DROP CONSTRAINT positive", [("drop constraint", "positive")]),
        ("CREATE POLICY p ON t USING (id > 0)", [("change policies", "t")]),
        ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", [("change policies", "t")]),
        ("CREATE POLICY p ON t; ALTER POLICY p ON t USING (id > 0); DROP POLICY p ON t", []),
        (
            "CREATE POLICY p ON t; ALTER POLICY p ON t RENAME TO q; COMMENT ON POLICY q ON t IS 'a policy'",
            [("change policies", "t")],
        ),
        ("ALTER TABLE t ADD COLUMN w integer; ALTER TABLE t DROP COLUMN w", []),
        ("COMMENT ON TABLE t IS 'a table'; GRANT SELECT ON t TO PUBLIC", []),
    ],
)
async def test_what_a_change_leaves_in_the_log(
    lake: CatalogUnderTest, statement: str, steps: list[tuple[str, str]]
) -> None:
    await lake.client.execute(_TABLE)
    await lake.client.execute(statement)
    assert await _log(lake) == [("create table", "t"), *steps]


async def test_rollback_leaves_nothing(lake: CatalogUnderTest) -> None:
    await lake.client.execute(_TABLE)
    await lake.client.execute("BEGIN; ALTER TABLE t DROP COLUMN n; CREATE TABLE u (); ROLLBACK")
    await lake.client.execute("BEGIN; CREATE TABLE u (n integer); DROP TABLE u; COMMIT")
    assert await _log(lake) == [("create table", "t")]


async def test_an_unknown_kind_cannot_be_recorded(lake: CatalogUnderTest) -> None:
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await lake.superuser.execute(
            "INSERT INTO pg_sluice.schema_step (table_id, snapshot_id, kind, subject) VALUES (1, 1, 'x', 't')"
        )


async def test_what_happened_since(lake: CatalogUnderTest) -> None:
    store = Store(lake.url)
    await store.open()
    try:
        await lake.client.execute(_TABLE)
        oid = await lake.client.fetchval("SELECT 't'::pg_catalog.regclass::pg_catalog.oid::bigint")
        table = (await store.versions([oid]))[oid].table
        await lake.client.execute("ALTER TABLE t RENAME COLUMN v TO w")
        await lake.client.execute("ALTER TABLE t ALTER COLUMN w SET DEFAULT 9")
        steps = await store.steps_since({table.table_id: table.schema_version})
        assert [step.kind for step in steps[table.table_id]] == ["rename column", "change default"]
        newer = (await store.versions([oid]))[oid].table
        assert newer.schema_version == steps[table.table_id][-1].step_id
        assert await store.steps_since({newer.table_id: newer.schema_version}) == {}
    finally:
        await store.close()


async def test_who_commits_holds_off_who_changes_a_schema(lake: CatalogUnderTest) -> None:
    """What is said before COMMIT stays true: a table that was only read is held too."""
    await lake.client.execute(_TABLE)
    row = await lake.superuser.fetchrow("SELECT table_id, schema_version FROM pg_sluice.relation")
    assert row is not None
    table_id, version = row
    other = await lake.entered()
    try:
        async with lake.client.transaction():
            asked = json.dumps({str(table_id): version})
            text = await lake.client.fetchval(
                own("SELECT pg_sluice.hold_steps_since($1::pg_catalog.text::pg_catalog.jsonb, '{}')"), asked
            )
            assert steps_from_json(text) == {}
            await other.execute("SET lock_timeout = '300ms'")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await other.execute("ALTER TABLE t DROP COLUMN n")
        await other.execute("ALTER TABLE t DROP COLUMN n")
    finally:
        await other.close()


async def test_clients_cannot_hold_anything_themselves(lake: CatalogUnderTest) -> None:
    for call in (
        "hold_steps_since('{}', '{}')",
        "hold_schema('{}')",
        "steps_since('{}')",
        "shape(0)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await lake.client.execute(f"SELECT pg_sluice.{call}")
