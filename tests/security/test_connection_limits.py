"""Connection limits: how many, the roles with the last places, and that strangers take none of them."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import psycopg
import pytest

from gateway.wire.messages import startup
from gateway.wire.messages.frontend import Query
from tests.forks import ask_sluice
from tests.gateway.wire import Wire
from tests.security.conftest import (
    MAX_CONNECTIONS,
    PROMPT_SECONDS_MAX,
    RESERVED_CONNECTIONS,
    asked_for_proof,
    connected,
    error_in,
    hello,
    until_end,
)
from tests.servers import GatewayProcess, Server, open_directory, start_oracle

_OTHER_ADDRESS = "127.0.0.2"
_AUTHENTICATED = b"R\0\0\0\x08\0\0\0\0"
_FULL = ("53300", "sorry, too many clients already")
_RESERVED = (
    "53300",
    'remaining connection slots are reserved for roles with privileges of the "pg_use_reserved_connections" role',
)


def _refused(server: Server) -> tuple[str, str]:
    """SQLSTATE and message with which a login fails, soon."""
    begin = time.monotonic()
    with connected(server) as connection:
        connection.sendall(hello(server))
        # PostgreSQL looks for a place when it knows who wants it, and has said so.
        found = error_in(until_end(connection).removeprefix(_AUTHENTICATED))
    assert time.monotonic() - begin < PROMPT_SECONDS_MAX
    return found


@contextmanager
def _sessions(server: Server, count: int) -> Iterator[list[psycopg.Connection]]:
    with ExitStack() as stack:
        yield [stack.enter_context(psycopg.connect(server.url, autocommit=True)) for _ in range(count)]


def _log_in_soon(server: Server, password: str | None = None) -> None:
    begin = time.monotonic()
    with psycopg.connect(server.url, autocommit=True, password=password) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert time.monotonic() - begin < PROMPT_SECONDS_MAX


def _until_free(server: Server) -> None:
    """A session's place is free some moments after its client has gone."""
    deadline = time.monotonic() + 10
    while True:
        try:
            with _sessions(server, MAX_CONNECTIONS):
                return
        except psycopg.OperationalError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture(autouse=True)
def all_free(strict: Server) -> None:
    _until_free(strict)


def test_the_last_places_are_kept(strict: Server, ordinary: Server) -> None:
    """The role that owns the lake has the privileges; it may grant them."""
    with _sessions(ordinary, MAX_CONNECTIONS - RESERVED_CONNECTIONS):
        assert _refused(ordinary) == _RESERVED
        with _sessions(strict, RESERVED_CONNECTIONS - 1) as [owner]:
            owner.execute(f"GRANT pg_use_reserved_connections TO {ordinary.user}".encode())
            try:
                with _sessions(ordinary, 1):
                    assert _refused(strict) == _FULL
                    assert _refused(ordinary) == _FULL
            finally:
                owner.execute(f"REVOKE pg_use_reserved_connections FROM {ordinary.user}".encode())
            assert _refused(ordinary) == _RESERVED
    _until_free(strict)
    _log_in_soon(ordinary)


def test_postgresql_says_the_same() -> None:
    """Two places for everybody, then one reserved, then one for superusers."""
    with open_directory("places") as directory:
        postgres, server = start_oracle(directory)
        try:
            with psycopg.connect(server.superuser.url, autocommit=True) as superuser:
                superuser.execute("CREATE ROLE anybody LOGIN")
            asyncio.run(postgres.stop())
            with (postgres.cluster / "postgresql.conf").open("a") as configuration:
                configuration.write("max_connections = 4\nreserved_connections = 1\n")
                configuration.write("superuser_reserved_connections = 1\nautovacuum_worker_slots = 1\n")
            asyncio.run(postgres.start())
            anybody = replace(server, user="anybody")
            with _sessions(anybody, 2):
                assert _refused(anybody) == _RESERVED
                with _sessions(server, 1):
                    assert _refused(server)[0] == "53300"
                    with _sessions(server.superuser, 1):
                        assert _refused(anybody) == _FULL
        finally:
            asyncio.run(postgres.stop())


def test_many_at_once(strict: Server) -> None:
    """400 come at the same time: as many as may get in, the others are refused, nobody waits long."""
    count = 400
    outcomes: list[str] = []
    seconds: list[float] = []
    leave = threading.Event()

    def come() -> None:
        begin = time.monotonic()
        with connected(strict) as connection:
            try:
                connection.sendall(hello(strict))
                kind = connection.recv(1)
            except ConnectionError:  # it was sent away before what it said arrived
                kind = b""
            seconds.append(time.monotonic() - begin)
            outcomes.append("in" if kind == b"R" else "out")
            if kind == b"R":
                leave.wait(60)

    threads = [threading.Thread(target=come) for _ in range(count)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while len(outcomes) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    leave.set()
    for thread in threads:
        thread.join()
    assert len(outcomes) == count
    assert outcomes.count("in") <= MAX_CONNECTIONS
    assert outcomes.count("in") > 0
    assert sorted(seconds)[count // 2] < PROMPT_SECONDS_MAX


def test_those_who_say_nothing_keep_nobody_out(strict: Server, proving: Server) -> None:
    with ExitStack() as stack:
        for _ in range(3 * MAX_CONNECTIONS):
            stack.enter_context(connected(strict))
        _log_in_soon(strict)
        _log_in_soon(proving, password="secret")
        with _sessions(strict, MAX_CONNECTIONS):
            assert _refused(strict) == _FULL


def test_those_who_prove_nothing_keep_nobody_out(strict: Server, proving: Server) -> None:
    with ExitStack() as stack:
        waiting = [stack.enter_context(asked_for_proof(proving)) for _ in range(MAX_CONNECTIONS)]
        _log_in_soon(proving, password="secret")
        # The one that has waited longest has gone, and was told why.
        assert error_in(until_end(waiting[0])) == _FULL


def test_who_comes_in_crowds_sends_himself_away(proving: Server) -> None:
    """One who is about to prove who he is, from elsewhere, keeps his place while others come and come."""
    with ExitStack() as stack:
        early = stack.enter_context(connected(proving, source=_OTHER_ADDRESS))
        early.sendall(hello(proving))
        assert b"SCRAM-SHA-256" in early.recv(1000)
        for _ in range(3 * MAX_CONNECTIONS):
            stack.enter_context(connected(proving))
        _log_in_soon(proving, password="secret")
        early.settimeout(0.2)
        with pytest.raises(TimeoutError):
            early.recv(1)


def test_limits_of_roles_and_databases_are_postgresqls(strict: Server, strict_process: GatewayProcess) -> None:
    with psycopg.connect(strict.url, autocommit=True) as owner:
        owner.execute("CREATE ROLE one_at_a_time LOGIN CONNECTION LIMIT 1")
    limited = Server("gateway", strict.host, strict.port, "one_at_a_time", strict.database)
    with _sessions(limited, 1):
        assert _refused(limited) == ("53300", 'too many connections for role "one_at_a_time"')
        _log_in_soon(strict)
    with psycopg.connect(strict_process.catalog_url, autocommit=True) as superuser:
        superuser.execute(f"ALTER DATABASE {strict.database} CONNECTION LIMIT 0")
        try:
            assert _refused(strict) == ("53300", f'too many connections for database "{strict.database}"')
        finally:
            superuser.execute(f"ALTER DATABASE {strict.database} CONNECTION LIMIT -1")


@pytest.mark.parametrize("database", ["sluice", "postgres", "template1"])
def test_who_has_gone_has_a_place_while_its_statement_runs(strict: Server, ordinary: Server, database: str) -> None:
    """Else a client could have as many backends as the catalog has, and nobody else could log in."""
    elsewhere = replace(ordinary, database=database)
    for _ in range(MAX_CONNECTIONS - RESERVED_CONNECTIONS):
        client = Wire(elsewhere)
        client.send(Query("SELECT pg_sleep(5)"))
        client.close()
    assert _refused(elsewhere) == _RESERVED
    _log_in_soon(strict)


@pytest.mark.parametrize("key", [b"k", b"k" * 257, b"k" * 20_000])
def test_a_cancel_request_that_postgresql_would_not_read(strict: Server, key: bytes) -> None:
    with connected(strict) as connection:
        connection.sendall(startup.CancelRequest(1, key).encode())
        assert until_end(connection) == b""


def test_half_a_cancel_request_is_not_waited_for(strict: Server) -> None:
    with connected(strict) as connection:
        connection.sendall(startup.CancelRequest(1, b"keys").encode()[:12])
        connection.settimeout(10)
        assert connection.recv(1) == b""


def test_a_flood_of_cancel_requests_stops_nobody(strict: Server) -> None:
    """Wrong ones, from four at a time; meanwhile others log in, and a true one is heard."""
    ended = threading.Event()
    sent = [0] * 4

    def flood(number: int) -> None:
        while not ended.is_set():
            with connected(strict) as connection:
                connection.sendall(startup.CancelRequest(struct.unpack("!i", b"abcd")[0], b"keys").encode())
                until_end(connection)
            sent[number] += 1

    threads = [threading.Thread(target=flood, args=(number,)) for number in range(len(sent))]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            _log_in_soon(strict)
        with psycopg.connect(strict.url, autocommit=True) as connection:
            timer = threading.Timer(0.5, connection.cancel_safe)
            timer.start()
            begin = time.monotonic()
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute("SELECT pg_sleep(30)")
            assert time.monotonic() - begin < 0.5 + PROMPT_SECONDS_MAX
            timer.join()
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert sum(sent) > 50


def test_a_flood_of_true_cancel_requests_leaves_the_session_whole(strict: Server) -> None:
    """As many as may come at once."""
    with connected(strict) as session:
        session.sendall(hello(strict))
        greeting = b""
        while not greeting.endswith(b"Z\0\0\0\5I"):
            greeting += session.recv(65536)
        place = greeting.index(b"K\0\0\0\x0c") + 5
        process_id, key = struct.unpack("!i", greeting[place : place + 4])[0], greeting[place + 4 : place + 8]
        request = startup.CancelRequest(process_id, key).encode()
        with ExitStack() as stack:
            requests = [stack.enter_context(connected(strict)) for _ in range(MAX_CONNECTIONS)]
            for connection in requests:
                connection.sendall(request)
            for connection in requests:
                assert until_end(connection) == b""
        _log_in_soon(strict)
        session.sendall(b"Q\0\0\0\x0dSELECT 7\0")
        answer = b""
        while not answer.endswith(b"Z\0\0\0\5I"):
            answer += session.recv(65536)
        assert b"SELECT 1" in answer


@pytest.mark.parametrize(("most", "reserved"), [(3, 3), (0, 0)])
def test_limits_that_leave_nobody_in(most: int, reserved: int) -> None:
    done = ask_sluice("serve", "--max-connections", str(most), "--reserved-connections", str(reserved))
    assert done.returncode == 1
    said = f"reserved_connections ({reserved}) must be 0 or more, and less than max_connections ({most})"
    assert done.stderr == f"sluice: {said}\n"


def test_a_limit_that_is_no_number() -> None:
    done = ask_sluice("serve", "--reserved-connections", "-1")
    assert done.returncode == 2
    assert "expected a number, 0 or more" in done.stderr
