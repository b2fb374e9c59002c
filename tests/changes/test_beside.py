"""Statements of a block beside its changes of schemas, which stay deferred: nobody waits for the block."""

from __future__ import annotations

import psycopg
import pytest

from tests.changes.locks import locks
from tests.servers import GatewayProcess


@pytest.mark.parametrize(
    "statement",
    [
        "SET LOCAL lock_timeout = '3s'",
        "SET statement_timeout = '1min'",
        "SET search_path = pg_catalog",
        "RESET datestyle",
        "SET TIME ZONE 'UTC'",
        "SET ROLE NONE",
        "SELECT set_config('search_path', '', false)",
    ],
)
@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_settings(  # noqa: PLR0917
    gateway_process: GatewayProcess,
    schema: str,
    block: psycopg.Connection,
    other: psycopg.Connection,
    statement: str,
    prepare: bool,
) -> None:
    table = f"{schema}.t"
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 1")
    for number in range(2):  # what was prepared is met again
        block.execute(statement.encode(), prepare=prepare)
        assert not locks(gateway_process, block, table)
        block.execute(f"ALTER TABLE {table} ADD COLUMN m{number} integer DEFAULT {number}".encode())
        other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
    assert block.execute(f"SELECT * FROM {table} WHERE id = 1".encode()).fetchall() == [(1, 12, "a", 1, 0, 1)]
    assert not locks(gateway_process, block, table)
    block.commit()
    assert other.execute("SELECT * FROM t WHERE id = 1").fetchall() == [(1, 12, "a", 1, 0, 1)]


def test_what_is_deferred_means_the_same_under_other_settings(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    """Carried out again, and at COMMIT for good: after a savepoint too, that the settings before it come back with."""
    other.execute("CREATE SCHEMA IF NOT EXISTS beside")
    other.execute("CREATE TABLE beside.t (id integer)")
    block.execute("ALTER TABLE t ADD COLUMN day date DEFAULT '01/02/2003'")
    block.execute("SAVEPOINT here")
    block.execute("SET datestyle = 'ISO, DMY'")
    block.execute("SET LOCAL search_path = beside")
    block.execute("ALTER TABLE t ADD COLUMN day date DEFAULT '01/02/2003'")
    assert block.execute("SHOW search_path").fetchone() == ("beside",)
    assert not locks(gateway_process, block, "beside.t")
    block.execute("ROLLBACK TO here")
    block.execute("SET LOCAL search_path = beside")
    block.execute("ALTER TABLE t ADD COLUMN late date DEFAULT '01/02/2003'")
    assert not locks(gateway_process, block, f"{schema}.t")
    block.commit()
    assert other.execute("SELECT DISTINCT day::text FROM t").fetchall() == [("2003-01-02",)]
    assert other.execute("SELECT count(late) FROM beside.t").fetchall() == [(0,)]
    assert block.execute("SHOW search_path").fetchone() == (schema,)
    block.rollback()
    other.execute("DROP SCHEMA beside CASCADE")
