"""Before COMMIT a transaction waits for a table, but for no block that has given the table back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from catalog.model import DataFile
from catalog.publish import RowChange
from gateway.backend.own_message import own
from tests.catalog.conftest import CatalogUnderTest

_BLOCKED = "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'"


@pytest.fixture
async def block(lake: CatalogUnderTest) -> AsyncIterator[asyncpg.Connection]:
    """A transaction of another session, with a window."""
    connection = await asyncpg.connect(lake.url)
    await connection.execute("BEGIN; SELECT pg_current_xact_id(); SAVEPOINT w; SAVEPOINT within")
    yield connection
    await connection.close()


async def _table(lake: CatalogUnderTest, name: str = "t") -> int:
    await lake.client.execute(f"CREATE TABLE {name} (id integer)")
    oid: int = await lake.client.fetchval("SELECT $1::pg_catalog.text::pg_catalog.regclass::oid::bigint", name)
    return oid


async def _stage(lake: CatalogUnderTest, oid: int) -> None:
    change = RowChange(oid, data_files=[DataFile(f"{oid}.parquet", 3, 100, 50, {})])
    await lake.client.execute(own("SELECT pg_sluice.stage($1::pg_catalog.text::pg_catalog.jsonb)"), change.to_json())


async def _until_blocked(lake: CatalogUnderTest, waiting: asyncio.Task[str]) -> None:
    while not await lake.superuser.fetchval(_BLOCKED, lake.client.get_server_pid()):
        assert not waiting.done(), waiting.exception()
        await asyncio.sleep(0.01)


async def _published(lake: CatalogUnderTest, oid: int) -> int:
    query = "SELECT count(*) FROM pg_sluice.data_file f JOIN pg_sluice.relation r USING (table_id) WHERE r.relid = $1"
    count: int = await lake.superuser.fetchval(query, oid)
    return count


async def _asking(lake: CatalogUnderTest, oid: int, asked: str) -> str:
    """What a transaction asks before it commits, or its COMMIT."""
    if asked == "changed":
        return "COMMIT"
    if asked == "looked":
        return own(f"SELECT pg_sluice.hold_steps_since('{{}}', ARRAY[{oid}]::pg_catalog.oid[])")
    table = await lake.superuser.fetchval("SELECT table_id FROM pg_sluice.relation WHERE relid = $1", oid)
    return own(f"SELECT pg_sluice.hold_steps_since('{{\"{table}\": 0}}', '{{}}')")


@pytest.mark.parametrize("asked", ["changed", "looked", "read"])
@pytest.mark.parametrize("released", ["before", "meanwhile"])
async def test_a_window_that_was_undone_is_not_waited_for(
    lake: CatalogUnderTest, block: asyncpg.Connection, asked: str, released: str
) -> None:
    oid = await _table(lake)
    await lake.client.execute("BEGIN")
    if asked == "changed":
        await _stage(lake, oid)
    await block.execute(f"SELECT FROM pg_sluice.relation WHERE relid = {oid} FOR UPDATE")
    if released == "before":
        await block.execute("RELEASE within")
    waiting = asyncio.create_task(lake.client.execute(await _asking(lake, oid, asked)))
    await _until_blocked(lake, waiting)
    if released == "meanwhile":
        await block.execute("RELEASE within")
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await block.execute("ROLLBACK TO w")
    await asyncio.wait_for(waiting, 5)
    if asked == "changed":
        assert await _published(lake, oid) == 1
    else:
        assert await lake.client.fetchval("SHOW lock_timeout") == "0"


async def test_a_change_of_schema_does_not_wait_for_an_undone_window(
    lake: CatalogUnderTest, block: asyncpg.Connection
) -> None:
    oid = await _table(lake)
    await block.execute(f"SELECT FROM pg_sluice.changing WHERE relid = {oid} FOR UPDATE; RELEASE within")
    asked = own(f"SELECT pg_sluice.order_changes({oid}::pg_catalog.oid)")
    waiting = asyncio.create_task(lake.client.execute(asked))
    await _until_blocked(lake, waiting)
    await block.execute("ROLLBACK TO w")
    await asyncio.wait_for(waiting, 5)


async def test_who_holds_the_table_is_waited_for(lake: CatalogUnderTest, block: asyncpg.Connection) -> None:
    """Several attempts long, and in the end once."""
    oid = await _table(lake)
    await lake.client.execute("BEGIN")
    await _stage(lake, oid)
    await block.execute(f"SELECT FROM pg_sluice.relation WHERE relid = {oid} FOR UPDATE; RELEASE within")
    waiting = asyncio.create_task(lake.client.execute("COMMIT"))
    await asyncio.sleep(1)
    assert not waiting.done()
    assert await _published(lake, oid) == 0
    await block.execute("COMMIT")
    await asyncio.wait_for(waiting, 5)
    assert await _published(lake, oid) == 1


async def test_lock_timeout_is_the_sessions(lake: CatalogUnderTest, block: asyncpg.Connection) -> None:
    oid = await _table(lake)
    await lake.client.execute("SET lock_timeout = '400ms'")
    await lake.client.execute("BEGIN")
    await _stage(lake, oid)
    await block.execute(f"SELECT FROM pg_sluice.relation WHERE relid = {oid} FOR UPDATE")
    began = time.monotonic()
    with pytest.raises(asyncpg.LockNotAvailableError, match="canceling statement due to lock timeout"):
        await lake.client.execute("COMMIT")
    assert 0.4 <= time.monotonic() - began < 5


async def test_a_deadlock_is_found(lake: CatalogUnderTest, block: asyncpg.Connection) -> None:
    first, second = await _table(lake), await _table(lake, "u")
    await lake.client.execute("BEGIN")
    await _stage(lake, first)
    await _stage(lake, second)
    await block.execute(f"SELECT FROM pg_sluice.relation WHERE relid = {second} FOR UPDATE")
    committing = asyncio.create_task(lake.client.execute("COMMIT"))
    await _until_blocked(lake, committing)
    crossing = block.execute(f"SELECT FROM pg_sluice.relation WHERE relid = {first} FOR UPDATE")
    ended = await asyncio.wait_for(asyncio.gather(committing, crossing, return_exceptions=True), 20)
    assert [isinstance(each, asyncpg.DeadlockDetectedError) for each in ended].count(True) == 1


async def test_a_table_that_goes_meanwhile_is_not_missed(lake: CatalogUnderTest, block: asyncpg.Connection) -> None:
    oid = await _table(lake)
    reading = await _asking(lake, oid, "read")
    await block.execute(f"DELETE FROM pg_sluice.relation WHERE relid = {oid}; RELEASE within")
    waiting = asyncio.create_task(lake.client.execute(reading))
    await _until_blocked(lake, waiting)
    await block.execute("COMMIT")
    await asyncio.wait_for(waiting, 5)
