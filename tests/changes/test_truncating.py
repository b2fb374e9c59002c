"""TRUNCATE in an open block: there the table is empty, and others keep their rows until COMMIT."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.changes.locks import locks
from tests.servers import GatewayProcess


@pytest.mark.parametrize("before", [None, "ALTER TABLE t ADD COLUMN m integer DEFAULT 7"], ids=["alone", "deferred"])
def test_nobody_waits_for_it(
    gateway_process: GatewayProcess,
    schema: str,
    block: psycopg.Connection,
    other: psycopg.Connection,
    before: str | None,
) -> None:
    table = f"{schema}.t"
    if before is not None:
        block.execute(before.encode())
    block.execute("TRUNCATE t")
    assert not locks(gateway_process, block, table)
    assert block.execute("SELECT count(*) FROM t").fetchone() == (0,)
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
    other.execute("DELETE FROM t WHERE id = 2")
    assert other.execute("SELECT id, n FROM t ORDER BY id").fetchall() == [(1, 11), (3, 30), (4, 40)]
    block.execute("INSERT INTO t VALUES (1, 1, 'one'), (4, 4, 'four')")
    block.execute("UPDATE t SET n = n * 10 WHERE id = 4")
    assert block.execute("SELECT id, n FROM t ORDER BY id").fetchall() == [(1, 1), (4, 40)]
    assert not locks(gateway_process, block, table)
    other.execute("INSERT INTO t VALUES (5, 50, 'e')")
    block.commit()
    assert other.execute("SELECT id, name FROM t ORDER BY id").fetchall() == [(1, "one"), (4, "four")]


def test_savepoints_take_it_back(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.execute("SAVEPOINT here")
    block.execute("TRUNCATE t")
    block.execute("INSERT INTO t VALUES (9, 90, 'i')")
    block.execute("ROLLBACK TO here")
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    assert block.execute("SELECT count(*) FROM t").fetchone() == (4,)
    block.commit()
    block.execute("TRUNCATE t")
    other.execute("INSERT INTO t VALUES (5, 50, 'e')")
    block.rollback()
    assert other.execute("SELECT count(*) FROM t").fetchone() == (5,)


def test_numbers_begin_anew_in_the_block_alone(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    other.execute("CREATE TABLE u (id serial PRIMARY KEY, k int GENERATED ALWAYS AS IDENTITY (START 10), n integer)")
    other.execute("INSERT INTO u (n) VALUES (1), (2)")
    block.execute("TRUNCATE u RESTART IDENTITY")
    assert block.execute("INSERT INTO u (n) VALUES (5) RETURNING id, k").fetchall() == [(1, 10)]
    assert other.execute("INSERT INTO u (n) VALUES (3) RETURNING id, k").fetchall() == [(3, 12)]
    block.execute("INSERT INTO u (n) SELECT n + i FROM u, generate_series(1, 2) i")
    block.execute("SAVEPOINT here")
    block.execute("INSERT INTO u (n) VALUES (8)")
    block.execute("ROLLBACK TO here")
    assert block.execute("INSERT INTO u (n) VALUES (9) RETURNING id, k").fetchall() == [(5, 14)]
    assert not locks(gateway_process, block, f"{schema}.u")
    assert other.execute("SELECT id FROM u ORDER BY id").fetchall() == [(1,), (2,), (3,)]
    block.commit()
    assert other.execute("SELECT id FROM u ORDER BY id").fetchall() == [(1,), (2,), (3,), (5,)]
    assert other.execute("INSERT INTO u (n) VALUES (10) RETURNING id, k").fetchall() == [(6, 15)]


def test_tables_that_refer_to_it_go_along(block: psycopg.Connection, other: psycopg.Connection) -> None:
    other.execute("CREATE TABLE child (of_t integer REFERENCES t)")
    other.execute("INSERT INTO child VALUES (1)")
    with pytest.raises(psycopg.errors.FeatureNotSupported), block.transaction():
        block.execute("TRUNCATE t")
    block.execute("TRUNCATE t CASCADE")
    other.execute("INSERT INTO child VALUES (2)")
    assert block.execute("SELECT count(*) FROM child").fetchone() == (0,)
    block.execute("INSERT INTO t VALUES (7, 70, 'g')")
    with pytest.raises(psycopg.errors.ForeignKeyViolation), block.transaction():
        block.execute("INSERT INTO child VALUES (2)")
    block.execute("INSERT INTO child VALUES (7)")
    block.commit()
    assert other.execute("SELECT of_t, n FROM child JOIN t ON id = of_t").fetchall() == [(7, 70)]
    assert other.execute("SELECT count(*) FROM t").fetchone() == (1,)


@pytest.mark.parametrize("cascade", ["", " CASCADE"])
def test_who_refers_to_it_meanwhile_comes_first(
    block: psycopg.Connection, other: psycopg.Connection, cascade: str
) -> None:
    block.execute(f"TRUNCATE t{cascade}".encode())
    other.execute("CREATE TABLE child (of_t integer REFERENCES t)")
    other.execute("INSERT INTO child VALUES (1)")
    with pytest.raises(psycopg.errors.SerializationFailure):
        block.commit()
    assert other.execute("SELECT n FROM child JOIN t ON id = of_t").fetchall() == [(10,)]


@pytest.mark.parametrize("statements", [(0, 1), (1, 0), (1, 0, 1)], ids=["before", "after", "between"])
def test_beside_files_that_are_written_anew(
    block: psycopg.Connection, other: psycopg.Connection, statements: tuple[int, ...]
) -> None:
    kinds = ("TRUNCATE t", "ALTER TABLE t ALTER n TYPE text USING 'was ' || n")
    for number, kind in enumerate(statements, 10):
        block.execute(kinds[kind].encode())
        block.execute(f"INSERT INTO t (id) VALUES ({number})".encode())
        other.execute("INSERT INTO t SELECT max(id) + 1, 40, 'd' FROM t")
        other.execute("DELETE FROM t WHERE id = (SELECT min(id) FROM t)")
    other.execute("DELETE FROM t WHERE id = (SELECT min(id) FROM t)")
    block.commit()
    kept = [10 + number for number in range(statements.index(0), len(statements))]
    assert other.execute("SELECT id, n FROM t ORDER BY id").fetchall() == [(number, None) for number in kept]


def test_a_constraint_of_rows_that_go(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.execute("TRUNCATE t")
    block.execute("ALTER TABLE t ADD CHECK (n > 100)")
    block.execute("INSERT INTO t VALUES (1, 101, 'a')")
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    block.commit()
    assert other.execute("SELECT id, n FROM t").fetchall() == [(1, 101)]


def test_commit_waits_for_who_uses_the_table(
    block: psycopg.Connection, other: psycopg.Connection, gateway_process: GatewayProcess
) -> None:
    url, options = gateway_process.server.url, block.info.options
    with psycopg.connect(url, options=options) as holder:
        holder.execute("INSERT INTO t VALUES (100, 1, 'x')")
        block.execute("TRUNCATE t")
        block.execute("INSERT INTO t VALUES (4, 4, 'd')")
        waiting = threading.Thread(target=block.commit)
        waiting.start()
        for number in range(5, 8):
            other.execute("INSERT INTO t VALUES (%s, 1, 'x')", [number])
            assert waiting.is_alive()
        holder.commit()
        waiting.join(60)
    assert not waiting.is_alive()
    assert other.execute("SELECT id FROM t").fetchall() == [(4,)]


def test_serializable_asks_what_was_read(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    block.execute("TRUNCATE t")
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    block.commit()
    other.execute("INSERT INTO t VALUES (5, 50, 'e')")
    block.execute("SELECT count(*) FROM t")
    block.execute("TRUNCATE t")
    other.execute("INSERT INTO t VALUES (6, 60, 'f')")
    with pytest.raises(psycopg.errors.SerializationFailure):
        block.commit()
    assert other.execute("SELECT id FROM t ORDER BY id").fetchall() == [(5,), (6,)]


def test_of_two_one_is_told(block: psycopg.Connection, other: psycopg.Connection) -> None:
    """Each waits for the other at COMMIT: rows that were acknowledged are the one's or the other's."""
    other.autocommit = False
    for number, connection in enumerate((block, other), 7):
        connection.execute("TRUNCATE t")
        connection.execute("INSERT INTO t VALUES (%s, 1, 'x')", [number])
    errors: list[str | None] = []

    def commit(connection: psycopg.Connection) -> None:
        try:
            connection.commit()
        except psycopg.Error as error:
            errors.append(error.sqlstate)

    waiting = threading.Thread(target=commit, args=(other,))
    waiting.start()
    commit(block)
    waiting.join(60)
    assert errors == ["40P01"]
    assert other.execute("SELECT count(*) FROM t").fetchone() == (1,)
