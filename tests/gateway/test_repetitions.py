"""Repeated executions in a pipeline are written together, and answered as if executed one by one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import psycopg
import pytest

from tests.servers import GatewayProcess, Server

_MANY = 1000
_INSERT = "INSERT INTO batch VALUES ($1, $2)"


@pytest.fixture
def batch(target: Server, target_schema: str) -> str:
    """A table's name."""
    name = f"{target_schema}.batch"
    target.psql("-qc", f"CREATE TABLE {name} (id int PRIMARY KEY, v text CHECK (v <> 'bad'), n serial)")
    return name


@asynccontextmanager
async def _connected(server: Server, schema: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(server.url, server_settings={"search_path": schema})
    try:
        yield connection
    finally:
        await connection.close()


def _rows(count: int = _MANY) -> list[tuple[int, str]]:
    return [(number, f"row {number}") for number in range(count)]


def _summary(server: Server, table: str) -> tuple[object, ...] | None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        return connection.execute(f"SELECT count(*), sum(id), min(n), max(n) FROM {table}".encode()).fetchone()


def _order(server: Server, table: str) -> list[tuple[int, int]]:
    with psycopg.connect(server.url, autocommit=True) as connection:
        return connection.execute(f"SELECT id, n FROM {table}".encode()).fetchall()


async def test_a_batch_is_in_its_order(target: Server, target_schema: str, batch: str) -> None:
    async with _connected(target, target_schema) as connection:
        await connection.executemany(_INSERT, _rows())
        async with connection.transaction():
            await connection.executemany(_INSERT, [(number + _MANY, "later") for number in range(10)])
    assert _order(target, batch) == [(number, number + 1) for number in range(_MANY + 10)]


async def test_a_batch_is_few_files(gateway_process: GatewayProcess, schema: str) -> None:
    server = gateway_process.server
    server.psql("-qc", f"CREATE TABLE {schema}.batch (id int PRIMARY KEY, v text)")
    async with _connected(server, schema) as connection:
        await connection.executemany(_INSERT, _rows())
    assert 0 < len(list((gateway_process.data_dir / "lake" / schema).rglob("*.parquet"))) < 20


@pytest.mark.turns
@pytest.mark.parametrize("bad", [(500, "again"), (5000, "bad")])
async def test_one_that_fails_undoes_the_batch(
    target: Server, target_schema: str, batch: str, bad: tuple[int, str]
) -> None:
    rows = _rows()
    async with _connected(target, target_schema) as connection:
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await connection.executemany(_INSERT, [*rows[:700], bad, *rows[700:]])
        assert await connection.fetchval("SELECT count(*) FROM batch") == 0
        async with connection.transaction():
            await connection.execute("INSERT INTO batch VALUES (-1, 'stays')")
            with pytest.raises(asyncpg.IntegrityConstraintViolationError):
                async with connection.transaction():
                    await connection.executemany(_INSERT, [*rows[:20], bad, (19, "again")])
            await connection.executemany(_INSERT, rows[:3])
    count, total, *_ = _summary(target, batch) or ()
    assert (count, total) == (4, 2)


def test_rows_come_back_from_a_batch(target: Server, batch: str) -> None:
    with psycopg.connect(target.url) as connection, connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {batch} (id, v) VALUES (%s, %s) RETURNING id, n".encode(), _rows(200), returning=True
        )
        found = [cursor.fetchone()]
        while cursor.nextset():
            found.append(cursor.fetchone())
    assert found == [(number, number + 1) for number in range(200)]


def test_a_row_may_refer_to_one_before_it_alone(target: Server, target_schema: str) -> None:
    name = f"{target_schema}.tree"
    target.psql("-qc", f"CREATE TABLE {name} (id int PRIMARY KEY, above int REFERENCES {name})")
    insert = f"INSERT INTO {name} VALUES (%s, %s)".encode()
    with psycopg.connect(target.url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.executemany(insert, [(1, None), (2, 1), (3, 2), (4, 4), (5, 4), (6, 5), (7, 1)])
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            cursor.executemany(insert, [(11, 1), (12, 1), (13, 1), (14, 1), (15, 1), (16, 1), (17, 18), (18, 1)])
        found = connection.execute(f"SELECT count(*) FROM {name}".encode()).fetchone()
    assert found == (7,)


async def test_a_batch_waits_for_a_key_of_another(target: Server, target_schema: str, batch: str) -> None:
    """As a single INSERT does: for whom it waits is gone, and so is the wait."""
    async with _connected(target, target_schema) as one, _connected(target, target_schema) as other:
        held = one.transaction()
        await held.start()
        await one.execute("INSERT INTO batch VALUES (7, 'held')")
        await other.execute("SET statement_timeout = '300ms'")
        with pytest.raises(asyncpg.QueryCanceledError):
            await other.executemany(_INSERT, _rows(10))
        await other.execute("RESET statement_timeout")
        await held.rollback()
        await other.executemany(_INSERT, _rows(10))
    assert (_summary(target, batch) or ())[:2] == (10, 45)


@pytest.mark.turns
@pytest.mark.parametrize("way", ["pg_cancel_backend", "lock_timeout", "statement_timeout"])
async def test_a_batch_that_is_ended_while_it_waits_is_not_begun_again(
    target: Server, target_schema: str, batch: str, way: str
) -> None:
    async with _connected(target, target_schema) as one, _connected(target, target_schema) as other:
        held = one.transaction()
        await held.start()
        await one.execute("INSERT INTO batch VALUES (7, 'held')")
        if way != "pg_cancel_backend":
            await other.execute(f"SET {way} = '1s'")
        begin = time.monotonic()
        writing = asyncio.create_task(other.executemany(_INSERT, _rows(200)))
        if way == "pg_cancel_backend":
            await asyncio.sleep(1)
            await one.execute("SELECT pg_cancel_backend($1)", other.get_server_pid())
        error = asyncpg.LockNotAvailableError if way == "lock_timeout" else asyncpg.QueryCanceledError
        with pytest.raises(error):
            await asyncio.wait_for(writing, 20)
        assert time.monotonic() - begin < 5
        await held.rollback()
        assert await one.fetchval("SELECT count(*) FROM batch") == 0
