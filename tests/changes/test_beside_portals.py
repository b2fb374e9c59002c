"""Cursors, portals and EXPLAIN of a block beside its deferred schema changes."""

from __future__ import annotations

import asyncpg
import psycopg
import pytest

from tests.changes.locks import locks, locks_of
from tests.servers import GatewayProcess


async def test_portals_with_names(gateway_process: GatewayProcess, schema: str, other: psycopg.Connection) -> None:
    """What asyncpg's cursors are, whose statements have names too."""
    other.execute("CREATE TABLE t (id integer PRIMARY KEY, n integer)")
    other.execute("INSERT INTO t SELECT i, 10 * i FROM generate_series(1, 5) i")
    connection = await asyncpg.connect(gateway_process.server.url, server_settings={"search_path": schema})
    try:
        async with connection.transaction():
            await connection.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 7")
            cursor = await connection.cursor("SELECT id, m FROM t WHERE id > $1 ORDER BY id", 1)
            found = await cursor.fetch(2)
            assert not locks_of(gateway_process, connection.get_server_pid(), f"{schema}.t")
            other.execute("UPDATE t SET n = n + 1 WHERE id = 4")
            await connection.execute("UPDATE t SET m = 8 WHERE id = 5")
            found += await cursor.fetch(9)
            changing = await connection.cursor("UPDATE t SET m = m + $1 WHERE id < 3 RETURNING id, m", 1)
            changed = await changing.fetch(9)
            assert not locks_of(gateway_process, connection.get_server_pid(), f"{schema}.t")
            other.execute("INSERT INTO t VALUES (6, 60)")
    finally:
        await connection.close()
    assert [tuple(row) for row in found] == [(2, 7), (3, 7), (4, 7), (5, 7)]
    assert sorted(tuple(row) for row in changed) == [(1, 8), (2, 8)]
    assert other.execute("SELECT sum(n), sum(m) FROM t").fetchone() == (211, 45)


def test_what_was_prepared_before(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    """PostgreSQL's own statements, which a driver has prepared outside of such a block."""
    statements = {
        "SELECT 1": (1,),
        "SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'm'": (1,),
        "SELECT coalesce(to_regclass('t')::text, 'none')": ("t",),
    }
    for statement in statements:
        block.execute(statement.encode(), prepare=True)
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 5")
    for statement, row in statements.items():
        assert block.execute(statement.encode(), prepare=True).fetchone() == row
        assert not locks(gateway_process, block, f"{schema}.t")
    for statement in ("CHECKPOINT", "LOAD 'plpgsql'", "SECURITY LABEL ON TABLE t IS 'x'"):
        with pytest.raises(psycopg.Error), block.transaction():
            block.execute(statement.encode())
        assert not locks(gateway_process, block, f"{schema}.t")
    other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
    block.commit()
    assert other.execute("SELECT n, m FROM t WHERE id = 1").fetchone() == (11, 5)


def test_cursors_that_lock_rows(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    table = f"{schema}.t"
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 5")
    block.execute("DECLARE c CURSOR FOR SELECT id, m FROM t WHERE id < 3 ORDER BY id FOR UPDATE")
    assert not locks(gateway_process, block, table)
    other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
    assert block.execute("FETCH c").fetchall() == [(1, 5)]
    assert not locks(gateway_process, block, table)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        other.execute("SELECT FROM t WHERE id = 1 FOR UPDATE NOWAIT")
    block.execute("UPDATE t SET m = 6 WHERE CURRENT OF c")
    assert not locks(gateway_process, block, table)
    other.execute("UPDATE t SET n = n + 1 WHERE id = 3")
    assert block.execute("FETCH c").fetchall() == [(2, 5)]
    block.execute("DELETE FROM t WHERE CURRENT OF c")
    with pytest.raises(psycopg.errors.ObjectInUse), block.transaction():
        block.execute("ALTER TABLE t DROP COLUMN m")
    block.execute("CLOSE c")
    block.execute("ALTER TABLE t ADD COLUMN o integer DEFAULT 1")
    assert not locks(gateway_process, block, table)
    block.commit()
    assert other.execute("SELECT id, n, m, o FROM t ORDER BY id").fetchall() == [(1, 11, 6, 1), (3, 31, 5, 1)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("EXPLAIN ANALYZE SELECT m FROM t", 3),
        ("EXPLAIN ANALYZE INSERT INTO t (id) VALUES (4)", 4),
        ("EXPLAIN (ANALYZE, FORMAT JSON) DELETE FROM t WHERE m = 5 AND id = 1", 2),
        ("EXPLAIN ANALYZE EXECUTE those (2)", 3),
        ("EXPLAIN EXECUTE those (2)", 3),
        ("EXPLAIN ALTER TABLE t ADD COLUMN o serial, ADD CHECK (m > 0)", 3),
        ("EXPLAIN DROP TABLE t", 3),
        ("EXPLAIN CREATE INDEX ON t (m)", 3),
        ("CREATE SEQUENCE s", 3),
    ],
)
def test_explain(  # noqa: PLR0917
    gateway_process: GatewayProcess,
    schema: str,
    block: psycopg.Connection,
    other: psycopg.Connection,
    statement: str,
    expected: int,
) -> None:
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 5")
    block.execute("PREPARE those AS SELECT m FROM t WHERE id < $1")
    block.execute(statement.encode())
    assert not locks(gateway_process, block, f"{schema}.t")
    other.execute("UPDATE t SET n = n + 1 WHERE id = 2")
    block.execute("ALTER TABLE t ADD COLUMN o integer")
    block.commit()
    assert other.execute("SELECT count(m), count(o) FROM t").fetchone() == (expected, 0)


@pytest.mark.parametrize("statement", ["SET CONSTRAINTS self IMMEDIATE", "SET CONSTRAINTS ALL IMMEDIATE"])
def test_modes_of_constraints_by_the_extended_protocol(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection, statement: str
) -> None:
    other.execute("ALTER TABLE t ADD CONSTRAINT self FOREIGN KEY (n) REFERENCES t DEFERRABLE NOT VALID")
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 5")
    for _ in range(2):  # what was prepared is met again
        block.execute("SET CONSTRAINTS self DEFERRED", prepare=True)
        block.execute("SAVEPOINT here")
        block.execute("INSERT INTO t VALUES (7, 99)")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            block.execute(statement.encode(), prepare=True)
        block.execute("ROLLBACK TO here")
        assert not locks(gateway_process, block, f"{schema}.t")
        block.execute(statement.encode(), prepare=True)
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            block.execute("INSERT INTO t VALUES (7, 99)")
        block.execute("ROLLBACK TO here")
        other.execute("UPDATE t SET name = 'other' WHERE id = 1")
        assert not locks(gateway_process, block, f"{schema}.t")
    block.commit()
    assert other.execute("SELECT count(m) FROM t WHERE name = 'other'").fetchone() == (1,)
