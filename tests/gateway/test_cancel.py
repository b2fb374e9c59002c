"""A CancelRequest ends the statement for which it came, also while the backend rests, and no other one."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from gateway.wire.messages.backend import BackendKeyData, DataRow, ErrorResponse, ReadyForQuery
from gateway.wire.messages.frontend import Bind, Execute, Parse, Query, Sync
from gateway.wire.messages.layout import Message
from gateway.wire.messages.startup import CancelRequest
from tests.gateway.wire import Wire, wire
from tests.proxy import Proxy
from tests.servers import GatewayProcess, Server, open_directory, start_oracle

_SECONDS_MAX = 60.0
_CANCEL_CODE = (80877102).to_bytes(4)
# What the answers to the gateway's questions end with: ReadyForQuery, whose state follows, or CloseComplete.
_ENDS = (b"Z\0\0\0\5I", b"Z\0\0\0\5T", b"3\0\0\0\4")


class Holding(Proxy):
    """Between gateway and PostgreSQL. Holds the answers to messages in which "hold this" is, and cancel requests,
    until they are let go; `answered` and `asked` are set once there are such."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.answered, self.asked = threading.Event(), threading.Event()
        self.answers, self.requests = threading.Event(), threading.Event()
        self._holder: socket.socket | None = None
        self.answers.set()
        self.requests.set()

    def begin(self) -> None:
        """Nothing has been held yet; only answers are to be."""
        self.answered.clear()
        self.asked.clear()
        self.answers.clear()
        self.requests.set()

    def _look(self, data: bytes, source: socket.socket, sink: socket.socket) -> None:
        if data[4:8] == _CANCEL_CODE:
            self.asked.set()
            self.requests.wait()
        elif b"hold this" in data and not self.answers.is_set():
            self._holder = source
        elif sink is self._holder and data.endswith(_ENDS):
            self._holder = None
            self.answered.set()
            self.answers.wait()


@pytest.fixture(scope="module")
def held() -> Iterator[tuple[Server, Holding]]:
    """A gateway behind such a proxy."""
    with open_directory("cancel") as directory:
        postgres, catalog = start_oracle(directory)
        try:
            catalog.superuser.psql("-qc", "CREATE DATABASE shared OWNER sluice", "-d", "postgres")
            with Holding(catalog.host, catalog.port) as proxy:
                dsn = f"postgresql://postgres@127.0.0.1:{proxy.port}/shared"
                arguments = ("--catalog", dsn, "--data-path", str(directory / "lake"))
                with GatewayProcess(directory / "data", arguments=arguments, user="sluice") as process:
                    process.server.psql("-qc", "CREATE TABLE kept AS SELECT 1 AS n")
                    yield process.server, proxy
        finally:
            asyncio.run(postgres.stop())


def request(server: Server, connection: Wire) -> socket.socket:
    """Ask the gateway to cancel what the connection does; the gateway closes the socket when it has done so."""
    [key] = [message for message in connection.greeting if isinstance(message, BackendKeyData)]
    asking = socket.create_connection((server.host, server.port), _SECONDS_MAX)
    asking.sendall(CancelRequest(key.process_id, key.key).encode())
    return asking


def sqlstates(answers: list[Message]) -> list[str]:
    """The codes of the errors among these answers."""
    return [dict(answer.fields)["C"] for answer in answers if isinstance(answer, ErrorResponse)]


_STATEMENTS: dict[str, list[Message]] = {
    "of the lake": [Query("SELECT 'hold this', n FROM kept")],
    "that changes the lake": [Query("INSERT INTO kept VALUES (length('hold this'))")],
    "of PostgreSQL": [Query("SELECT 'hold this' FROM pg_class LIMIT 1")],
    "one of several": [Query("SELECT 1; SELECT 'hold this', n FROM kept; SELECT 2")],
    "parsed": [Parse("", "SELECT 'hold this', n FROM kept"), Bind("", ""), Execute(""), Sync()],
}


@pytest.mark.parametrize("block", ["", "BEGIN"])
@pytest.mark.parametrize("name", _STATEMENTS)
def test_while_the_backend_rests(held: tuple[Server, Holding], name: str, block: str) -> None:
    """PostgreSQL has answered, and so forgets what comes; the gateway has not heard the answer yet."""
    server, proxy = held
    proxy.begin()
    with wire(server) as connection:
        if block:
            connection.query(block)
        connection.send(*_STATEMENTS[name])
        assert proxy.answered.wait(_SECONDS_MAX)
        with request(server, connection) as asking:
            assert asking.recv(1) == b""
        proxy.answers.set()
        answers = connection.read_until(ReadyForQuery)
        assert sqlstates(answers) == ["57014"]
        assert answers[-1] == ReadyForQuery(b"E" if block else b"I")
        if block:
            connection.query("ROLLBACK")
        assert DataRow((b"1",)) in connection.query("SELECT n FROM kept")


def test_what_comes_late_ends_no_other(held: tuple[Server, Holding]) -> None:
    """The request is still on its way to PostgreSQL when the statement has ended: the next one waits for it."""
    server, proxy = held
    proxy.begin()
    proxy.requests.clear()
    with wire(server) as connection:
        connection.send(Query("SELECT 'hold this', n FROM kept"))
        assert proxy.answered.wait(_SECONDS_MAX)
        with request(server, connection) as asking:
            assert proxy.asked.wait(_SECONDS_MAX)
            proxy.answers.set()
            assert sqlstates(connection.read_until(ReadyForQuery)) == ["57014"]
            connection.send(Query("SELECT pg_sleep(1)"))
            proxy.requests.set()
            assert sqlstates(connection.read_until(ReadyForQuery)) == []
            assert asking.recv(1) == b""


def test_one_that_comes_for_nothing_is_forgotten(held: tuple[Server, Holding]) -> None:
    server, _ = held
    with wire(server) as connection:
        for _ in range(3):
            with request(server, connection) as asking:
                assert asking.recv(1) == b""
            assert DataRow((b"1",)) in connection.query("SELECT n FROM kept")
