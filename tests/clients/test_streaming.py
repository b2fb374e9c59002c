"""Large results are streamed: a slow client slows its own query only, memory does not grow, and a cancel is heard."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Watcher
from tests.servers import GatewayProcess, Server

ROWS = 1_000_000
_TEXT = "x" * 100
MEMORY_BYTES_MAX = 150 << 20
# Minutes of work, in tasks that look more than once a second whether they are cancelled.
JOIN = "SELECT count(*) FROM {table} a, {table} b WHERE b.n <= 5000 AND a.t <> b.t"


@pytest.fixture(scope="module")
def large(gateway: Server) -> Iterator[str]:
    """A table of a million rows, over 100 MB as text."""
    gateway.psql("-qc", "CREATE SCHEMA large")
    gateway.psql("-qc", "CREATE TABLE large.rows (n integer, t text)")
    gateway.psql("-qc", f"INSERT INTO large.rows SELECT n, '{_TEXT}' FROM generate_series(1, {ROWS}) AS n")
    yield "large.rows"
    gateway.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA large CASCADE")


def resident_bytes(process_id: int) -> int:
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * 4096


def test_others_do_not_wait(gateway: Server, large: str, unblocked: Watcher) -> None:
    """While a million rows go out, `SELECT 1` is answered."""
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        with connection.cursor() as cursor, cursor.copy(f"COPY {large} TO STDOUT") as copy:
            received = sum(len(data) for data in copy)
        assert received > ROWS * len(_TEXT)
        assert connection.execute(f"SELECT count(*), sum(n) FROM {large}").fetchone() == (ROWS, ROWS * (ROWS + 1) // 2)


def test_a_reader_that_stops(gateway_process: GatewayProcess, large: str) -> None:
    """A client that asks and does not read: the gateway holds a bounded part of the answer, however long it waits."""
    server = gateway_process.server
    process_id = gateway_process.process.pid
    server.query(f"SELECT max(n) FROM {large}")
    before = resident_bytes(process_id)
    with socket.create_connection((server.host, server.port)) as client:
        parameters = f"user\0{server.user}\0database\0{server.database}\0\0".encode()
        client.sendall(struct.pack("!II", len(parameters) + 8, 196608) + parameters)
        # Many times of what may be held: an answer of 2.5 GB.
        query = f"SELECT n, t FROM {large}, generate_series(1, 20)\0".encode()
        client.sendall(b"Q" + struct.pack("!I", len(query) + 4) + query)
        highest = 0
        for _ in range(40):
            time.sleep(0.1)
            highest = max(highest, resident_bytes(process_id))
        assert highest - before < MEMORY_BYTES_MAX
        assert client.recv(1) == b"R", "it did answer"
    assert server.query("SELECT 1") == [["1"]]


@pytest.mark.parametrize(
    "sql",
    [
        f"INSERT INTO large.made SELECT n, '{_TEXT}' FROM generate_series(1, {ROWS}) AS n",
        f"CREATE TABLE large.also_made AS SELECT n, '{_TEXT}' AS t FROM generate_series(1, {ROWS}) AS n",
        "INSERT INTO large.made SELECT n, row_to_json(r)::text FROM {table} r",
    ],
)
def test_rows_that_postgresql_makes(gateway_process: GatewayProcess, large: str, sql: str) -> None:
    """They are written as they come."""
    server, process_id = gateway_process.server, gateway_process.process.pid
    server.psql("-qc", "DROP TABLE IF EXISTS large.made, large.also_made; CREATE TABLE large.made (n integer, t text)")
    server.query(f"SELECT max(n) FROM {large}")
    before, highest, done = resident_bytes(process_id), 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.05):
            highest = max(highest, resident_bytes(process_id))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        server.psql("-qc", sql.format(table=large))
    finally:
        done.set()
        watching.join()
    made = "large.also_made" if "also_made" in sql else "large.made"
    assert server.query(f"SELECT count(*), sum(n) FROM {made}") == [[str(ROWS), str(ROWS * (ROWS + 1) // 2)]]
    assert highest - before < MEMORY_BYTES_MAX


@pytest.mark.turns
@pytest.mark.parametrize("milliseconds", [500, 1000, 2000])
def test_rows_that_postgresql_makes_in_vain(gateway_process: GatewayProcess, large: str, milliseconds: int) -> None:
    """However far it has come when its time is over, no file stays, and the session goes on."""
    files = set((gateway_process.data_dir / "lake").rglob("*.parquet"))
    with psycopg.connect(gateway_process.server.url, autocommit=True) as connection:
        connection.execute(f"SET statement_timeout = {milliseconds}")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            connection.execute(f"INSERT INTO {large} SELECT n, repeat('x', 100) FROM generate_series(1, 9000000) AS n")
        connection.execute("RESET statement_timeout")
        assert connection.execute(f"SELECT count(*) FROM {large}").fetchone() == (ROWS,)
    assert set((gateway_process.data_dir / "lake").rglob("*.parquet")) <= files


def copy_out_slowly(connection: psycopg.Connection, table: str) -> None:
    """Slowly for two seconds: what is on its way when the cancel comes is read before its error, as from PostgreSQL."""
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} TO STDOUT") as copy:
        for number, _ in enumerate(copy):
            if number < 200:
                time.sleep(0.01)


def join_it_with_itself(connection: psycopg.Connection, table: str) -> None:
    connection.execute(JOIN.format(table=table))


@pytest.mark.turns
@pytest.mark.parametrize("run", [copy_out_slowly, join_it_with_itself])
@pytest.mark.parametrize("after", [0.3, 0.7, 1.5])
def test_cancel(gateway: Server, large: str, run: Callable[[psycopg.Connection, str], None], after: float) -> None:
    """57014, soon, whatever stage of Spark's it comes in, and the session goes on."""
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        timer = threading.Timer(after, connection.cancel_safe)
        timer.start()
        begin = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            run(connection, large)
        timer.join()
        assert time.monotonic() - begin < 15
        assert connection.execute(f"SELECT count(*) FROM {large}").fetchone() == (ROWS,)


def test_statement_timeout(gateway: Server, large: str) -> None:
    """The client's own limit acts on what Spark does."""
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        connection.execute("SET statement_timeout = '700ms'")
        begin = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            connection.execute(JOIN.format(table=large))
        assert time.monotonic() - begin < 15
        connection.execute("RESET statement_timeout")
        assert connection.execute(f"SELECT count(*) FROM {large}").fetchone() == (ROWS,)
