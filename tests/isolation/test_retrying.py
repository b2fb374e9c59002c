"""A single statement never shows its client that a schema changed under it, in either protocol.

A prepared statement follows its tables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.servers import Server

_CHANGES = (
    "ALTER TABLE busy ADD COLUMN extra integer DEFAULT 3",
    "ALTER TABLE busy ALTER COLUMN extra SET DEFAULT 4",
    "ALTER TABLE busy RENAME COLUMN extra TO more",
    "ALTER TABLE busy DROP COLUMN more",
)
# Far above the numbers of rows that are inserted one by one.
_COPIED = 100_000


@contextmanager
def changing_schema(server: Server, schema: str) -> Iterator[Callable[[], int]]:
    """Somebody changes the table `busy` again and again; gives how often they did."""
    ended, count, failed = threading.Event(), 0, []

    def change() -> None:
        nonlocal count
        with psycopg.connect(server.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
            while not ended.is_set() or count % len(_CHANGES):
                try:
                    connection.execute(_CHANGES[count % len(_CHANGES)].encode())
                except psycopg.Error as error:
                    failed.append(error)
                    return
                count += 1
                ended.wait(0.15)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield lambda: count
    finally:
        ended.set()
        thread.join()
    assert not failed


@pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])
def test_single_statements_never_meet_a_change(gateway: Server, schema: str, *, extended: bool) -> None:
    cursor = psycopg.Cursor if extended else psycopg.ClientCursor
    with psycopg.connect(
        gateway.url, autocommit=True, options=f"-csearch_path={schema}", cursor_factory=cursor
    ) as connection:
        connection.execute("CREATE TABLE busy (n integer)")
        with changing_schema(gateway, schema) as changes:
            for n in range(1000):
                connection.execute("INSERT INTO busy (n) VALUES (%s)", [n])
                assert connection.execute("SELECT count(*) FROM busy WHERE n <= %s", [n]).fetchone() == (n + 1,)
                if n % 4 == 0:
                    connection.execute("UPDATE busy SET n = n WHERE n = %s", [n])
                    connection.execute("INSERT INTO busy (n) SELECT n + %s FROM busy WHERE n = %s", [_COPIED, n])
                    connection.execute("DELETE FROM busy WHERE n >= %s", [_COPIED])
                if n >= 11 and changes() > len(_CHANGES):
                    break
            assert changes() > len(_CHANGES)
        assert connection.execute("SELECT * FROM busy ORDER BY n").fetchall() == [(each,) for each in range(n + 1)]


def test_transactions_commit_as_a_whole_or_fail_with_40001(gateway: Server, schema: str) -> None:
    """Beside changes of every kind, nothing is lost and nothing is left of what failed."""
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute("CREATE TABLE busy (n integer)")
        connection.execute("CREATE TABLE calm (n integer)")
        committed = []
        with changing_schema(gateway, schema):
            for n in range(15):
                try:
                    with connection.transaction():
                        connection.execute("INSERT INTO busy (n) VALUES (%s)", [n])
                        connection.execute("INSERT INTO calm VALUES (%s)", [n])
                        if n % 5 == 0:
                            connection.execute("UPDATE busy SET n = n WHERE n = %s", [n])
                    committed.append((n,))
                except psycopg.errors.SerializationFailure:
                    continue
        assert committed
        for table in ("busy", "calm"):
            assert connection.execute(f"SELECT n FROM {table} ORDER BY n".encode()).fetchall() == committed


def test_a_prepared_statement_follows_its_table(target: Server, target_schema: str) -> None:
    with (
        psycopg.connect(target.url, autocommit=True, options=f"-csearch_path={target_schema}") as one,
        psycopg.connect(target.url, autocommit=True, options=f"-csearch_path={target_schema}") as other,
    ):
        one.execute("CREATE TABLE t (a integer, b integer)")
        one.execute("INSERT INTO t VALUES (1, 2)")

        def b() -> object:
            return one.execute("SELECT b FROM t WHERE a = %s", [1], prepare=True).fetchone()

        assert b() == (2,)
        other.execute("ALTER TABLE t DROP COLUMN a")
        other.execute("ALTER TABLE t ADD COLUMN a integer DEFAULT 1")
        assert b() == (2,)
        with one.transaction():
            other.execute("ALTER TABLE t RENAME COLUMN b TO c")
            other.execute("ALTER TABLE t ADD COLUMN b integer DEFAULT 7")
            assert b() == (7,)
        with one.transaction(force_rollback=True):
            one.execute("ALTER TABLE t DROP COLUMN b")
            one.execute("ALTER TABLE t ADD COLUMN b integer DEFAULT 8")
            assert b() == (8,)
        assert b() == (7,)


def test_a_prepared_statement_follows_its_view(target: Server, target_schema: str) -> None:
    with (
        psycopg.connect(target.url, autocommit=True, options=f"-csearch_path={target_schema}") as one,
        psycopg.connect(target.url, autocommit=True, options=f"-csearch_path={target_schema}") as other,
    ):
        one.execute("CREATE TABLE t (a integer, b integer)")
        one.execute("INSERT INTO t VALUES (1, 2)")
        one.execute("CREATE VIEW v AS SELECT a AS n FROM t")
        assert one.execute("SELECT n FROM v", prepare=True).fetchone() == (1,)
        other.execute("CREATE OR REPLACE VIEW v AS SELECT b AS n FROM t")
        assert one.execute("SELECT n FROM v", prepare=True).fetchone() == (2,)


def test_a_prepared_statement_keeps_its_result(target: Server, target_schema: str) -> None:
    # psycopg prepares anew after an ALTER of its own, so another session makes it.
    with (
        psycopg.connect(target.url, autocommit=True, options=f"-csearch_path={target_schema}") as one,
        psycopg.connect(target.url, autocommit=True, options=f"-csearch_path={target_schema}") as other,
    ):
        one.execute("CREATE TABLE t (a integer)")
        assert one.execute("SELECT * FROM t", prepare=True).fetchall() == []
        other.execute("ALTER TABLE t ADD COLUMN b integer")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="cached plan must not change result type"):
            one.execute("SELECT * FROM t", prepare=True)
        other.execute("DROP TABLE t")
        with pytest.raises(psycopg.errors.UndefinedTable):
            one.execute("SELECT * FROM t", prepare=True)


def test_upserts_and_cascades_beside_changes(gateway: Server, schema: str) -> None:
    """Statements that change rows which they do not name keep the values of columns that came meanwhile."""
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute("CREATE TABLE owner (id integer PRIMARY KEY)")
        connection.execute(
            "CREATE TABLE busy (n integer PRIMARY KEY, owner integer REFERENCES owner ON DELETE SET NULL,"
            " kept integer DEFAULT 9)"
        )
        connection.execute("INSERT INTO owner VALUES (1), (2)")
        connection.execute("INSERT INTO busy VALUES (1, 1, 1), (2, 2, 2)")
        with changing_schema(gateway, schema):
            for n in range(1, 6):
                connection.execute(
                    "INSERT INTO busy (n, owner) VALUES (%s, 2) ON CONFLICT (n) DO UPDATE SET kept = busy.kept + 10",
                    [n],
                )
            connection.execute("DELETE FROM owner WHERE id = 1")
        assert connection.execute("SELECT n, owner, kept FROM busy ORDER BY n").fetchall() == [
            (1, None, 11), (2, 2, 12), (3, 2, 9), (4, 2, 9), (5, 2, 9),
        ]  # fmt: skip
