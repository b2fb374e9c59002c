"""A stranger before login: the gateway reads little, and does not wait."""

from __future__ import annotations

import signal
import socket
import ssl
import struct
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from gateway.wire.messages import startup
from gateway.wire.messages.frontend import Query, SASLInitialResponse, SASLResponse, Terminate
from tests.security.conftest import (
    AUTHENTICATION_SECONDS,
    MAX_CONNECTIONS,
    PROMPT_SECONDS_MAX,
    asked_for_proof,
    connected,
    error_in,
    hello,
    until_end,
)
from tests.servers import GatewayProcess, Server

_MEGABYTE = 1 << 20


def _resident_megabytes(process: GatewayProcess) -> int:
    lines = Path(f"/proc/{process.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


def _pour(connection: socket.socket, megabytes: int) -> None:
    """Send as much as is taken."""
    try:
        for _ in range(megabytes):
            connection.sendall(b"x" * _MEGABYTE)
    except OSError:
        return


@pytest.mark.parametrize(
    "packet",
    [
        *(struct.pack("!I", length) for length in (0, 7, 10_005, 900_000_000, 2**32 - 1)),
        Terminate().encode(),
        struct.pack("!II", 8, startup.CancelRequest.code),
        struct.pack("!III", 12, startup.CancelRequest.code, 1),
        struct.pack("!III", 300, startup.CancelRequest.code, 1) + b"k" * 288,
    ],
)
def test_a_startup_packet_that_postgresql_would_not_read(strict: Server, oracle: Server, packet: bytes) -> None:
    for server in (oracle, strict):
        with connected(server) as connection:
            connection.sendall(packet)
            assert until_end(connection) == b"", server.name


def test_the_longest_startup_packet_that_postgresql_reads(strict: Server, oracle: Server) -> None:
    for server in (oracle, strict):
        named = hello(server)[8:-1] + b"options\0"
        padding = b" " * (10_004 - 8 - len(named) - 2)
        with connected(server) as connection:
            connection.sendall(struct.pack("!II", 10_004, startup.PROTOCOL_3_0) + named + padding + b"\0\0")
            assert connection.recv(9) == b"R\0\0\0\x08\0\0\0\0"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (Query("SELECT 1").encode(), "expected SASL response, got message type 81"),
        (b"Q" + struct.pack("!I", 900_000_000), "expected SASL response, got message type 81"),
        (b"B", "expected SASL response, got message type 66"),
        (b"\xff", "expected SASL response, got message type 255"),
        (b"p" + struct.pack("!I", 1025), "invalid message length"),
        (b"p" + struct.pack("!I", 65_535), "invalid message length"),
        (b"p" + struct.pack("!I", 3), "invalid message length"),
    ],
)
def test_another_message_than_is_due(proving: Server, sent: bytes, message: str) -> None:
    with asked_for_proof(proving) as connection:
        connection.sendall(sent)
        assert error_in(until_end(connection)) == ("08P01", message)


def test_another_message_than_is_due_in_the_second_step(proving: Server) -> None:
    first = SASLInitialResponse("SCRAM-SHA-256", b"n,,n=,r=abcdefghijklmnop").encode()
    for second, message in (
        (SASLResponse(b"x" * 1021).encode(), "invalid message length"),
        (Query("SELECT 1").encode(), "expected SASL response, got message type 81"),
    ):
        with asked_for_proof(proving) as connection:
            connection.sendall(first)
            assert connection.recv(1000)[:1] == b"R"
            connection.sendall(second)
            assert error_in(until_end(connection)) == ("08P01", message)


@pytest.mark.parametrize("letter", [b"Q", b"p"])
def test_what_strangers_pour_in_is_not_kept(strict_process: GatewayProcess, proving: Server, letter: bytes) -> None:
    """As many as may be there at once, 50 MB each."""
    before = _resident_megabytes(strict_process)
    most = before
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            connection = stack.enter_context(asked_for_proof(proving))
            connection.sendall(letter + struct.pack("!I", 900_000_000))
            _pour(connection, 50)
            most = max(most, _resident_megabytes(strict_process))
    assert most - before < 20


def test_half_a_message_holds_little(strict_process: GatewayProcess, proving: Server) -> None:
    """Nothing is wrong with what came so far, and it is all that there may be: the rest never comes."""
    before = _resident_megabytes(strict_process)
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS // 2):
            connection = stack.enter_context(connected(proving))
            connection.sendall(struct.pack("!II", 10_004, startup.PROTOCOL_3_0) + b"x" * 9_000)
            connection = stack.enter_context(asked_for_proof(proving))
            connection.sendall(b"p" + struct.pack("!I", 1024) + b"x" * 1_000)
        assert _resident_megabytes(strict_process) - before < 5


def _client_hello() -> bytes:
    """How TLS begins."""
    outgoing = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def _nothing(server: Server) -> socket.socket:
    return connected(server)


def _half_a_startup_packet(server: Server) -> socket.socket:
    connection = connected(server)
    connection.sendall(hello(server)[:10])
    return connection


def _no_handshake(server: Server) -> socket.socket:
    connection = connected(server)
    connection.sendall(startup.SSLRequest().encode())
    assert connection.recv(1) == b"S"
    return connection


def _half_a_handshake(server: Server) -> socket.socket:
    connection = _no_handshake(server)
    connection.sendall(_client_hello()[:20])
    return connection


def _half_a_direct_handshake(server: Server) -> socket.socket:
    connection = connected(server)
    connection.sendall(_client_hello()[:20])
    return connection


def _a_handshake_without_an_end(server: Server) -> socket.socket:
    connection = _no_handshake(server)
    connection.sendall(_client_hello())
    assert connection.recv(5)[:1] == b"\x16"
    return connection


def _nothing_within_tls(server: Server) -> socket.socket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(_no_handshake(server), suppress_ragged_eofs=True)


def _half_a_proof(server: Server) -> socket.socket:
    connection = asked_for_proof(server)
    connection.sendall(SASLInitialResponse("SCRAM-SHA-256", b"n,,n=,r=abcdefghijklmnop").encode())
    assert connection.recv(1000)[:1] == b"R"
    return connection


_ENDLESS = (
    _nothing,
    _half_a_startup_packet,
    _no_handshake,
    _half_a_handshake,
    _half_a_direct_handshake,
    _a_handshake_without_an_end,
    _nothing_within_tls,
    asked_for_proof,
    _half_a_proof,
)


def test_who_does_not_go_on_is_not_waited_for(proving: Server) -> None:
    """Wherever the login stops: the connection is ended in time, and without a word, as PostgreSQL ends it."""
    begin = time.monotonic()
    with ExitStack() as stack:
        waiting = {stop.__name__: stack.enter_context(stop(proving)) for stop in _ENDLESS}
        said = {}
        for name, connection in waiting.items():
            connection.settimeout(AUTHENTICATION_SECONDS + PROMPT_SECONDS_MAX)
            while connection.recv(65536):  # of the handshake
                pass
            said[name] = time.monotonic() - begin
    assert set(said) == {stop.__name__ for stop in _ENDLESS}
    assert min(said.values()) > AUTHENTICATION_SECONDS - 1
    assert max(said.values()) < AUTHENTICATION_SECONDS + 2 * PROMPT_SECONDS_MAX


def test_who_sends_a_byte_now_and_then_is_not_waited_for_longer(proving: Server) -> None:
    begin = time.monotonic()
    with connected(proving) as connection:
        connection.settimeout(0.2)
        for byte in hello(proving):
            try:
                connection.sendall(bytes([byte]))
                assert connection.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                pass
            break
        else:
            pytest.fail("every byte was waited for")
    assert time.monotonic() - begin < AUTHENTICATION_SECONDS + 2 * PROMPT_SECONDS_MAX


def test_who_is_gone_before_he_is_met_is_nobodys_error(strict_process: GatewayProcess, strict: Server) -> None:
    """His socket tells no address any more, which was no reason to trust him, but one to write to the log."""
    process = strict_process.process
    process.send_signal(signal.SIGSTOP)
    try:
        for farewell in (b"", hello(strict), hello(strict) + Query("SELECT 1").encode(), startup.SSLRequest().encode()):
            with connected(strict) as connection:
                connection.sendall(farewell)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    finally:
        process.send_signal(signal.SIGCONT)
    with psycopg.connect(strict.url) as after:
        assert after.execute("SELECT 1").fetchone() == (1,)
    assert "a connection failed" not in strict_process.output


def test_who_has_logged_in_has_all_the_time(proving: Server) -> None:
    with psycopg.connect(proving.url, password="secret") as connection:
        time.sleep(AUTHENTICATION_SECONDS + 1)
        assert connection.execute("SELECT 1").fetchone() == (1,)
