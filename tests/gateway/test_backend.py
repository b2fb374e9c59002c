"""The session's connection to PostgreSQL, against a test server with rare behaviour."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from catalog.errors import SqlState
from catalog.postgres.embedded import PORT, SUPERUSER, EmbeddedPostgres
from gateway.backend.connection import Backend, BackendLostError
from gateway.backend.dsn import Address
from gateway.backend.own_statement import Statement
from gateway.wire.messages.backend import AuthenticationOk, BackendKeyData, ErrorResponse, ReadyForQuery

_PORT = 5432
_LAST_WORD = ErrorResponse((("S", "FATAL"), ("V", "FATAL"), ("C", "57P01"), ("M", "terminating"), ("W", "within")))


@pytest.mark.parametrize("sent", range(4))
async def test_why_the_connection_ends_is_heard_whatever_is_sent_after(tmp_path: Path, sent: int) -> None:
    """The error of sending to one that has gone comes before what it said is read."""
    connected, ended = asyncio.Event(), asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for message in (AuthenticationOk(), BackendKeyData(1, b"key!"), ReadyForQuery(b"I")):
            writer.write(message.encode())
        await connected.wait()
        writer.write(_LAST_WORD.encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        ended.set()

    async with await asyncio.start_unix_server(serve, tmp_path / f".s.PGSQL.{_PORT}"):
        backend = await Backend.connect(Address(str(tmp_path), _PORT), (("user", "u"),), None)
        connected.set()
        await ended.wait()
        for _ in range(sent):
            backend.send(b"X\0\0\0\4")
            await asyncio.sleep(0.01)
        with pytest.raises(BackendLostError) as caught:
            await backend.next()
        assert caught.value.sqlstate == SqlState.ADMIN_SHUTDOWN
        assert "W" not in caught.value.fields
        backend.close()


_LARGE = "SELECT n, repeat('x', 1000) FROM generate_series(1, 50000) AS n"


async def _connected(postgres: EmbeddedPostgres) -> Backend:
    parameters = (("user", SUPERUSER), ("database", "postgres"))
    return await Backend.connect(Address(str(postgres.socket_directory), PORT), parameters, None)


async def test_a_result_is_taken_in_parts(postgres: EmbeddedPostgres) -> None:
    backend, parts = await _connected(postgres), list[int]()

    async def take(bodies: list[bytes]) -> None:
        parts.append(len(bodies))

    large = Statement(_LARGE, bodies_only=True, take=take)
    rest, after = await backend.run(large, Statement("SELECT 'after'"))
    backend.close()
    assert max(parts) < 10_000
    assert sum(parts) + len(rest.bodies) == 50_000
    assert after.rows == [(b"after",)]


async def test_who_takes_a_part_may_fail(postgres: EmbeddedPostgres) -> None:
    """The rest of the answers is no answer to what is asked next."""
    backend = await _connected(postgres)

    async def take(_: list[bytes]) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        await backend.run(Statement(_LARGE, bodies_only=True, take=take), Statement("SELECT 'after'"))
    [result] = await backend.run(Statement("SELECT 'next'"))
    backend.close()
    assert result.rows == [(b"next",)]
