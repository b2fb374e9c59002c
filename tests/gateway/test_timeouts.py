"""PostgreSQL's timeouts: they act on the running statement, in Spark or not, and on an idle client."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg
import pytest

from tests.servers import Server

_T = TypeVar("_T")
_SENT_AWAY_SECONDS_MAX = 60.0
# A long time's work. Spark looks for a cancel after some thousand rows of the one table, each of which meets only some
# thousand of the other here; it would go on for as long as it takes otherwise, while others wait for the processors.
_LONG = "SELECT count(*) FROM timed a JOIN timed b ON a.n % 20 = b.n % 20 WHERE a.n % 7 <> b.n % 11"
# A second's work and more, on any machine; on PostgreSQL too.
_SLOW = "SELECT count(*) FROM timed a, timed b WHERE a.n % 7 <> b.n % 11 AND a.n < 200"


@pytest.fixture(scope="module")
def timed(oracle: Server, gateway: Server) -> Iterator[tuple[Server, Server]]:
    """The two servers, with the same table of so many rows that its square takes minutes."""
    for server in (oracle, gateway):
        server.psql("-qc", "CREATE TABLE timed (n integer)")
        server.psql("-qc", "INSERT INTO timed SELECT n FROM generate_series(1, 200000) n")
        server.psql("-qc", "CREATE TABLE changed (n bigint)")
        server.psql("-qc", "INSERT INTO changed VALUES (1)")
    yield oracle, gateway
    for server in (oracle, gateway):
        server.psql("-qc", "DROP TABLE timed, changed")


@pytest.fixture(scope="module")
def held(oracle: Server, gateway: Server) -> Iterator[tuple[Server, Server]]:
    """The two servers, with a table of one row that others lock."""
    for server in (oracle, gateway):
        server.psql("-qc", "CREATE TABLE held (n integer)")
        server.psql("-qc", "INSERT INTO held VALUES (1)")
        server.psql("-qc", "CREATE INDEX held_n ON held (n)")
        server.psql("-qc", "CREATE SEQUENCE counted")
    yield oracle, gateway
    for server in (oracle, gateway):
        server.psql("-qc", "DROP TABLE held; DROP SEQUENCE counted")


def connected(server: Server, **settings: str) -> psycopg.Connection:
    """A connection with these settings, outside of a transaction block."""
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return psycopg.connect(server.url, autocommit=True, options=options)


def on_both(servers: tuple[Server, Server], tell: Callable[[Server], _T]) -> list[_T]:
    """What becomes of the same on each; at the same time, for most of it is waiting."""
    with ThreadPoolExecutor(len(servers)) as threads:
        return list(threads.map(tell, servers))


def idle(connection: psycopg.Connection) -> None:
    """Do nothing until the server says something, which it does to send the client away."""
    assert select.select([connection], [], [], _SENT_AWAY_SECONDS_MAX)[0], "the client is left alone"


def ended(connection: psycopg.Connection, statement: str) -> tuple[str | None, str | None, bool]:
    """The SQLSTATE and text of the error that a statement brings, and whether the connection ends with it."""
    with pytest.raises(psycopg.Error) as raised:
        connection.execute(statement.encode())
    return raised.value.sqlstate, raised.value.diag.message_primary, connection.closed


@pytest.mark.turns
@pytest.mark.parametrize(
    "statement",
    [
        _LONG,
        f"UPDATE changed SET n = ({_LONG})",
        f"DELETE FROM changed WHERE n = ({_LONG})",
        f"INSERT INTO changed {_LONG}",
        f"INSERT INTO changed {_LONG} ON CONFLICT DO NOTHING",
        f"MERGE INTO changed USING ({_LONG}) s(m) ON n = m WHEN MATCHED THEN DELETE",
        f"CREATE TABLE made AS {_LONG}",
        f"BEGIN; DECLARE c CURSOR FOR {_LONG}; FETCH c",
        f"SELECT n FROM changed WHERE n = ({_LONG}) FOR UPDATE",
    ],
    ids=lambda statement: " ".join(statement.split()[:2]),
)
def test_statement_timeout(timed: tuple[Server, Server], statement: str) -> None:
    def tell(server: Server) -> tuple[str | None, str | None, bool]:
        with connected(server, statement_timeout="1500") as connection:
            begun = time.monotonic()
            told = ended(connection, statement)
            assert time.monotonic() - begun < 20
            connection.execute("ROLLBACK")
            connection.execute("SET statement_timeout = 0")  # Spark may be busy with what it looks to end
            assert connection.execute("SELECT n FROM changed").fetchall() == [(1,)]
            return told

    told = on_both(timed, tell)
    assert told[1] == told[0] == ("57014", "canceling statement due to statement timeout", False)


def _nested(connection: psycopg.Connection) -> str:
    """Calls that nest as deep as Spark analyses for more than a second on this machine; each call takes it longer."""
    for depth in range(40, 200, 15):
        nested = f"{'abs(' * depth}n{')' * depth}"
        begun = time.monotonic()
        connection.execute(f"EXPLAIN SELECT {nested} FROM timed".encode())
        if time.monotonic() - begun > 1:
            break
    return nested


def test_statement_timeout_while_spark_analyses(timed: tuple[Server, Server]) -> None:
    """It does not stop before it has analysed."""
    with connected(timed[1]) as connection:
        connection.execute("SET sluice.engine = 'spark'")
        nested = _nested(connection)
        for word in ("", "EXPLAIN "):
            connection.execute("SET statement_timeout = 300")
            told = ended(connection, f"{word}SELECT {nested} FROM timed")
            assert told == ("57014", "canceling statement due to statement timeout", False)
            connection.execute("SET statement_timeout = 0")
            assert connection.execute("SELECT n FROM changed").fetchall() == [(1,)]


@pytest.mark.turns
@pytest.mark.parametrize(
    ("mode", "statement"),
    [
        ("ACCESS SHARE", "DROP TABLE held"),
        ("ACCESS SHARE", "ALTER TABLE held RENAME TO renamed"),
        ("ACCESS SHARE", "ALTER TABLE held RENAME COLUMN n TO m"),
        ("ACCESS SHARE", "ALTER TABLE held ADD COLUMN m integer"),
        ("ACCESS SHARE", "ALTER TABLE held ALTER COLUMN n TYPE bigint"),
        ("ACCESS SHARE", "DROP INDEX held_n"),
        ("ACCESS SHARE", "TRUNCATE held"),
        ("ACCESS SHARE", "BEGIN; ALTER TABLE held RENAME TO renamed"),
        ("ACCESS SHARE", "BEGIN; DROP TABLE held"),
        ("ACCESS SHARE", "CLUSTER held USING held_n"),
        ("ROW EXCLUSIVE", "CREATE INDEX ON held (n)"),
        (
            "ROW EXCLUSIVE",
            "CREATE TRIGGER suppress BEFORE UPDATE ON held EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        ),
    ],
)
def test_statement_timeout_of_a_change_that_waits(held: tuple[Server, Server], mode: str, statement: str) -> None:
    def tell(server: Server) -> tuple[str | None, str | None, bool]:
        with connected(server) as holding, connected(server, statement_timeout="1000") as connection:
            holding.execute(f"BEGIN; LOCK TABLE held IN {mode} MODE".encode())
            begun = time.monotonic()
            told = ended(connection, statement)
            assert 0.9 < time.monotonic() - begun < 20
            connection.execute("ROLLBACK")
            assert connection.execute("SELECT n FROM held").fetchall() == [(1,)]
            return told

    told = on_both(held, tell)
    assert told[1] == told[0] == ("57014", "canceling statement due to statement timeout", False)


@pytest.mark.turns
@pytest.mark.parametrize("statement", ["COMMIT", "SELECT setval('counted', 1)", "DROP TABLE IF EXISTS beside, held"])
def test_statement_timeout_of_a_block_that_waits(held: tuple[Server, Server], statement: str) -> None:
    """A change that was made in a block is made once more when the block is settled: another may hold its lock."""
    _, gateway = held
    with connected(gateway) as holding, connected(gateway) as connection:
        connection.execute("BEGIN; ALTER TABLE held RENAME COLUMN n TO m")
        holding.execute("BEGIN; LOCK TABLE held IN ACCESS SHARE MODE")
        connection.execute("SET statement_timeout = 1000")
        begun = time.monotonic()
        assert ended(connection, statement) == ("57014", "canceling statement due to statement timeout", False)
        assert 0.9 < time.monotonic() - begun < 20
        connection.execute("ROLLBACK")
        assert connection.execute("SELECT n FROM held").fetchall() == [(1,)]


def test_transaction_timeout_of_a_change_that_waits(held: tuple[Server, Server]) -> None:
    def tell(server: Server) -> tuple[str | None, str | None, bool]:
        with connected(server) as holding, connected(server, transaction_timeout="1000") as connection:
            holding.execute("BEGIN; LOCK TABLE held IN ACCESS SHARE MODE")
            return ended(connection, "DROP TABLE held")

    told = on_both(held, tell)
    assert told[1] == told[0]


def test_statement_timeout_of_copy(timed: tuple[Server, Server]) -> None:
    for server in timed:
        with connected(server, statement_timeout="1500") as connection, connection.cursor() as cursor:
            with pytest.raises(psycopg.errors.QueryCanceled), cursor.copy(f"COPY ({_LONG}) TO STDOUT") as copy:
                copy.read()
            assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.turns
@pytest.mark.parametrize("first", [f"{_SLOW}", f"DECLARE c CURSOR FOR {_SLOW}", "UPDATE changed SET n = n", "BEGIN"])
def test_a_client_that_idles_in_a_block(timed: tuple[Server, Server], first: str) -> None:
    """Not the backend that waits for Spark: the statement is done, then the client is sent away."""

    def tell(server: Server) -> tuple[object, tuple[str | None, str | None, bool]]:
        with connected(server, idle_in_transaction_session_timeout="2000") as connection:
            connection.execute("BEGIN")
            connection.execute(first.encode())
            if first.startswith("DECLARE"):
                connection.execute("FETCH ALL FROM c")
            row = connection.execute("SHOW idle_in_transaction_session_timeout").fetchone()
            idle(connection)
            return row, ended(connection, "SELECT 1")

    told = on_both(timed, tell)
    assert told[1] == told[0]
    assert told[1][1][0] == "25P03"


def test_a_client_that_idles_in_a_failed_block(timed: tuple[Server, Server]) -> None:
    def tell(server: Server) -> list[tuple[str | None, str | None, bool]]:
        with connected(server, idle_in_transaction_session_timeout="2000") as connection:
            connection.execute("BEGIN")
            before = ended(connection, "UPDATE changed SET n = 1 / (n - 1)")
            idle(connection)
            return [before, ended(connection, "SELECT 1")]

    told = on_both(timed, tell)
    assert told[1] == told[0]
    assert told[1][1][0] == "25P03"


def test_a_client_that_idles_outside_of_a_block(timed: tuple[Server, Server]) -> None:
    def tell(server: Server) -> tuple[object, tuple[str | None, str | None, bool]]:
        with connected(server, idle_session_timeout="2000") as connection:
            connection.execute(_SLOW.encode())
            connection.execute("UPDATE changed SET n = n")
            row = connection.execute("SHOW idle_session_timeout").fetchone()
            idle(connection)
            return row, ended(connection, "SELECT 1")

    told = on_both(timed, tell)
    assert told[1] == told[0]
    assert told[1][1][0] == "57P05"


def test_a_client_that_reads_slowly_does_not_idle(timed: tuple[Server, Server]) -> None:
    """Neither does one that lets a cursor rest no longer than it may."""

    def read(server: Server) -> int:
        with connected(server, idle_in_transaction_session_timeout="1000") as connection, connection.transaction():
            rows = 0
            for row in connection.cursor().stream("SELECT rpad(a.n::text, 400, 'x') FROM timed a"):
                rows += len(row)
                if rows in (1, 100_000):
                    time.sleep(1.5)
            return rows

    assert on_both(timed, read) == [200_000, 200_000]


@pytest.mark.turns
@pytest.mark.parametrize("block", ["BEGIN; ", ""], ids=["block", "alone"])
@pytest.mark.parametrize("statement", [_LONG, f"UPDATE changed SET n = ({_LONG})"], ids=["select", "update"])
def test_transaction_timeout_in_the_middle(timed: tuple[Server, Server], block: str, statement: str) -> None:
    def tell(server: Server) -> tuple[str | None, str | None, bool]:
        with connected(server, transaction_timeout="1500") as connection:
            begun = time.monotonic()
            told = ended(connection, block + statement)
            assert time.monotonic() - begun < 20
        assert server.query("SELECT n FROM changed") == [["1"]]
        return told

    told = on_both(timed, tell)
    assert told[1] == told[0]
    assert told[1][0] == "25P04"


def test_transaction_timeout_of_a_client_that_idles(timed: tuple[Server, Server]) -> None:
    def tell(server: Server) -> tuple[str | None, str | None, bool]:
        with connected(server, transaction_timeout="3000") as connection:
            connection.execute("SELECT 1")
            connection.execute("BEGIN")
            connection.execute("UPDATE changed SET n = 7")
            idle(connection)
            told = ended(connection, "COMMIT")
        assert server.query("SELECT n FROM changed") == [["1"]]
        return told

    told = on_both(timed, tell)
    assert told[1] == told[0]
    assert told[1][0] == "25P04"


def test_a_backend_that_an_administrator_ends(timed: tuple[Server, Server]) -> None:
    """In the middle of a statement; told as PostgreSQL tells it, once."""

    def tell(server: Server) -> tuple[str | None, str | None, bool]:
        with connected(server) as connection, connected(server) as other:
            connection.execute("BEGIN")
            connection.execute("UPDATE changed SET n = 9")
            other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
            idle(connection)
            told = ended(connection, "SELECT 1")
        assert server.query("SELECT n FROM changed") == [["1"]]
        return told

    told = on_both(timed, tell)
    assert told[1] == told[0]
    assert told[1][0] == "57P01"
