"""A change that stands alone is one message to PostgreSQL (gateway/execution/schema/change_at_once.py)."""

from __future__ import annotations

import time

import psycopg
import pytest

from tests.changes.stages import Held, stopping, trigger
from tests.isolation.schedule import Session
from tests.servers import GatewayProcess

pytestmark = pytest.mark.usefixtures("block")

_COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum"
# The careful way is seen by its question for the table's turn.
_NEVER_CAREFULLY = """
ALTER FUNCTION pg_sluice.order_changes(oid) RENAME TO ordered_changes;
CREATE FUNCTION pg_sluice.order_changes(oid) RETURNS boolean LANGUAGE plpgsql AS
    'BEGIN RAISE ''carefully''; END';
GRANT EXECUTE ON FUNCTION pg_sluice.order_changes(oid) TO PUBLIC;
"""
_AS_EVER = """
DROP FUNCTION pg_sluice.order_changes(oid);
ALTER FUNCTION pg_sluice.ordered_changes(oid) RENAME TO order_changes;
"""
# What is left when a gateway dies between two steps: a row that no backend works on.
_LEFT = """
INSERT INTO pg_sluice.schema_change (relid, relation, statement, started_by, process_id, worker_id, worker_started)
VALUES ('{schema}.t'::regclass, 't', 'ALTER TABLE t', 'sluice', 1, 1, 1)
"""
_IS_LEFT = "SELECT count(*) FROM pg_sluice.schema_change WHERE finished IS NULL AND relation = 't'"


@pytest.mark.parametrize(
    ("change", "carefully"),
    [
        ("ADD COLUMN m integer", False),
        ("ADD COLUMN m integer DEFAULT 7 NOT NULL", False),
        ("ADD COLUMN IF NOT EXISTS n integer", False),
        ("ALTER COLUMN n TYPE bigint", False),
        ("ALTER COLUMN n SET DEFAULT 1, DROP COLUMN name", False),
        ("ADD CHECK (n > 0)", True),
        ("ADD COLUMN m integer DEFAULT random() * 9", True),
        ("ADD COLUMN m serial", True),
        ("ALTER COLUMN n TYPE text", True),
        ("ALTER COLUMN n SET NOT NULL", True),
    ],
)
def test_only_what_looks_at_no_row(
    gateway_process: GatewayProcess, other: psycopg.Connection, change: str, carefully: bool
) -> None:
    with trigger(gateway_process, _NEVER_CAREFULLY, _AS_EVER):
        if not carefully:
            other.execute(f"ALTER TABLE t {change}".encode())
            return
        with pytest.raises(psycopg.errors.RaiseException, match="carefully"):
            other.execute(f"ALTER TABLE t {change}".encode())
    other.execute(f"ALTER TABLE t {change}".encode())


def test_it_waits_for_a_change_at_work(gateway_process: GatewayProcess, schema: str, other: psycopg.Connection) -> None:
    first, second = (Session(gateway_process.server, schema, messages=True) for _ in range(2))
    try:
        with stopping(gateway_process):
            held = Held(gateway_process, first, "ALTER TABLE t ADD CONSTRAINT positive CHECK (n > 0)")
            held.get_to("check")
            added = second.begin("ALTER TABLE t ADD COLUMN more text")
            time.sleep(0.5)
            assert not added.done()
            assert held.finish() == "ALTER TABLE"
            assert added.result(60) == "ALTER TABLE"
    finally:
        first.connection.close()
        second.connection.close()
    assert [name for [name] in other.execute(_COLUMNS)] == ["id", "n", "name", "more"]


def test_what_a_dead_gateway_left_is_undone_first(
    gateway_process: GatewayProcess, schema: str, other: psycopg.Connection
) -> None:
    with psycopg.connect(gateway_process.catalog_url, autocommit=True) as catalog:
        catalog.execute(_LEFT.replace("{schema}", schema).encode())
        assert catalog.execute(_IS_LEFT).fetchone() == (1,)
        other.execute("ALTER TABLE t ADD COLUMN m integer")
        assert catalog.execute(_IS_LEFT).fetchone() == (0,)


def test_an_error_leaves_nothing(other: psycopg.Connection) -> None:
    other.execute("SET lock_timeout = '4s'")
    for statement, error in [
        ("ALTER TABLE t ADD COLUMN id text", psycopg.errors.DuplicateColumn),
        ("ALTER TABLE t ALTER COLUMN gone SET DEFAULT 1", psycopg.errors.UndefinedColumn),
        ("ALTER TABLE t RENAME COLUMN gone TO here", psycopg.errors.UndefinedColumn),
        ("DROP INDEX t", psycopg.errors.WrongObjectType),
    ]:
        with pytest.raises(error):
            other.execute(statement.encode())
        assert other.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert other.execute("SHOW lock_timeout").fetchone() == ("4s",)
    other.execute("SET default_transaction_read_only = on")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        other.execute("ALTER TABLE t ADD COLUMN m integer")
    assert [name for [name] in other.execute(_COLUMNS)] == ["id", "n", "name"]


def test_notices_come_with_the_answer(other: psycopg.Connection) -> None:
    said: list[str | None] = []
    other.add_notice_handler(lambda diagnostic: said.append(diagnostic.message_primary))
    other.execute("ALTER TABLE t ADD COLUMN IF NOT EXISTS n integer")
    other.execute("DROP TABLE IF EXISTS nothing")
    other.execute("CREATE VIEW of_t AS SELECT n FROM t")
    other.execute("DROP TABLE t CASCADE")
    assert said == [
        'column "n" of relation "t" already exists, skipping',
        'table "nothing" does not exist, skipping',
        "drop cascades to view of_t",
    ]
