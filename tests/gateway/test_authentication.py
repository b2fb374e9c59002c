"""The beginning of a connection: requests for encryption, versions, and TLS by the gateway's own certificate."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from gateway.wire.messages import startup
from gateway.wire.messages.frontend import Query, Terminate
from tests.servers import PSQL_18, GatewayProcess, Server

_SECONDS_MAX = 60.0


@contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    with socket.create_connection((server.host, server.port), _SECONDS_MAX) as plain:
        yield plain


def hello(server: Server) -> bytes:
    named = (("user", server.user), ("database", server.database))
    return startup.StartupMessage(startup.PROTOCOL_3_0, named).encode()


def answer(connection: socket.socket) -> bytes:
    """All that comes up to the first ReadyForQuery, or the end."""
    found = b""
    while not found.endswith(b"Z\0\0\0\5I") and (data := connection.recv(65536)):
        found += data
    return found


def encrypted(plain: socket.socket) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain)


def test_encryption_by_gss_is_declined_and_the_startup_goes_on(target: Server) -> None:
    """PostgreSQL without GSSAPI says N, once; so does the gateway."""
    with connected(target) as plain:
        plain.sendall(startup.GSSENCRequest().encode())
        assert plain.recv(1) == b"N"
        plain.sendall(hello(target))
        assert answer(plain).startswith(b"R\0\0\0\x08\0\0\0\0")


def test_tls_after_gss_was_declined(gateway: Server) -> None:
    """As libpq asks where it has credentials: GSSENCRequest, then SSLRequest; and no second TLS within the first."""
    with connected(gateway) as plain:
        plain.sendall(startup.GSSENCRequest().encode())
        assert plain.recv(1) == b"N"
        plain.sendall(startup.SSLRequest().encode())
        assert plain.recv(1) == b"S"
        with encrypted(plain) as inside:
            inside.sendall(startup.SSLRequest().encode())
            assert inside.recv(1) == b"N"
            inside.sendall(hello(gateway))
            assert answer(inside).startswith(b"R\0\0\0\x08\0\0\0\0")
            inside.sendall(Query("SELECT 'within'").encode())
            assert b"within" in answer(inside)
            inside.sendall(Terminate().encode())


def test_what_is_said_before_tls_is_not_taken_for_what_is_said_within(gateway: Server) -> None:
    """CVE-2021-23214: who stands between could put SQL in front of what the client says."""
    with connected(gateway) as plain:
        plain.sendall(startup.SSLRequest().encode() + hello(gateway) + Query("SELECT 1").encode())
        assert plain.recv(65536) in {b"", b"S"}
        with pytest.raises(OSError), encrypted(plain) as inside:  # noqa: PT011  refused in whatever way
            assert inside.recv(1) != b""


def test_a_client_that_has_the_certificate_verifies_the_gateway(gateway_process: GatewayProcess) -> None:
    server = gateway_process.server
    certificate = str(gateway_process.data_dir / "tls" / "server.crt")
    with psycopg.connect(server.url, sslmode="verify-full", sslrootcert=certificate) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.pgconn.ssl_in_use


def test_a_client_that_may_speak_3_2_gets_on_by_3_0(gateway: Server) -> None:
    """libpq 18 takes the older protocol, where it is allowed to, and refuses where it is not."""
    asked = f"host={gateway.host} port={gateway.port} user={gateway.user} dbname={gateway.database}"
    query = ["-XAtc", "SELECT 'here'", "-c", r"\conninfo"]
    psql = [str(PSQL_18), f"{asked} max_protocol_version=latest", *query]
    done = subprocess.run(psql, capture_output=True, text=True, check=True, timeout=_SECONDS_MAX)
    assert done.stdout.startswith("here\n")
    assert "Protocol Version|3.0" in done.stdout
    psql[1] += " min_protocol_version=3.2"
    refused = subprocess.run(psql, capture_output=True, text=True, check=False, timeout=_SECONDS_MAX)
    assert refused.returncode != 0
    assert "protocol version" in refused.stderr


@pytest.mark.parametrize("version", [4 << 16, 1234 << 16 | 5677])
def test_other_protocols_are_refused_as_postgresql_does(oracle: Server, gateway: Server, version: int) -> None:
    said = []
    for server in (oracle, gateway):
        with connected(server) as plain:
            plain.sendall((8).to_bytes(4) + version.to_bytes(4))
            fields = answer(plain)[5:].split(b"\0")
            said.append([field for field in fields if field[:1] in {b"S", b"V", b"C", b"M"}])
    assert said[1] == said[0]
    assert b"C0A000" in said[0]
