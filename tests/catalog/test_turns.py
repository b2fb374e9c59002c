"""Turns over several transactions: one session has each, as long as its backend lives."""

from __future__ import annotations

import asyncio
import time

import asyncpg
import pytest

from catalog.maintenance.compaction import Turn
from catalog.schema.changing_elements import ChangingElement
from catalog.schema.schema_changes import Origin, SchemaChange, undo_abandoned
from catalog.schema.states import Element, State
from gateway.backend.own_message import own
from tests.catalog.conftest import CatalogUnderTest

_ORDER = own("SELECT pg_sluice.order_changes($1::bigint::pg_catalog.oid)")
_UNFINISHED = "SELECT count(*) FROM pg_sluice.schema_change WHERE finished IS NULL"


async def _table(lake: CatalogUnderTest) -> int:
    await lake.client.execute("CREATE TABLE t (n integer)")
    relid: int = await lake.client.fetchval("SELECT 't'::pg_catalog.regclass::pg_catalog.oid::bigint")
    return relid


async def _begin(lake: CatalogUnderTest, relid: int) -> SchemaChange:
    check = ChangingElement(
        relid, 0, Element.CONSTRAINT, "c", None, "CONSTRAINT c CHECK (n > 0)", origin=State.ABSENT, state=State.ABSENT
    )
    return await SchemaChange.begin(lake.steps, Origin(relid, "ALTER …", "somebody", 1), [check])


async def test_of_many_that_ask_for_a_turn_one_has_it(lake: CatalogUnderTest) -> None:
    relid = await _table(lake)
    for _ in range(3):
        turns = await asyncio.gather(*(Turn.take(lake.url, relid) for _ in range(8)))
        [turn] = [turn for turn in turns if turn is not None]
        assert await Turn.take(lake.url, relid) is None
        await turn.close()
    # With its backend, it is over: another that has got the same number is another.
    lost = await Turn.take(lake.url, relid)
    assert lost is not None
    assert await lake.superuser.fetchval("SELECT pg_terminate_backend($1, 5000)", lost.backend.process_id)
    taken = await Turn.take(lake.url, relid)
    assert taken is not None
    await lost.close()
    assert await Turn.take(lake.url, relid) is None
    await lake.superuser.execute("UPDATE pg_sluice.compacting SET backend_started = backend_started - 1")
    again = await Turn.take(lake.url, relid)
    assert again is not None
    await taken.close()
    assert await Turn.take(lake.url, relid) is None
    await again.close()
    assert await lake.superuser.fetch("SELECT FROM pg_sluice.compacting") == []


async def test_a_change_is_waited_for_as_lock_timeout_says(lake: CatalogUnderTest) -> None:
    relid = await _table(lake)
    change = await _begin(lake, relid)
    await lake.client.execute("SET lock_timeout = '200ms'")
    begun = time.monotonic()
    with pytest.raises(asyncpg.LockNotAvailableError, match="canceling statement due to lock timeout"):
        await lake.client.fetchval(_ORDER, relid)
    assert time.monotonic() - begun < 5
    await lake.client.execute("SET lock_timeout = 0")
    waiting = asyncio.create_task(lake.client.fetchval(_ORDER, relid))
    other = asyncio.create_task(_begin(lake, relid))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    assert not other.done()
    await change.undo("enough")
    # Either may be the next. The client's turn ends with its statement, the other's with its change.
    await (await other).undo("enough")
    assert await waiting is False, "nothing was left behind"
    await asyncio.gather(change.close(), other.result().close())
    assert await lake.superuser.fetchval(_UNFINISHED) == 0


async def test_whoever_begins_waits_for_a_transaction_that_has_the_turn(lake: CatalogUnderTest) -> None:
    relid = await _table(lake)
    async with lake.client.transaction():
        await lake.client.execute(_ORDER, relid)
        other = asyncio.create_task(_begin(lake, relid))
        await asyncio.sleep(0.3)
        assert not other.done()
        assert await lake.superuser.fetchval(_UNFINISHED) == 0
    change = await other
    await change.undo("enough")
    await change.close()


async def test_two_that_wait_for_each_other_are_told(lake: CatalogUnderTest) -> None:
    relid = await _table(lake)
    change = await _begin(lake, relid)
    async with lake.client.transaction():
        await lake.client.execute("LOCK TABLE t")
        taking = asyncio.create_task(change.advance(change.elements[0], State.CHECK))
        with pytest.raises(asyncpg.DeadlockDetectedError):
            async with lake.client.transaction(), asyncio.timeout(20):
                await lake.client.execute(_ORDER, relid)
    await taking
    await change.undo("enough")
    await change.close()


async def test_what_a_transaction_has_seen_of_others_is_not_what_counts(lake: CatalogUnderTest) -> None:
    """PostgreSQL shows a transaction the same backends again and again."""
    relid = await _table(lake)
    async with lake.client.transaction():
        await lake.client.fetch("SELECT * FROM pg_stat_activity")
        change = await _begin(lake, relid)
        await lake.client.execute("SET LOCAL lock_timeout = '300ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            async with lake.client.transaction():
                await lake.client.execute(_ORDER, relid)
    await change.close()
    await undo_abandoned(lake.url)
    assert await lake.superuser.fetchval(_UNFINISHED) == 0


async def test_a_number_that_is_used_again_is_somebody_else(lake: CatalogUnderTest) -> None:
    relid = await _table(lake)
    change = await _begin(lake, relid)
    await lake.superuser.execute("UPDATE pg_sluice.schema_change SET worker_started = worker_started - 1")
    assert await lake.client.fetchval(_ORDER, relid) is True, "it was left behind"
    await asyncio.gather(*(undo_abandoned(lake.url) for _ in range(4)))
    assert await lake.superuser.fetchval("SELECT array_agg(error) FROM pg_sluice.schema_change") == ["the gateway died"]
    await change.close()


async def test_who_waits_for_a_change_to_begin_its_own_holds_no_transaction_open(lake: CatalogUnderTest) -> None:
    relid = await _table(lake)
    change = await _begin(lake, relid)
    other = asyncio.create_task(_begin(lake, relid))
    oldest = "SELECT max(age(backend_xmin)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    await asyncio.sleep(0.2)
    for _ in range(20):
        await lake.superuser.execute("SELECT pg_current_xact_id()")
    ages = [await lake.superuser.fetchval(oldest) or 0 for _ in range(20)]
    assert min(ages) < 20
    await change.undo("enough")
    await (await other).undo("enough")
    await asyncio.gather(change.close(), other.result().close())
