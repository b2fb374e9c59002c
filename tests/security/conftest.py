"""Gateways for these tests alone: one with few places and little time to log in, and two on one lake; and strangers."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from gateway.wire.messages import startup
from tests.servers import GatewayProcess, Server, open_directory

MAX_CONNECTIONS = 12
RESERVED_CONNECTIONS = 2
AUTHENTICATION_SECONDS = 3.0
_LIMITS = (
    *("--max-connections", str(MAX_CONNECTIONS)),
    *("--reserved-connections", str(RESERVED_CONNECTIONS)),
    *("--authentication-timeout", str(AUTHENTICATION_SECONDS)),
)
# For what comes at once, on a machine that is busy.
PROMPT_SECONDS_MAX = 2.0
_SECONDS_MAX = 60.0


@pytest.fixture(scope="session")
def strict_process() -> Iterator[GatewayProcess]:
    """A gateway of which the tests of this folder exhaust all places."""
    with open_directory("strict") as directory, GatewayProcess(directory / "data", arguments=_LIMITS) as process:
        yield process


@pytest.fixture(scope="session")
def strict(strict_process: GatewayProcess) -> Server:
    """Where it listens, for the role that owns the lake."""
    return strict_process.server


def _role(server: Server, options: str) -> Server:
    name = f"role_{secrets.token_hex(4)}"
    with psycopg.connect(server.url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN {options}".encode())
    return replace(server, user=name)


@pytest.fixture(scope="session")
def strict_certificate(strict_process: GatewayProcess) -> str:
    """The file of its certificate."""
    return str(strict_process.data_dir / "tls" / "server.crt")


@pytest.fixture(scope="session")
def ordinary(strict: Server) -> Server:
    """The gateway, for a role that owns nothing."""
    return _role(strict, "")


@pytest.fixture(scope="session")
def proving(strict: Server) -> Server:
    """The gateway, for a role that has to prove its password, `secret`."""
    return _role(strict, "PASSWORD 'secret'")


def connected(server: Server, source: str = "127.0.0.1") -> socket.socket:
    """A bare connection."""
    return socket.create_connection((server.host, server.port), _SECONDS_MAX, source_address=(source, 0))


def hello(server: Server) -> bytes:
    """The startup packet of the server's user."""
    named = (("user", server.user), ("database", server.database))
    return startup.StartupMessage(startup.PROTOCOL_3_0, named).encode()


def asked_for_proof(server: Server) -> socket.socket:
    """A connection that the server waits for, in the midst of SASL."""
    connection = connected(server)
    connection.sendall(hello(server))
    assert b"SCRAM-SHA-256" in connection.recv(1000)
    return connection


def until_end(connection: socket.socket) -> bytes:
    """All that comes before the server ends the connection, whichever way. Fails where it does not."""
    found = b""
    try:
        while data := connection.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    return found


def error_in(answer: bytes) -> tuple[str, str]:
    """SQLSTATE and message of the ErrorResponse that the answer is."""
    assert answer[:1] == b"E", answer
    fields = {field[:1]: field[1:].decode() for field in answer[5:].split(b"\0") if field}
    assert fields[b"S"] == fields[b"V"] == "FATAL"
    return fields[b"C"], fields[b"M"]


@pytest.fixture(scope="package")
def two() -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    """Two gateways on one data directory; the first runs PostgreSQL."""
    with (
        open_directory("security") as directory,
        GatewayProcess(directory / "data") as one,
        GatewayProcess(directory / "data") as other,
    ):
        yield one, other


@pytest.fixture
def catalog(two: tuple[GatewayProcess, GatewayProcess]) -> Iterator[psycopg.Connection]:
    """The catalog of the two itself, as the superuser."""
    with psycopg.connect(two[0].catalog_url, autocommit=True) as connection:
        yield connection
