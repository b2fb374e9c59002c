"""A client that is cut off without a message, at any point: its transaction, locks and files are removed."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
import pytest

from gateway.wire.messages.backend import DataRow
from gateway.wire.messages.copy import CopyData, CopyInResponse
from gateway.wire.messages.frontend import Bind, Execute, Flush, Parse, Query
from gateway.wire.messages.layout import Message
from tests.gateway.orphans import orphans
from tests.gateway.wire import Wire
from tests.servers import GatewayProcess, Server

_SECONDS_MAX = 60.0
# Some seconds' work: as PostgreSQL by itself, the gateway notices when it has something to say.
_SLOW = "(SELECT count(*) FROM many a, many b WHERE a.n % 7 <> b.n % 11 AND a.n < 250)"


@pytest.fixture(scope="module")
def tables(gateway: Server) -> Iterator[str]:
    """A schema with rows to change, and so many that their square takes long."""
    name = "vanished"
    gateway.psql("-qc", f"CREATE SCHEMA {name}")
    gateway.psql("-qc", f"CREATE TABLE {name}.kept (n integer PRIMARY KEY, t text)")
    gateway.psql("-qc", f"INSERT INTO {name}.kept VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    gateway.psql("-qc", f"CREATE TABLE {name}.many AS SELECT n FROM generate_series(1, 200000) n")
    yield name
    gateway.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {name} CASCADE")


@dataclass(frozen=True)
class Case:
    """What the client has done in its block, `until` an answer of this kind, and what it sends then and hears nothing
    of."""

    done: tuple[str, ...] = ()
    last: tuple[Message, ...] = ()
    until: type[Message] | None = None
    more: tuple[Message, ...] = ()


_WRITES = (
    "BEGIN",
    "INSERT INTO kept SELECT g, 'new' FROM generate_series(10, 20) g",
    "UPDATE kept SET t = 'changed' WHERE n = 2",
    "DELETE FROM kept WHERE n = 1",
    "CREATE TABLE made AS SELECT * FROM kept",
)
_CASES = {
    "idle in a block": Case(_WRITES),
    "idle in a failed block": Case((*_WRITES, "SELECT 1 / 0")),
    "a query in Spark": Case(_WRITES, (Query(f"SELECT {_SLOW}"),)),
    "a change in Spark": Case(_WRITES, (Query(f"UPDATE kept SET t = 'x' WHERE n < {_SLOW}"),)),
    "a COPY": Case(_WRITES, (Query("COPY kept FROM STDIN"),), CopyInResponse, (CopyData(b"30\tthirty\n31\tthirty-"),)),
    "a pipeline without its Sync": Case(
        (), (Parse("", "INSERT INTO kept VALUES (40, 'forty')"), Bind("", ""), Execute(""), Flush())
    ),
    "a wait for a row": Case(_WRITES, (Query("UPDATE kept SET t = 'x' WHERE n = 3"),)),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", _CASES)
def test_nothing_stays(gateway_process: GatewayProcess, gateway: Server, tables: str, name: str) -> None:
    case = _CASES[name]
    options = f"-c search_path={tables}"
    with psycopg.connect(gateway.url, autocommit=True, options=options) as other:
        holds = name == "a wait for a row"
        if holds:
            other.execute("BEGIN")
            other.execute("SELECT n FROM kept WHERE n = 3 FOR UPDATE")
        client = Wire(gateway, options=options)
        [number] = [
            message.values[0] for message in client.query("SELECT pg_backend_pid()") if isinstance(message, DataRow)
        ]
        for sql in case.done:
            client.query(sql)
        client.send(*case.last)
        if case.until is not None:
            client.read_until(case.until)
        client.send(*case.more)
        time.sleep(0.7)
        _cut_off(client)
        time.sleep(0.5)
        if holds:
            other.execute("ROLLBACK")
        other.execute(f"SET lock_timeout = '{_SECONDS_MAX:.0f}s'")
        rows = other.execute("SELECT n, t FROM kept ORDER BY n FOR UPDATE").fetchall()
        assert rows == [(1, "a"), (2, "b"), (3, "c")]
        other.execute("INSERT INTO kept VALUES (10, 'ten')")
        other.execute("DELETE FROM kept WHERE n = 10")
        assert other.execute("SELECT to_regclass('made')").fetchone() == (None,)
        left = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {(number or b'').decode()}"
        _wait_until(lambda: other.execute(left.encode()).fetchone() == (0,))
    _wait_until(lambda: not orphans(gateway_process, tables))


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _cut_off(client: Wire) -> None:
    """Close the connection by a reset: no Terminate, and none of what is on its way arrives."""
    client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client._socket.close()
