"""Statements of a block beside its deferred schema changes: no session waits for the block."""

from __future__ import annotations

import time

import psycopg
import pytest

from tests.changes.locks import locks
from tests.servers import GatewayProcess


@pytest.mark.turns
@pytest.mark.parametrize(
    "statement",
    [
        "SET LOCAL lock_timeout = '3s'",
        "SET statement_timeout = '1min'",
        "SET search_path = pg_catalog",
        "RESET datestyle",
        "SET SEED TO 0.5",
        "SELECT setseed(0.5)",
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


def test_copy(block: psycopg.Connection, other: psycopg.Connection) -> None:
    """Others read and write while the block's client is slow, and its idleness is no reason to end it."""
    other.execute("SET statement_timeout = '10s'")
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 5")
    for copy, row in (("COPY t FROM STDIN", (100, 7, "x", 8)), ("COPY t (id, n) FROM STDIN", (200, 7))):
        block.execute("SET LOCAL idle_in_transaction_session_timeout = '2s'")
        with block.cursor().copy(copy.encode()) as data:
            data.write_row(row)
            other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
            time.sleep(2.5)
            data.write_row((row[0] + 1, *row[1:]))
            other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
        block.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    with block.cursor().copy("COPY (SELECT id, m FROM t ORDER BY id) TO STDOUT") as data:
        data.set_types(["int4", "int4"])
        rows = iter(data.rows())
        found = [next(rows)]
        other.execute("DELETE FROM t WHERE id = 3")
        found += rows
    assert found == [(1, 5), (2, 5), (3, 5), (100, 8), (101, 8), (200, 5), (201, 5)]
    block.execute("ALTER TABLE t ADD CHECK (n < 1000)")
    with pytest.raises(psycopg.errors.CheckViolation), block.transaction():  # noqa: SIM117
        with block.cursor().copy("COPY t (id, n) FROM STDIN") as data:
            data.write_row((301, 1000))
    with block.transaction(), block.cursor().copy("COPY t FROM STDIN") as data:
        data.write_row((300, 1, "y", 1))
        other.execute("SELECT FROM t")
    other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
    block.commit()
    assert other.execute("SELECT count(*), sum(m), min(n) FILTER (WHERE id = 1) FROM t").fetchone() == (7, 37, 15)


def test_cursors(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    """A cursor keeps the rows of its time; nobody waits for it."""
    table = f"{schema}.t"
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 5")
    with block.cursor("server_side") as cursor, block.cursor("other", scrollable=True) as scrolling:
        cursor.itersize = 2
        cursor.execute("SELECT id, m FROM t WHERE id < %s ORDER BY id", [9])
        assert [column.name for column in cursor.description or ()] == ["id", "m"]
        scrolling.execute("SELECT name FROM t ORDER BY id")
        rows = iter(cursor)
        found = [next(rows)]
        assert not locks(gateway_process, block, table)
        other.execute("INSERT INTO t VALUES (4, 40, 'd')")
        other.execute("DELETE FROM t WHERE id = 3")
        block.execute("UPDATE t SET m = 6 WHERE id = 2")
        found += rows
        assert scrolling.fetchall() == [("a",), ("b",), ("c",)]
        scrolling.scroll(0, mode="absolute")
        assert scrolling.fetchone() == ("a",)
        assert not locks(gateway_process, block, table)
        with pytest.raises(psycopg.errors.ObjectInUse), block.transaction():
            block.execute("ALTER TABLE t DROP COLUMN m")
    assert found == [(1, 5), (2, 5), (3, 5)]
    block.execute("ALTER TABLE t RENAME COLUMN m TO o")
    assert not locks(gateway_process, block, table)
    block.commit()
    assert other.execute("SELECT id, o FROM t ORDER BY id").fetchall() == [(1, 5), (2, 6), (4, 5)]


def test_a_function_is_kept_from_a_cursor_that_it_would_read_emptily(
    block: psycopg.Connection, other: psycopg.Connection
) -> None:
    other.execute(
        "CREATE FUNCTION first_of(c refcursor) RETURNS integer LANGUAGE plpgsql AS"
        " $$ DECLARE found integer; BEGIN FETCH c INTO found; RETURN found; END $$"
    )
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 5")
    block.execute("DECLARE c CURSOR FOR SELECT id FROM t")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        block.execute("SELECT first_of('c')")


@pytest.mark.parametrize(
    "statement",
    [
        "WITH x AS (UPDATE t SET m = 6 WHERE id = 1 RETURNING m) INSERT INTO u SELECT m, 1 FROM x",
        "WITH v (id) AS (VALUES (1)), x AS (INSERT INTO u VALUES (6, 1)) UPDATE t SET m = 6 FROM v WHERE t.id = v.id",
    ],
)
def test_changes_in_with(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection, statement: str
) -> None:
    other.execute("CREATE TABLE u (m integer)")
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 5")
    block.execute("ALTER TABLE u ADD COLUMN o integer")
    block.execute(statement.encode())
    assert not locks(gateway_process, block, f"{schema}.t")
    assert not locks(gateway_process, block, f"{schema}.u")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        other.execute("SELECT FROM t WHERE id = 1 FOR UPDATE NOWAIT")
    other.execute("UPDATE t SET n = n + 1 WHERE id = 2")
    block.execute("PREPARE those AS SELECT id FROM t WHERE m = $1")
    assert block.execute("EXECUTE those (6)").fetchall() == [(1,)]
    block.execute("EXPLAIN SELECT m FROM t")
    assert not locks(gateway_process, block, f"{schema}.t")
    block.commit()
    assert other.execute("SELECT id, n, m FROM t ORDER BY id").fetchall() == [(1, 10, 6), (2, 21, 5), (3, 30, 5)]
    assert other.execute("SELECT * FROM u").fetchall() == [(6, 1)]


def test_modes_of_constraints(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    other.execute("ALTER TABLE t ADD CONSTRAINT self FOREIGN KEY (id) REFERENCES t DEFERRABLE INITIALLY DEFERRED")
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 5")
    for statement in (
        "SET CONSTRAINTS self IMMEDIATE",
        "SET CONSTRAINTS ALL DEFERRED",
        "SET CONSTRAINTS ALL IMMEDIATE",
    ):
        block.execute(statement.encode())
        assert not locks(gateway_process, block, f"{schema}.t")
    block.execute("ALTER TABLE t DROP CONSTRAINT self")
    block.execute("ALTER TABLE t ADD CONSTRAINT own FOREIGN KEY (n) REFERENCES t DEFERRABLE NOT VALID")
    for prepare in (False, True):
        block.execute("SET CONSTRAINTS own DEFERRED", prepare=prepare)
        block.execute("UPDATE t SET n = 99 WHERE id = 2")
        assert not locks(gateway_process, block, f"{schema}.t")
        with pytest.raises(psycopg.errors.ForeignKeyViolation), block.transaction():
            block.execute("SET CONSTRAINTS own IMMEDIATE", prepare=prepare)
        assert not locks(gateway_process, block, f"{schema}.t")
        block.execute("UPDATE t SET n = 3 WHERE id = 2")
        block.execute("SET CONSTRAINTS own IMMEDIATE", prepare=prepare)
        with pytest.raises(psycopg.errors.ForeignKeyViolation), block.transaction():
            block.execute("UPDATE t SET n = 98 WHERE id = 2")
        assert not locks(gateway_process, block, f"{schema}.t")
    block.execute("ALTER TABLE t DROP CONSTRAINT own")
    other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
    block.commit()
    assert other.execute("SELECT n, m FROM t WHERE id = 1").fetchone() == (11, 5)
