"""Lockable rows that stand for rows of the lake: inserted, locked, removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from catalog.store import Store
from gateway.backend.own_message import own
from tests.catalog.conftest import CatalogUnderTest

_LOCK = own("SELECT pg_sluice.lock_rows($1::pg_catalog.text::pg_catalog.regclass, $2, $3, $4, $5)")
_MOVE = own("SELECT pg_sluice.move_row_locks($1, $2, $3, $4)")
_MOVED = own("SELECT pg_sluice.moved_rows($1, $2)")
_LOCK_ALL = own("SELECT pg_sluice.lock_all_rows('t'::pg_catalog.regclass, $1)")
_LOCK_TABLE = own(
    "SELECT pg_sluice.lock_tables(ARRAY['t'::pg_catalog.regclass::pg_catalog.oid], 'ACCESS SHARE', false)"
)


@pytest.fixture
async def store(lake: CatalogUnderTest) -> AsyncIterator[Store]:
    """The gateway's own way to the catalog, with a table `t` in it."""
    await lake.client.execute("CREATE TABLE t (n integer)")
    store = Store(lake.url)
    await store.open()
    yield store
    await store.close()


async def _lock(
    lake: CatalogUnderTest, connection: asyncpg.Connection, positions: list[int], strength: str, waiting: str = ""
) -> list[int] | None:
    files = [7] * len(positions)
    found: list[int] | None = await connection.fetchval(_LOCK, "t", files, positions, strength, waiting)
    return found


async def test_what_is_not_there_must_be_put_first(lake: CatalogUnderTest, store: Store) -> None:
    assert await _lock(lake, lake.client, [1, 2], "UPDATE") is None
    await store.row_locks.put([7], [1])
    assert await _lock(lake, lake.client, [1, 2], "UPDATE") is None
    assert await _lock(lake, lake.client, [1, 2], "UPDATE", "SKIP LOCKED") is None
    await store.row_locks.put([7, 7, 7], [1, 2, 2])
    assert sorted(await _lock(lake, lake.client, [2, 1], "UPDATE") or []) == [1, 2]


async def test_skipping_and_failing(lake: CatalogUnderTest, store: Store) -> None:
    await store.row_locks.put([7, 7, 7], [1, 2, 3])
    other = await lake.entered()
    try:
        async with lake.client.transaction():
            assert await _lock(lake, lake.client, [2], "SHARE") == [1]
            assert await _lock(lake, other, [3, 2, 1], "SHARE") == [3, 2, 1]
            assert await _lock(lake, other, [3, 2, 1], "NO KEY UPDATE", "SKIP LOCKED") == [3, 1]
            with pytest.raises(asyncpg.LockNotAvailableError):
                await _lock(lake, other, [2], "UPDATE", "NOWAIT")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await other.fetchval(_LOCK_ALL, "NOWAIT")
            assert await other.fetchval(_LOCK_ALL, "SKIP LOCKED") is False
        async with other.transaction():
            assert await other.fetchval(_LOCK_ALL, "") is True
            assert await _lock(lake, lake.client, [1], "KEY SHARE", "SKIP LOCKED") == []
    finally:
        await other.close()


async def test_the_sweep_spares_what_is_locked(lake: CatalogUnderTest, store: Store) -> None:
    await store.row_locks.put([7, 7], [1, 2])
    async with lake.client.transaction():
        await _lock(lake, lake.client, [1], "KEY SHARE")
        assert await store.row_locks.sweep() is False
        assert await lake.superuser.fetchval("SELECT position FROM pg_sluice.row_lock") == 1
    assert await store.row_locks.sweep() is True


async def test_who_waited_for_a_row_that_was_swept_away_is_told(lake: CatalogUnderTest, store: Store) -> None:
    await store.row_locks.put([7], [1])
    transaction = lake.superuser.transaction()
    await transaction.start()
    await lake.superuser.execute("DELETE FROM pg_sluice.row_lock")
    waiting = asyncio.create_task(_lock(lake, lake.client, [1], "UPDATE"))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await transaction.commit()
    assert await waiting is None


async def test_who_holds_a_row_holds_what_comes_in_its_place(lake: CatalogUnderTest, store: Store) -> None:
    await store.row_locks.put([7, 7], [1, 2])
    other, third = await lake.entered(), await lake.entered()
    try:
        holding, changing = other.transaction(), lake.client.transaction()
        await holding.start()
        assert await _lock(lake, other, [1], "KEY SHARE") == [1]
        await changing.start()
        assert await _lock(lake, lake.client, [1, 2], "NO KEY UPDATE") == [1, 2]
        await lake.client.fetchval(_MOVE, [7, 7, 7], [1, 2, 3], [7, 7, 7], [11, 12, 13])
        # The old places are there for the others until the change is committed, and nobody waits to put them there.
        await store.row_locks.put([7, 7, 7], [1, 2, 3])
        assert await _lock(lake, other, [2], "KEY SHARE") == [1]
        assert await _lock(lake, third, [1, 2, 3], "SHARE", "SKIP LOCKED") == [3]
        assert await _lock(lake, lake.client, [12], "UPDATE", "SKIP LOCKED") == []
        await changing.commit()
        assert await _lock(lake, third, [11, 12], "NO KEY UPDATE") == [1, 2]
        with pytest.raises(asyncpg.LockNotAvailableError):
            await _lock(lake, third, [11], "UPDATE", "NOWAIT")
        assert await store.row_locks.sweep() is False
        await holding.rollback()
        assert await _lock(lake, third, [11, 12], "UPDATE") == [1, 2]
    finally:
        await other.close()
        await third.close()


async def test_the_way_of_a_row_is_known_as_long_as_somebody_may_ask(lake: CatalogUnderTest, store: Store) -> None:
    other = await lake.entered()
    try:
        async with lake.client.transaction():
            await lake.client.fetchval("SELECT 1")
            await other.fetchval(_MOVE, [7, 7], [1, 2], [8, 8], [11, 12])
            await other.fetchval(_MOVE, [8], [12], [9], [0])
            for _ in range(3):
                assert await store.row_locks.sweep() is False
                assert await lake.client.fetchval(_MOVED, [7, 7, 7], [2, 1, 3]) == [9, 8, 7, 0, 11, 3]
        await store.row_locks.sweep()
        assert await store.row_locks.sweep() is True
        assert await lake.client.fetchval(_MOVED, [7], [1]) == [7, 1]
    finally:
        await other.close()


async def test_locks_of_dropped_tables_go_when_nobody_uses_them(lake: CatalogUnderTest, store: Store) -> None:
    left = "SELECT count(*) FROM pg_class WHERE relname LIKE 'table\\_lock\\_%'"
    other = await lake.entered()
    try:
        await lake.client.execute("CREATE TABLE u (n integer)")
        async with other.transaction():
            await other.fetchval(_LOCK_TABLE)
            await lake.client.execute("DROP TABLE t")
            assert await lake.superuser.fetchval(left) == 2
        await lake.client.execute("DROP TABLE u")
        assert await lake.superuser.fetchval(left) == 0
    finally:
        await other.close()
