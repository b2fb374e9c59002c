"""Functions and triggers that change rows, beside statements that change the same rows: they wait for one row lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from tests.servers import Server

_MERGE = "MERGE INTO k USING (VALUES (1)) s (id) ON s.id = k.id WHEN MATCHED THEN UPDATE SET v = k.v + 1"
_UPDATE = "UPDATE k SET v = v + 1 WHERE id = 1"
# Whatever fires a trigger or calls a function works over copied rows; MERGE and ON CONFLICT copy rows as well.
_CHANGES = {
    "MERGE": _MERGE,
    "function": "SELECT adds(1)",
    "conflict": "INSERT INTO k VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET v = k.v + 1",
}
_WAITING = {
    "function": "SELECT adds(1)",
    "trigger": "UPDATE u SET v = v + 1 WHERE id = 1",
    "acting function": "SELECT acts(1)",
}
_TABLES = """
CREATE TABLE k (id int PRIMARY KEY, v int);
INSERT INTO k VALUES (1, 0), (2, 0);
CREATE TABLE u (id int PRIMARY KEY, v int);
INSERT INTO u VALUES (1, 0), (2, 0);
CREATE FUNCTION adds(integer) RETURNS integer LANGUAGE plpgsql AS
    $$ BEGIN UPDATE k SET v = v + 1 WHERE id = $1; RETURN $1; END $$;
CREATE FUNCTION acts(integer) RETURNS integer LANGUAGE plpgsql AS
    $$ BEGIN UPDATE k SET v = v + 1 WHERE id = $1; NOTIFY acts; RETURN $1; END $$;
CREATE FUNCTION follows() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN UPDATE k SET v = v + 1 WHERE id = NEW.id; RETURN NULL; END $$;
CREATE TRIGGER follows AFTER UPDATE ON u FOR EACH ROW EXECUTE FUNCTION follows();
CREATE TABLE c (id int PRIMARY KEY, k int REFERENCES k ON DELETE CASCADE);
INSERT INTO c VALUES (1, 1), (2, 1);
CREATE TABLE gone (id int);
CREATE FUNCTION keeps() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO gone VALUES (OLD.id); IF OLD.id % 2 = 0 THEN RETURN NULL; END IF; RETURN OLD; END $$;
CREATE TRIGGER keeps BEFORE DELETE ON c FOR EACH ROW EXECUTE FUNCTION keeps();
"""

_WAIT_SECONDS_MAX = 20.0
_TIMES = 3  # in a row that it is seen to wait
# The longest that sessions contend, and how often each is to get its turn before.
_CONTEND_SECONDS, _TURNS = 8.0, 5

Connect = Callable[[], psycopg.Connection]


@pytest.fixture
def connect(target: Server, target_schema: str) -> Connect:
    """Connects to a server where functions and a trigger change rows of a table. Each statement is prepared."""

    def connected() -> psycopg.Connection:
        options = f"-c search_path={target_schema}"
        return psycopg.connect(target.url, autocommit=True, options=options, prepare_threshold=0)

    target.psql("-q", sql=f"SET search_path = {target_schema};{_TABLES}")
    return connected


class _Waiting:
    """A statement that has to wait for the transaction of another session, in a thread; its error, if any."""

    def __init__(self, connection: psycopg.Connection, statement: str, asking: psycopg.Connection) -> None:
        self._connection = connection
        self._statement = statement
        self.errors: list[psycopg.Error] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.waited = self._waits(asking)

    def _waits(self, asking: psycopg.Connection) -> bool:
        """Whether it comes to wait for somebody for longer than a moment."""
        deadline, times = time.monotonic() + _WAIT_SECONDS_MAX, 0
        while times < _TIMES and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.05)
            number = self._connection.info.backend_pid
            [blocked] = asking.execute("SELECT pg_blocking_pids(%s) <> '{}'", [number]).fetchone() or (False,)
            times = times + 1 if blocked else 0
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._connection.execute(self._statement.encode())
        except psycopg.Error as error:
            self.errors.append(error)

    def end(self) -> list[psycopg.Error]:
        """After its end."""
        self._thread.join(60)
        assert self.waited, "it did not wait"
        assert not self._thread.is_alive(), "it waits still"
        return self.errors


def _values(connection: psycopg.Connection) -> list[int]:
    return [v for _, v in connection.execute("SELECT id, v FROM k ORDER BY id").fetchall()]


def _beside(connect: Connect, first: str, waiting: str, second: str) -> tuple[list[psycopg.Error], list[int]]:
    """A block of two statements; after the first, another session begins with one that waits. The errors of all, and
    the values."""
    with connect() as one, connect() as other, connect() as asking:
        errors = list[psycopg.Error]()
        other.execute("BEGIN")
        other.execute(first.encode())
        waits = _Waiting(one, waiting, asking)
        try:
            other.execute(second.encode())
        except psycopg.Error as error:
            errors.append(error)
        other.execute("ROLLBACK" if errors else "COMMIT")
        return errors + waits.end(), _values(other)


@pytest.mark.turns
@pytest.mark.parametrize("waiting", _WAITING.values(), ids=_WAITING)
@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_the_holder_of_the_lock_goes_on(connect: Connect, waiting: str, change: str) -> None:
    assert _beside(connect, _UPDATE, waiting, change) == ([], [3, 0])


@pytest.mark.parametrize("waiting", ["SELECT adds(1)", "SELECT acts(1)"])
def test_a_row_that_is_locked_alone(connect: Connect, waiting: str) -> None:
    locks = "SELECT v FROM k WHERE id = 1 FOR UPDATE"
    assert _beside(connect, locks, waiting, "SELECT adds(1)") == ([], [2, 0])


def test_a_deadlock_is_found(connect: Connect) -> None:
    """Two transactions that call functions for the same rows in opposite order."""
    with connect() as one, connect() as other, connect() as asking:
        errors = list[psycopg.Error]()
        one.execute("BEGIN")
        one.execute("SELECT adds(1)")
        other.execute("BEGIN")
        other.execute("SELECT adds(2)")
        waits = _Waiting(one, "SELECT adds(2)", asking)
        try:
            other.execute("SELECT adds(1)")
        except psycopg.Error as error:
            errors.append(error)
        other.execute("ROLLBACK" if errors else "COMMIT")
        of_one = waits.end()
        one.execute("ROLLBACK" if of_one else "COMMIT")
        assert [error.sqlstate for error in errors + of_one] == ["40P01"]
        assert _values(other) == [1, 1]


def test_an_action_sees_rows_that_were_added_meanwhile(connect: Connect) -> None:
    """ON DELETE CASCADE fires triggers for a row that was committed while the statement waited for its key."""
    with connect() as connection:
        insert = "INSERT INTO c VALUES (3, 1), (4, 1), (5, 2)"
        errors, values = _beside(connect, insert, "DELETE FROM k WHERE id = 1", "SELECT 1")
        assert (errors, values) == ([], [0])
        assert connection.execute("SELECT id FROM c ORDER BY id").fetchall() == [(2,), (4,), (5,)]
        assert connection.execute("SELECT id FROM gone ORDER BY id").fetchall() == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("change", [_UPDATE, _MERGE], ids=["UPDATE", "MERGE"])
def test_nobody_is_left_behind(connect: Connect, change: str) -> None:
    """However often others change the row, a function gets its turn, and so does MERGE."""
    counts, errors, end = [0, 0, 0, 0], list[psycopg.Error](), time.monotonic() + _CONTEND_SECONDS

    def run(number: int) -> None:
        with connect() as connection:
            while time.monotonic() < end and min(counts) < _TURNS:
                try:
                    with connection.transaction():
                        connection.execute((change if number % 2 else "SELECT adds(1)").encode())
                    counts[number] += 1
                except psycopg.Error as error:
                    errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(counts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with connect() as connection:
        assert (errors, _values(connection)) == ([], [sum(counts), 0])
    assert min(counts) > 1
