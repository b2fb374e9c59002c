"""TLS from the first byte, as libpq 17 and later can begin, and TLS's name for PostgreSQL's protocol."""

from __future__ import annotations

import ssl
import subprocess

import psycopg
import pytest

from gateway.wire.messages import startup
from tests.security.conftest import connected, hello, until_end
from tests.servers import PSQL_18, Server


def _context(*protocols: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def _greeting(connection: ssl.SSLSocket) -> bytes:
    found = b""
    while not found.endswith(b"Z\0\0\0\5I") and (data := connection.recv(65536)):
        found += data
    return found


@pytest.mark.parametrize("negotiation", ["direct", "postgres"])
def test_libpq(proving: Server, negotiation: str) -> None:
    asked = f"{proving.url}?sslmode=require&sslnegotiation={negotiation}"
    with psycopg.connect(asked, password="secret") as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT 'within'").fetchone() == ("within",)


def test_who_knows_the_certificate_verifies_it(strict: Server, strict_certificate: str) -> None:
    asked = f"{strict.url}?sslmode=verify-full&sslnegotiation=direct"
    with psycopg.connect(asked, sslrootcert=strict_certificate) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_direct_tls_agrees_on_the_protocol(strict: Server) -> None:
    with _context("h2", "postgresql").wrap_socket(connected(strict)) as connection:
        assert connection.selected_alpn_protocol() == "postgresql"
        connection.sendall(hello(strict))
        assert _greeting(connection).startswith(b"R\0\0\0\x08\0\0\0\0")


@pytest.mark.parametrize("protocols", [(), ("http/1.1",)])
def test_direct_tls_without_the_protocol_is_ended(strict: Server, protocols: tuple[str, ...]) -> None:
    """It may be a browser, that somebody has sent here: nothing that it says is read."""
    with _context(*protocols).wrap_socket(connected(strict), suppress_ragged_eofs=True) as connection:
        assert connection.recv(1) == b""


@pytest.mark.parametrize(("offered", "agreed"), [((), None), (("postgresql",), "postgresql")])
def test_negotiated_tls_agrees_on_the_protocol_where_it_is_offered(
    strict: Server, offered: tuple[str, ...], agreed: str | None
) -> None:
    plain = connected(strict)
    plain.sendall(startup.SSLRequest().encode())
    assert plain.recv(1) == b"S"
    with _context(*offered).wrap_socket(plain) as connection:
        assert connection.selected_alpn_protocol() == agreed
        connection.sendall(hello(strict))
        assert _greeting(connection).startswith(b"R\0\0\0\x08\0\0\0\0")


def test_the_limits_of_the_startup_are_kept_within_tls(strict: Server) -> None:
    with _context("postgresql").wrap_socket(connected(strict)) as connection:
        connection.sendall((10_005).to_bytes(4))
        assert until_end(connection) == b""


def test_a_cancel_request_within_direct_tls(strict: Server) -> None:
    with _context("postgresql").wrap_socket(connected(strict)) as connection:
        connection.sendall(startup.CancelRequest(1, b"keys").encode())
        assert until_end(connection) == b""


def test_what_begins_like_tls_and_is_none(strict: Server) -> None:
    with connected(strict) as connection:
        connection.sendall(b"\x16" + b"GET / HTTP/1.1\r\n\r\n" * 10)
        assert b"E" not in until_end(connection)[:1]
    with psycopg.connect(strict.url) as after:
        assert after.execute("SELECT 1").fetchone() == (1,)


def test_an_older_psql_goes_on_as_before(strict: Server) -> None:
    asked = f"host={strict.host} port={strict.port} user={strict.user} dbname={strict.database} sslmode=prefer"
    done = subprocess.run(
        [str(PSQL_18), asked, "-XAtc", "SELECT 'plain'"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "plain\n"
