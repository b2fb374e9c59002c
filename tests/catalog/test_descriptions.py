"""A table's description is read again exactly when it may have changed."""

from __future__ import annotations

import pytest

from tests.catalog.conftest import CatalogUnderTest

_MADE = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN short AS text CHECK (length(VALUE) < 10);
CREATE SCHEMA other;
CREATE TABLE parent (id integer PRIMARY KEY);
CREATE TABLE t (id integer PRIMARY KEY, n integer, m mood, s short, several mood[], parent integer REFERENCES parent);
CREATE INDEX by_n ON t (n);
CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
"""
_CHANGES = (
    "ALTER TABLE t RENAME TO u",
    "ALTER TABLE t SET SCHEMA other",
    "ALTER TABLE t ADD COLUMN more text DEFAULT 'x'",
    "ALTER TABLE t RENAME COLUMN n TO number",
    "ALTER TABLE t ALTER n SET DEFAULT 4",
    "ALTER TABLE t ALTER n SET NOT NULL",
    "ALTER TABLE t ALTER id ADD GENERATED ALWAYS AS IDENTITY",
    "ALTER TABLE t ALTER s TYPE varchar(20)",
    "ALTER TABLE t ADD CHECK (n > 0)",
    "ALTER TABLE t ADD CONSTRAINT one UNIQUE (n)",
    "ALTER TABLE t RENAME CONSTRAINT t_pkey TO key",
    "ALTER TABLE t DROP CONSTRAINT t_parent_fkey",
    "ALTER TABLE t DROP COLUMN n",
    "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
    "ALTER TYPE mood ADD VALUE 'glad' BEFORE 'ok'",
    "ALTER DOMAIN short ADD CHECK (VALUE <> 'a')",
    "ALTER DOMAIN short SET DEFAULT 'b'",
    "ALTER DOMAIN short SET NOT NULL",
    "ALTER DOMAIN short RENAME CONSTRAINT short_check TO length",
    "ALTER DOMAIN short DROP CONSTRAINT short_check",
    "ALTER DOMAIN short RENAME TO brief",
    "ALTER DOMAIN short SET SCHEMA other",
    "ALTER TYPE mood RENAME TO temper",
    "ALTER SCHEMA public RENAME TO elsewhere",
    "CREATE UNIQUE INDEX one ON t (lower(s))",
    "CREATE INDEX partial ON t (n) WHERE n > 4",
    "ALTER INDEX by_n RENAME TO by_number",
    "DROP INDEX by_n",
    "CREATE TRIGGER acts BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION act()",
    "DROP TYPE mood CASCADE",
    "DROP DOMAIN short CASCADE",
    "DROP TABLE parent CASCADE",
)
_DESCRIBED = """
SELECT d.description - 'changed' - 'schema_version' AS description, r.described_snapshot
FROM pg_sluice.relation r CROSS JOIN LATERAL pg_sluice.describe(ARRAY[r.relid]) d WHERE r.relid = $1
"""


@pytest.mark.turns
@pytest.mark.parametrize("change", _CHANGES)
async def test_a_change_of_a_description_is_noted(lake: CatalogUnderTest, change: str) -> None:
    await lake.client.execute(_MADE)
    oid = await lake.client.fetchval("SELECT 't'::regclass::oid")
    before = await lake.superuser.fetchrow(_DESCRIBED, oid)
    await lake.client.execute(change)
    after = await lake.superuser.fetchrow(_DESCRIBED, oid)
    assert before is not None
    assert after is not None
    if after["description"] != before["description"]:
        assert after["described_snapshot"] > before["described_snapshot"]


async def test_a_change_of_rows_leaves_the_description_alone(lake: CatalogUnderTest) -> None:
    await lake.client.execute(_MADE)
    oid = await lake.client.fetchval("SELECT 't'::regclass::oid")
    snapshot = await lake.superuser.fetchval("SELECT changed_snapshot FROM pg_sluice.relation WHERE relid = $1", oid)
    since = "SELECT pg_sluice.version_since($1, $2, (SELECT schema_version FROM pg_sluice.relation WHERE relid = $1))"
    assert '"description": null' in await lake.superuser.fetchval(since, oid, snapshot)
    assert '"description": {' in await lake.superuser.fetchval(since, oid, snapshot - 1)
