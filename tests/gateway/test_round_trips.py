"""How often a small statement waits for the catalog's PostgreSQL: round trips are most of what it costs there."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg
import pytest

from tests.proxy import Proxy
from tests.servers import GatewayProcess, open_directory, start_oracle

# Triggers: one changes the row, one adds another. Functions: one reads few rows, one looks a row up by its key.
_CODE = """
CREATE FUNCTION stamps() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := NEW.n + 1; RETURN NEW; END $$;
CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO noted VALUES (NEW.id, NEW.name); RETURN NULL; END $$;
CREATE TRIGGER stamps BEFORE INSERT ON firing FOR EACH ROW EXECUTE FUNCTION stamps();
CREATE TRIGGER notes AFTER INSERT ON firing FOR EACH ROW EXECUTE FUNCTION notes();
CREATE TABLE large (LIKE counted INCLUDING ALL);
INSERT INTO large SELECT g, g, '' FROM generate_series(1, 25000) g;
CREATE FUNCTION of_few(i integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN RETURN (SELECT n FROM firing WHERE id = i); END $$;
CREATE FUNCTION of_many(i integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN RETURN (SELECT n FROM large WHERE id = i); END $$;
"""
# Each is executed so often; the gateway's background work may add to all but one of them.
_TIMES = 8
# After a change of a schema, until the gateway has told others and itself.
_SETTLED_SECONDS = 0.1


class CountingProxy(Proxy):
    """Counts the round trips of all connections: what the gateway sends after an answer begins another."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._lock = threading.Lock()
        self._answered: set[socket.socket] = set()
        self.trips = 0

    def _look(self, data: bytes, source: socket.socket, sink: socket.socket) -> None:
        with self._lock:
            if sink.getpeername()[1] != self._target[1]:
                self._answered.add(source)
            elif sink in self._answered:
                self._answered.discard(sink)
                self.trips += 1


@dataclass
class Counted:
    connection: psycopg.Connection
    proxy: CountingProxy

    def trips(self, sql: str, arguments: Sequence[Sequence[object]], *, prepare: bool) -> int:
        """The fewest round trips of one execution, with each of these arguments once."""
        found = []
        for each in arguments:
            before = self.proxy.trips
            self.connection.execute(sql.encode(), each, prepare=prepare)
            found.append(self.proxy.trips - before)
        return min(found)


@pytest.fixture(scope="module")
def counted() -> Iterator[Counted]:
    with open_directory("round-trips") as directory:
        postgres, catalog = start_oracle(directory)
        try:
            catalog.superuser.psql("-qc", "CREATE DATABASE shared OWNER sluice", "-d", "postgres")
            with CountingProxy(catalog.host, catalog.port) as proxy:
                dsn = f"postgresql://postgres@127.0.0.1:{proxy.port}/shared"
                arguments = ("--catalog", dsn, "--data-path", str(directory / "lake"))
                with (
                    GatewayProcess(directory / "gateway", arguments=arguments, user="sluice") as gateway,
                    psycopg.connect(gateway.server.url, autocommit=True) as connection,
                ):
                    connection.execute("CREATE TABLE counted (id integer PRIMARY KEY, n integer, name text)")
                    connection.execute("INSERT INTO counted SELECT g, g, 'x' || g FROM generate_series(1, 100) g")
                    connection.execute("CREATE TABLE noted (id integer, what text)")
                    connection.execute("CREATE TABLE firing (LIKE counted INCLUDING ALL)")
                    connection.execute(_CODE.encode())
                    yield Counted(connection, proxy)
        finally:
            asyncio.run(postgres.stop())


@pytest.mark.parametrize(
    ("name", "sql", "offset", "trips"),
    [
        ("query by key", "SELECT n, name FROM counted WHERE id = %s", 0, 1),
        ("query of few rows", "SELECT count(*) FROM counted WHERE n > %s", 0, 5),
        ("insert", "INSERT INTO counted VALUES (%s, 1, 'new')", 1000, 3),
        ("insert that fires triggers", "INSERT INTO firing VALUES (%s, 1, 'new')", 1000, 4),
        ("function over few rows", "SELECT of_few(%s)", 0, 8),
        ("function by key", "SELECT of_many(%s)", 0, 8),
        ("update", "UPDATE counted SET n = n + 1 WHERE id = %s", 20, 4),
        ("update by a constant", "UPDATE counted SET n = 7 WHERE id = %s", 20, 4),
        ("upsert", "INSERT INTO counted VALUES (%s, 1, '') ON CONFLICT (id) DO UPDATE SET n = 0", 40, 8),
        ("delete", "DELETE FROM counted WHERE id = %s", 60, 5),
    ],
)  # fmt: skip
def test_a_prepared_statement(counted: Counted, name: str, sql: str, offset: int, trips: int) -> None:
    arguments = [(offset + number,) for number in range(1, _TIMES + 2)]
    counted.connection.execute(sql.encode(), arguments[0], prepare=True)
    found = counted.trips(sql, arguments[1:], prepare=True)
    assert found <= trips, (name, found)


@pytest.mark.parametrize(
    ("sql", "prepare", "trips"),
    [
        ("INSERT INTO held VALUES (%s, 1, '')", True, 1),
        ("UPDATE held SET n = n + 1 WHERE id = %s", True, 1),
        ("SELECT n, name FROM held WHERE id = %s", True, 1),
        ("DELETE FROM held WHERE id = %s", True, 1),
        ("INSERT INTO held VALUES (%s, 1, '')", False, 3),
        ("SELECT n, name FROM held WHERE id = %s", False, 3),
    ],
)
def test_a_temporary_table(counted: Counted, sql: str, prepare: bool, trips: int) -> None:
    counted.connection.execute("CREATE TEMPORARY TABLE IF NOT EXISTS held (id integer, n integer, name text)")
    arguments = [(number,) for number in range(1, _TIMES + 1)]
    counted.trips(sql, arguments, prepare=prepare)
    assert counted.trips(sql, arguments, prepare=prepare) <= trips


def test_an_insert_of_constants_into_a_temporary_table(counted: Counted) -> None:
    """As text, by messages that name the table only: no analysis."""
    connection, proxy = counted.connection, counted.proxy
    connection.execute("CREATE TEMPORARY TABLE IF NOT EXISTS held (id integer, n integer, name text)")
    found = []
    for number in range(_TIMES):
        before = proxy.trips
        connection.execute(f"INSERT INTO held VALUES ({number}, 1, 'new')".encode())
        found.append(proxy.trips - before)
    assert min(found) == 1


def test_a_query_at_postgresql(counted: Counted) -> None:
    """Prepared and executed at once, by one message after another."""
    arguments = [(number,) for number in range(_TIMES)]
    assert counted.trips("SELECT %s + 1", arguments, prepare=False) <= 2


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "prepared"])
@pytest.mark.parametrize(
    ("sql", "back"),
    [
        ("ALTER TABLE counted ADD COLUMN extra integer", "ALTER TABLE counted DROP COLUMN extra"),
        ("ALTER TABLE counted ALTER COLUMN n SET DEFAULT 7", "ALTER TABLE counted ALTER COLUMN n DROP DEFAULT"),
        ("ALTER TABLE counted RENAME COLUMN n TO m", "ALTER TABLE counted RENAME COLUMN m TO n"),
        ("ALTER TABLE noted RENAME TO known", "ALTER TABLE known RENAME TO noted"),
    ],
    ids=["column", "default", "name of a column", "name"],
)
def test_a_change_that_looks_at_no_row(counted: Counted, sql: str, back: str, prepare: bool) -> None:
    """Its analysis, what its names mean, and all the rest in one message. If it is prepared, the former are asked for
    twice, each with a Sync, and the driver forgets it afterwards."""
    found = []
    for _ in range(_TIMES):
        for each in (sql, back):
            time.sleep(_SETTLED_SECONDS)
            before = counted.proxy.trips
            counted.connection.execute(each.encode(), prepare=prepare)
            found.append(counted.proxy.trips - before)
    assert min(found) <= (11 if prepare else 3)


@pytest.mark.parametrize(
    ("expression", "trips"), [("length(name) + n", 50), ("adds_one(n)", 60)], ids=["plain", "of a user"]
)
def test_values_of_another_type(counted: Counted, expression: str, trips: int) -> None:
    """In a block that is undone; what functions of users look at is counted around them."""
    connection, proxy, found = counted.connection, counted.proxy, []
    connection.execute("DROP TABLE IF EXISTS retyped CASCADE; DROP FUNCTION IF EXISTS adds_one")
    connection.execute("CREATE FUNCTION adds_one(i integer) RETURNS integer LANGUAGE sql AS 'SELECT i + 1'")
    connection.execute("CREATE TABLE retyped AS SELECT n, name FROM counted ORDER BY id LIMIT 50")
    for _ in range(_TIMES):
        with connection.transaction(force_rollback=True):
            before = proxy.trips
            connection.execute(f"ALTER TABLE retyped ALTER n TYPE bigint USING {expression}".encode())
            found.append(proxy.trips - before)
    assert min(found) <= trips, found


@pytest.mark.parametrize(("first", "way"), [(5000, "text"), (5100, "prepared"), (5200, "parsed anew")])
def test_an_insert_that_follows_others_in_a_block(counted: Counted, first: int, way: str) -> None:
    """PostgreSQL makes the row, and its key is claimed; all rows are staged together."""
    sql = "INSERT INTO counted VALUES ({}, 1, 'new')"
    connection, proxy = counted.connection, counted.proxy
    found = []
    with connection.transaction():
        for number in range(first, first + _TIMES):
            before = proxy.trips
            if way == "text":
                connection.execute(sql.format(number).encode())
            else:
                connection.execute(sql.format("%s").encode(), (number,), prepare=way == "prepared")
            found.append(proxy.trips - before)
    assert min(found) <= 2


@pytest.mark.parametrize(
    ("first", "sql"),
    [
        (6000, "INSERT INTO counted SELECT g, 1, 'new' FROM generate_series({0}, {0}) g"),
        (6100, "INSERT INTO counted VALUES (generate_series({0}, {0}), 1, 'new')"),
        (7000, "INSERT INTO counted SELECT {0}, 1, 'new' UNION ALL SELECT {0} + 100, 1, 'new'"),
    ],
)
def test_only_inserts_of_few_rows_follow_others(counted: Counted, first: int, sql: str) -> None:
    """What a series makes is read at once, so the text says how many rows there are, whatever the parameters."""
    connection, proxy = counted.connection, counted.proxy
    found = []
    with connection.transaction():
        for number in range(first, first + _TIMES):
            before = proxy.trips
            connection.execute(sql.replace("{0}", "%(n)s::integer").encode(), {"n": number}, prepare=True)
            found.append(proxy.trips - before)
    assert min(found[1:]) > 2
