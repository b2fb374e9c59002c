"""No client message makes the event loop stand still.

The loop itself is measured (`tests.monitored`), because the machine may be busy. Each kind of message once made it
stand still for a quarter of a second at least.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.conftest import Watcher
from tests.monitored import PROGRAM, Monitored
from tests.servers import GatewayProcess, Server, free_port, open_directory

_HELD_SECONDS_MAX = 0.2
_ATTEMPTS = 3
_SECONDS_MAX = 300.0
_MEGABYTES_64 = 2**26


@pytest.fixture(scope="module")
def monitored() -> Monitored:
    return Monitored(free_port())


@pytest.fixture(scope="module")
def server(monitored: Monitored) -> Iterator[Server]:
    """Of a gateway of this module's own, with a monitor in it."""
    with (
        open_directory("loop") as directory,
        GatewayProcess(directory / "data", program=PROGRAM, environment=monitored.environment) as process,
    ):
        process.server.psql("-qc", "CREATE TABLE looked (id int, v text); INSERT INTO looked VALUES (1, 'a'), (2, 'b')")
        columns = ", ".join(f"c{number} int" for number in range(1_600))
        process.server.psql(
            "-qc", f"CREATE TABLE wide ({columns})", "-c", "INSERT INTO wide (c0) SELECT generate_series(1, 2000)"
        )
        yield process.server


def message(kind: bytes, body: bytes = b"") -> bytes:
    """One of the protocol's messages."""
    return kind + struct.pack("!I", len(body) + 4) + body


def query(sql: str) -> bytes:
    """A simple query."""
    return message(b"Q", sql.encode() + b"\0")


def parse(sql: str, name: str = "") -> bytes:
    """Parse, without types of parameters."""
    return message(b"P", name.encode() + b"\0" + sql.encode() + b"\0\0\0")


SYNC = message(b"S")
_BIND_AND_EXECUTE = message(b"B", b"\0s" + bytes(7)) + message(b"E", bytes(5))
# Each, and the kinds of the messages that answer it, with their number.
KINDS: dict[str, tuple[list[bytes], dict[str, int]]] = {
    "a literal": ([query(f"SELECT length('{'x' * _MEGABYTES_64}')")], {"T": 1, "D": 1, "C": 1}),
    "a comment": ([query(f"/*{'x' * _MEGABYTES_64}*/ SELECT 1")], {"T": 1, "D": 1, "C": 1}),
    "empty comments": ([query("--\n" * 2**21 + "SELECT 1")], {"T": 1, "D": 1, "C": 1}),
    "Flush": ([message(b"H") * 500_000, SYNC], {}),
    "Execute": (
        [parse("SELECT 1", "s"), _BIND_AND_EXECUTE * 20_000, SYNC],
        {"1": 1, "2": 20_000, "D": 20_000, "C": 20_000},
    ),
    "prepared statements": ([*(parse("SELECT 1", f"s{number}") for number in range(20_000)), SYNC], {"1": 20_000}),
    "messages after an error": ([parse("SELECT missing"), message(b"B", bytes(8)) * 200_000, SYNC], {"E": 1}),
    "arguments of EXECUTE": (
        [
            query("PREPARE looked AS SELECT id FROM looked WHERE id = ANY ($1)"),
            query(f"EXECUTE looked (ARRAY[{','.join(map(str, range(60_000)))}])"),
        ],
        {"C": 2, "T": 1, "D": 2},
    ),
    "the body of DO": ([query(f"DO $$ BEGIN /*{'x' * 2**24}*/ PERFORM 1; END $$")], {"C": 1}),
    "the body of a function": (
        [
            query(f"CREATE FUNCTION large() RETURNS integer LANGUAGE sql AS $$ /*{'a b ' * 2**21}*/ SELECT 1 $$"),
            query("SELECT large()"),
            query("DROP FUNCTION large()"),
        ],
        {"C": 3, "T": 1, "D": 1},
    ),
    "the query of a view": (
        [query(f"CREATE VIEW large AS SELECT id FROM looked WHERE v <> '{'x' * 2**22}'"), query("DROP VIEW large")],
        {"C": 2},
    ),
    "a default": (
        [query(f"CREATE TABLE large (v text DEFAULT '{'x' * 2**21}')"), query("DROP TABLE large")],
        {"C": 2},
    ),
    "a value of Bind": (
        [
            parse("SELECT id FROM looked WHERE length($1) = id", "s"),
            message(b"B", b"\0s\0\0\0\0\1" + struct.pack("!i", 2**25) + b"x" * 2**25 + b"\0\0")
            + message(b"E", bytes(5)),
            SYNC,
        ],
        {"1": 1, "2": 1, "C": 1},
    ),
    "wide rows": ([query("SELECT * FROM wide")], {"T": 1, "D": 2_000, "C": 1}),
    "many clauses of ALTER TABLE": (
        [query(f"ALTER TABLE looked {','.join(f'ALTER v SET DEFAULT {number}' for number in range(2_000))}")],
        {"C": 1},
    ),
    "EXPLAIN of a long list": (
        [query(f"EXPLAIN SELECT FROM pg_class WHERE oid IN ({','.join(map(str, range(200_000)))})")],
        {"C": 1, "T": 1, "D": 2},
    ),
    "many parameters": (
        [
            parse(f"SELECT id FROM looked WHERE id IN ({','.join(f'${number}' for number in range(1, 60_001))})", "s"),
            message(
                b"B",
                b"\0s\0\0\0"
                + struct.pack("!H", 60_000)
                + b"".join(struct.pack("!i", len(value)) + value for value in (b"%d" % each for each in range(60_000)))
                + b"\0\0",
            )
            + message(b"E", bytes(5)),
            SYNC,
        ],
        {"1": 1, "2": 1, "D": 2, "C": 1},
    ),
    "a wide value of Spark's": (
        [query("SET sluice.engine = spark"), query("SELECT repeat(v, 50000000) FROM looked WHERE id = 1")],
        {"C": 2, "T": 1, "D": 1},
    ),
    "an error": (
        [query("DO $$ BEGIN RAISE '%', repeat('x', 67108864); END $$")],
        {"E": 1},
    ),
}  # fmt: skip
# Where the loop stood still for less than the limit: less than that time.
_SECONDS_MAX_OF = {
    "EXPLAIN of a long list": 0.15,
    "many parameters": 0.05,
    "many clauses of ALTER TABLE": 0.05,
    "a wide value of Spark's": 0.1,
}


class Client:
    """Sends whatever it is told to, and counts what comes back."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection((server.host, server.port), timeout=_SECONDS_MAX)
        body = f"user\0{server.user}\0database\0{server.database}\0\0".encode()
        self._socket.sendall(struct.pack("!II", len(body) + 8, 196608) + body)
        self._came = self._socket.makefile("rb")
        self._answers(1)

    def ask(self, parts: list[bytes]) -> dict[str, int]:
        """The kinds of all messages up to the last ReadyForQuery, and how many of each came."""
        ends = sum(part[:1] in {b"Q", b"S"} for part in parts)
        sending = threading.Thread(target=self._send, args=(parts,))
        sending.start()
        came = self._answers(ends)
        sending.join()
        return came

    def _send(self, parts: list[bytes]) -> None:
        for part in parts:
            self._socket.sendall(part)

    def _answers(self, ends: int) -> dict[str, int]:
        came: dict[str, int] = {}
        while ends:
            head = self._came.read(5)
            assert len(head) == 5, "the connection has ended"
            kind, length = head[:1].decode(), int.from_bytes(head[1:])
            self._came.read(length - 4)
            if kind == "Z":
                ends -= 1
            elif kind not in "RSKN":
                came[kind] = came.get(kind, 0) + 1
        return came

    def close(self) -> None:
        self._came.close()
        self._socket.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_loop_does_not_stand_still(server: Server, monitored: Monitored, kind: str) -> None:
    parts, expected = KINDS[kind]
    seen = []
    for _ in range(_ATTEMPTS):
        client, watcher = Client(server), Watcher(server)
        try:
            with monitored.watching() as found:
                assert client.ask(parts) == expected
        finally:
            client.close()
            watcher.stop()
        seen.append(found)
        if found.held < _SECONDS_MAX_OF.get(kind, _HELD_SECONDS_MAX):
            return
    pytest.fail(f"the loop stood still: {seen}")
