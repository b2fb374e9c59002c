"""Nobody stops anybody: what one client does, beside another's `SELECT 1`, look-up by a key, and statements.

`python -m tests.security.test_ways_to_stop_others` prints the figures. On a machine that is busy with other things the
event loop's own standstill, by processor time, says how long others wait for the gateway.
"""

from __future__ import annotations

import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from tests.monitored import PROGRAM, Monitored, Seen
from tests.servers import GatewayProcess, Server, free_port

_HELD_SECONDS_MAX = 0.05
_TIMES_MAX = 2.0
# A look-up takes some milliseconds, and so much more by chance.
_CHANCE_SECONDS = 0.005
_ATTEMPTS = 4
_LOOKED_UP = "SELECT v FROM looked WHERE id = 77"
_MEGABYTE = 2**20

Way = Callable[[Server], None]


def _statement(sql: str, parameters: list[object] | None = None) -> Way:
    def run(server: Server) -> None:
        with psycopg.connect(server.url, autocommit=True) as session:
            session.execute(sql.encode(), parameters)

    return run


def _listed(count: int, form: str = "{0}", between: str = ",") -> str:
    return between.join(form.format(number) for number in range(count))


def _advisory_locks(server: Server) -> None:
    """Take all that are held, and others."""
    with psycopg.connect(server.url, autocommit=True) as session:
        session.execute(
            "SELECT pg_try_advisory_lock((l.classid::bigint << 32) | l.objid::bigint) FROM pg_locks l"
            " WHERE l.locktype = 'advisory'"
        )
        session.execute("SELECT count(pg_advisory_lock(key)) FROM generate_series(1, 2000) key")
        time.sleep(1)


def _opened(server: Server) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=60)


def _hello(server: Server) -> bytes:
    body = f"user\0{server.user}\0database\0{server.database}\0\0".encode()
    return struct.pack("!II", len(body) + 8, 196608) + body


def _no_readers(server: Server) -> None:
    """Ten that ask for many rows and do not read."""
    with ExitStack() as stack:
        for _ in range(10):
            client = stack.enter_context(_opened(server))
            client.sendall(_hello(server))
            got = b""
            while not got.endswith(b"Z\0\0\0\5I"):
                got += client.recv(65536)
            sql = b"SELECT l.*, repeat(v, 50) FROM looked l\0"
            client.sendall(b"Q" + struct.pack("!I", len(sql) + 4) + sql)
        time.sleep(3)


def _connections(server: Server) -> None:
    with ExitStack() as stack:
        for _ in range(400):
            client = stack.enter_context(_opened(server))
            client.sendall(_hello(server))
        time.sleep(1)


def _silent(server: Server) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(_opened(server))
        time.sleep(1)


def _before_login(server: Server) -> None:
    with _opened(server) as client:
        client.sendall(_hello(server)[:8])
        try:
            client.sendall(b"Q" + struct.pack("!I", 300 * _MEGABYTE))
            for _ in range(300):
                client.sendall(b"x" * _MEGABYTE)
        except OSError:
            return
    pytest.fail("it was read")


def _notifications(server: Server) -> None:
    with psycopg.connect(server.url, autocommit=True) as session:
        session.execute("LISTEN pg_sluice; LISTEN sluice")
        session.execute("DO $$ BEGIN FOR i IN 1 .. 2000 LOOP PERFORM pg_notify('sluice', i::text); END LOOP; END $$")


_TWO_COLUMNS = _listed(3_000, "(id = {0} AND v = 'v{0}')", " OR ")
WAYS: dict[str, Way] = {
    "advisory locks": _advisory_locks,
    "a literal of 8 MB": _statement(f"SELECT length('{'x' * 8 * _MEGABYTE}')"),
    "20,000 rows of VALUES": _statement(f"INSERT INTO made VALUES {_listed(20_000, '({0}, $$v{0}$$)')}"),
    "an IN list of 20,000": _statement(f"SELECT id FROM looked WHERE id IN ({_listed(20_000)})"),
    "3,000 ORs": _statement(f"SELECT id FROM looked WHERE {_TWO_COLUMNS}"),
    "= ANY of 100,000": _statement("SELECT id FROM looked WHERE id = ANY (%s)", [list(range(100_000))]),
    "CASE within CASE, 500 deep": _statement(
        f"SELECT {'CASE WHEN id > 0 THEN ' * 500}1{' ELSE 2 END' * 500} FROM looked WHERE id < 9"
    ),
    "ten that do not read": _no_readers,
    "400 connections": _connections,
    "20 that say nothing": _silent,
    "a message of 300 MB before login": _before_login,
    "2,000 notifications": _notifications,
}


@dataclass
class Beside:
    """The seconds that another's statements took: the slowest `SELECT 1`, the median look-up, and how many there
    were."""

    slowest: float
    looked_up: float
    count: int


def _beside(session: psycopg.Connection, thread: threading.Thread) -> Beside:
    ones: list[float] = []
    found: list[float] = []
    thread.start()
    while thread.is_alive() or len(found) < 20:
        for sql, times in (("SELECT 1", ones), (_LOOKED_UP, found)):
            begun = time.perf_counter()
            session.execute(sql.encode())
            times.append(time.perf_counter() - begun)
        time.sleep(0.002)
    thread.join()
    return Beside(max(ones), statistics.median(found), len(ones))


def measured(server: Server, monitored: Monitored, way: Way) -> tuple[Beside, Beside, Seen]:
    """What another's statements take beside nothing, and beside this; and the event loop's standstill then."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            way(server)
        except BaseException as error:  # noqa: BLE001  told in the other thread
            failed.append(error)

    with psycopg.connect(server.url, autocommit=True) as session:
        usual = _beside(session, threading.Thread(target=time.sleep, args=(1,)))
        with monitored.watching() as seen:
            beside = _beside(session, threading.Thread(target=run))
        again = _beside(session, threading.Thread(target=time.sleep, args=(1,)))
    if failed:
        raise failed[0]
    return Beside(max(usual.slowest, again.slowest), max(usual.looked_up, again.looked_up), usual.count), beside, seen


def prepare(server: Server) -> None:
    """Make the tables."""
    server.psql(
        "-qc", "CREATE TABLE looked (id int PRIMARY KEY, v text); CREATE TABLE made (id int, v text)",
        "-c", "INSERT INTO looked SELECT g, 'v' || g FROM generate_series(1, 100000) g",
    )  # fmt: skip


@pytest.fixture(scope="module")
def monitored() -> Monitored:
    return Monitored(free_port())


@pytest.fixture(scope="module")
def server(monitored: Monitored) -> Iterator[Server]:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with GatewayProcess(Path(folder) / "data", program=PROGRAM, environment=monitored.environment) as process:
            prepare(process.server)
            yield process.server


@pytest.mark.parametrize("name", WAYS)
def test_others_go_on(server: Server, monitored: Monitored, name: str) -> None:
    seen = []
    for _ in range(_ATTEMPTS):
        usual, beside, loop = measured(server, monitored, WAYS[name])
        if loop.held < _HELD_SECONDS_MAX and beside.looked_up < _TIMES_MAX * usual.looked_up + _CHANCE_SECONDS:
            return
        seen.append((usual, beside, loop))
    pytest.fail(f"others waited: {seen}")


def main() -> None:
    """Print a table of all ways."""
    monitored = Monitored(free_port())
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with GatewayProcess(Path(folder) / "data", program=PROGRAM, environment=monitored.environment) as process:
            prepare(process.server)
            print("way: slowest SELECT 1, of the loop alone; look-up, usually (ms)")
            for name, way in WAYS.items():
                usual, beside, seen = measured(process.server, monitored, way)
                times = (beside.slowest, seen.held, beside.looked_up, usual.looked_up)
                print(f"{name}: {', '.join(f'{1000 * each:.1f}' for each in times)}", flush=True)


if __name__ == "__main__":
    main()
