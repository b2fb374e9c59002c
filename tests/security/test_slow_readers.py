"""Clients that ask for many rows and do not read them: only they wait, and the unread rows are there later."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests.servers import GatewayProcess, Server, open_directory

_ROWS = 60_000
_MANY = 40
_SECONDS_MAX = 150.0


@pytest.fixture(scope="module")
def process() -> Iterator[GatewayProcess]:
    """A gateway of this module's own, for its files are counted, with a large table and a small one."""
    with open_directory("slow") as directory, GatewayProcess(directory / "data") as process:
        process.server.psql(
            "-qc",
            "CREATE TABLE large (id int, v text, w int)",
            "-c",
            "INSERT INTO large SELECT g, 'row number ' || g || repeat('x', 380), g % 1000"
            f" FROM generate_series(1, {_ROWS}) g",
            "-c",
            "CREATE TABLE small (id int PRIMARY KEY, n bigint); INSERT INTO small VALUES (1, 10), (2, 20)",
            "-c",
            "CREATE TABLE sink (LIKE large)",
        )
        yield process


@pytest.fixture
def server(process: GatewayProcess) -> Server:
    """Where it listens."""
    return process.server


def unread_files(process: GatewayProcess) -> int:
    """The files that the gateway has open in its folder of unread rows; they have no names."""
    folder, count = process.data_dir / "unread", 0
    for entry in Path(f"/proc/{process.process.pid}/fd").iterdir():
        try:
            count += entry.readlink().is_relative_to(folder)
        except OSError:
            continue  # closed meanwhile
    return count


def wait_for(what: Callable[[], bool], seconds: float = _SECONDS_MAX) -> None:
    """Returns as soon as it is so; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it has not come to pass"
        time.sleep(0.1)


def message(kind: bytes, body: bytes = b"") -> bytes:
    """One of the protocol's messages."""
    return kind + struct.pack("!I", len(body) + 4) + body


def query(sql: str) -> bytes:
    """A simple query."""
    return message(b"Q", sql.encode() + b"\0")


def extended(sql: str, limit: int) -> bytes:
    """Parse, Bind, Execute of an unnamed portal, which Flush leaves open."""
    parse = message(b"P", b"\0" + sql.encode() + b"\0\0\0")
    return parse + message(b"B", bytes(8)) + message(b"E", b"\0" + struct.pack("!I", limit)) + message(b"H")


_ALL = "SELECT * FROM large"
_KINDS = {
    "simple": query(_ALL),
    "extended": extended(_ALL, 0),
    "suspended": extended(_ALL, 10),
    "cursor": query(f"BEGIN; DECLARE c CURSOR FOR {_ALL}; FETCH 10 FROM c"),
    "all of a cursor": query(f"BEGIN; DECLARE c CURSOR FOR {_ALL}; FETCH ALL FROM c"),
    "copy": query("COPY large TO STDOUT"),
    "explosion": query(f"SELECT l.*, r.id FROM ({_ALL} LIMIT 5000) l CROSS JOIN generate_series(1, 100) r(id)"),
}


def silent(server: Server, kind: str) -> socket.socket:
    """A client that asks and does not read what comes."""
    connection = socket.create_connection((server.host, server.port))
    connection.settimeout(_SECONDS_MAX)
    body = f"user\0{server.user}\0database\0{server.database}\0\0".encode()
    connection.sendall(struct.pack("!II", len(body) + 8, 196608) + body)
    got = b""
    while not got.endswith(b"Z\0\0\0\5I"):
        got += connection.recv(65536)
    connection.sendall(_KINDS[kind])
    return connection


def test_forty_that_do_not_read_keep_nobody_waiting(process: GatewayProcess, server: Server) -> None:
    with ExitStack() as stack:
        kinds = [kind for kind in _KINDS if kind != "explosion"]
        for number in range(_MANY):
            stack.enter_context(silent(server, kinds[number % len(kinds)]))
        wait_for(lambda: unread_files(process) >= _MANY // 2)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"SET statement_timeout = '{int(_SECONDS_MAX)}s'")
            one = connection.execute("SELECT 1").fetchone()
            grouped = connection.execute("SELECT count(*), count(DISTINCT w) FROM large").fetchone()
            found = connection.execute("SELECT left(v, 13) FROM large WHERE id = 77").fetchone()
            connection.execute("UPDATE small SET n = n + 1 WHERE id = 2")
            ordered = connection.execute(
                "SELECT max(length(v)) FROM (SELECT * FROM large ORDER BY v LIMIT 30000) q"
            ).fetchone()
            rows = sum(1 for _ in connection.execute("SELECT id FROM large"))
    assert (one, grouped, found, ordered) == ((1,), (_ROWS, 1000), ("row number 77",), (396,))
    assert rows == _ROWS
    wait_for(lambda: unread_files(process) == 0)


def test_four_large_partitions_leave_room_for_a_fifth(process: GatewayProcess, server: Server) -> None:
    """Partitions too large for a window are relayed, and there are few relays."""
    with ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(silent(server, "explosion"))
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"SET statement_timeout = '{int(_SECONDS_MAX)}s'")
            counted = connection.execute("SELECT count(*) FROM (SELECT w FROM large GROUP BY w) q").fetchone()
            rows = 0
            with connection.cursor().copy(
                "COPY (SELECT l.* FROM (SELECT * FROM large LIMIT 5000) l"
                " CROSS JOIN generate_series(1, 100) r(id)) TO STDOUT"
            ) as copy:
                for data in copy:
                    rows += bytes(data).count(b"\n")
    assert counted == (1000,)
    assert rows == 500_000
    wait_for(lambda: unread_files(process) == 0)


@pytest.mark.parametrize("how", ["copy", "portal", "cursor"])
def test_whoever_reads_on_gets_every_row(process: GatewayProcess, server: Server, how: str) -> None:
    """Statements rest until all that is made for them is on disk, and then give the rest."""
    with ExitStack() as stack, psycopg.connect(server.url) as connection:
        for _ in range(6):
            stack.enter_context(silent(server, "simple"))
        ids: list[int] = []
        if how == "copy":
            with connection.cursor().copy("COPY (SELECT id, v FROM large) TO STDOUT") as copy:
                ids.append(int(bytes(copy.read()).split()[0]))
                wait_for(lambda: unread_files(process) > 0)
                time.sleep(3)
                for data in copy:
                    ids.extend(int(line.split()[0]) for line in bytes(data).splitlines())
        elif how == "portal":
            with connection.cursor() as cursor:
                begun = cursor.stream("SELECT id, v, w FROM large", size=1)
                ids.append(next(begun)[0])
                wait_for(lambda: unread_files(process) > 0)
                time.sleep(3)
                ids.extend(row[0] for row in begun)
        else:
            with connection.cursor("c") as cursor:
                cursor.execute("SELECT id, v, w FROM large")
                ids.extend(row[0] for row in cursor.fetchmany(10))
                wait_for(lambda: unread_files(process) > 0)
                time.sleep(3)
                while rows := cursor.fetchmany(10_000):
                    ids.extend(row[0] for row in rows)
    assert len(ids) == _ROWS
    assert sorted(ids) == list(range(1, _ROWS + 1))
    wait_for(lambda: unread_files(process) == 0)


@pytest.mark.turns
@pytest.mark.parametrize("kind", list(_KINDS))
def test_who_goes_away_leaves_nothing(process: GatewayProcess, server: Server, kind: str) -> None:
    clients = [silent(server, kind) for _ in range(5)]
    wait_for(lambda: unread_files(process) > 0)
    for client in clients:
        client.close()
    wait_for(lambda: unread_files(process) == 0)
    with psycopg.connect(server.url, autocommit=True) as connection:
        busy = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = current_user"
        wait_for(lambda: connection.execute(busy).fetchone() == (0,))


def test_a_cancel_and_a_timeout_reach_who_does_not_read(process: GatewayProcess, server: Server) -> None:
    with psycopg.connect(server.url) as connection, connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '20s'")
        rows = cursor.stream("SELECT id, v, w FROM large", size=1)
        next(rows)
        wait_for(lambda: unread_files(process) > 0)
        connection.cancel_safe()
        wait_for(lambda: unread_files(process) == 0, 15.0)
        with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
            for _ in rows:
                pass
    with psycopg.connect(server.url) as connection, connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '5s'")
        rows = cursor.stream("SELECT id, v, w FROM large", size=1)
        next(rows)
        wait_for(lambda: unread_files(process) > 0)
        wait_for(lambda: unread_files(process) == 0, 30.0)
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            for _ in rows:
                pass


def test_rows_that_postgresql_gives_itself_wait_there(process: GatewayProcess, server: Server) -> None:
    """What is relayed holds its own backend back, and little memory."""

    def resident() -> int:
        pages = int(Path(f"/proc/{process.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    with psycopg.connect(server.url) as connection, connection.cursor() as cursor:
        rows = cursor.stream("SELECT repeat('x', 10000) FROM generate_series(1, 100000)", size=1)
        next(rows)
        time.sleep(3)
        assert resident() - before < 100 * 2**20
        assert server.query("SELECT 1") == [["1"]]
        assert sum(1 for _ in rows) == 99_999
