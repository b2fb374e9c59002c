"""The catalog, the core and the simulation's ledger decide alike: the same stories through all of them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import asyncpg
import pytest

from catalog.gateways import Gateways
from catalog.schema.clock import LOGICAL_BITS, HybridClock, duration
from catalog.schema.synchronisation import Replica, Settings, Update, Word
from tests.catalog.conftest import CatalogUnderTest
from tests.simulation.ledger import Ledger

_SETTINGS = Settings()
_BEGIN = 1_700_000_000_000_000
_NO_SUCH_TIME = "CREATE OR REPLACE FUNCTION pg_sluice.physical_time() RETURNS bigint LANGUAGE sql VOLATILE AS"


@dataclass
class Both:
    """PostgreSQL and the ledger, with one time for both, which is set."""

    catalog: asyncpg.Connection
    ledger: Ledger
    microseconds: int = _BEGIN
    snapshot: int = 1_000_000

    async def set_time(self, microseconds: int) -> None:
        self.microseconds = microseconds
        await self.catalog.execute(f"{_NO_SUCH_TIME} 'SELECT {microseconds << LOGICAL_BITS}::bigint'")

    async def told(self, number: int, heard: int, clock: int) -> Word:
        """The same word from both."""
        text = await self.catalog.fetchval("SELECT pg_sluice.report($1, $2, $3, 0)", number, heard, clock)
        told = json.loads(text)
        word = self.ledger.report(number, heard, clock)
        assert told["safe"] == word.safe
        assert told["unsettled"] == [update.version for update in self.ledger.unsettled()]
        peers = {each["number"]: (each["granted"], each["confirmed"]) for each in told["peers"]}
        assert peers == {p.number: (p.granted, p.confirmed) for p in self.ledger.peers.values() if p.granted}
        newest = {update.version: update for update in word.updates}
        for each in told["updates"]:
            ours = self.ledger.updates[each["version"]]
            assert (each["written"], each["made_active"], each["settled"]) == (
                ours.written,
                ours.made_active,
                ours.settled,
            )
            assert heard == 0 or each["version"] in newest
        return word

    async def write(self, table: int) -> bool:
        """What publish() does when it comes to that; whether there is no update of the table that is not settled."""
        version = len(self.ledger.updates) + 1
        self.snapshot += 1
        await self.catalog.execute(
            "INSERT INTO pg_sluice.schema_step (table_id, snapshot_id, kind, subject)"
            " VALUES ($1, $2, 'add column', 'c')",
            table,
            self.snapshot,
        )
        update = self.ledger.write(0, frozenset({table}))
        try:
            await self.catalog.execute("SELECT pg_sluice.write_update($1, $2)", self.snapshot, version)
        except asyncpg.SerializationError:
            assert update is None
            self.ledger.clock = HybridClock(lambda: self.microseconds)
            self.ledger.clock.hear(await self.catalog.fetchval("SELECT last FROM pg_sluice.clock"))
            return False
        assert update is not None
        return True


@pytest.fixture
async def both(lake: CatalogUnderTest) -> Both:
    checks = frozenset({"version", "activate", "settle", "adjacent"})
    ledger = Ledger(_SETTINGS, lambda: made.microseconds, checks=checks, settles_alone=True)
    made = Both(lake.superuser, ledger)
    await made.set_time(_BEGIN)
    return made


@pytest.mark.parametrize("seed", range(12))
async def test_the_catalog_decides_as_the_ledger(both: Both, seed: int) -> None:
    chance = random.Random(seed)
    heard: dict[int, int] = {}
    for _ in range(3):
        number = await both.catalog.fetchval("SELECT pg_sluice.register_gateway()")
        both.ledger.register(number)
        heard[number] = 0
        # There is another gateway from the beginning on: nobody is alone.
        heard[number] = (await both.told(number, 0, 0)).safe
    for _ in range(60):
        await both.set_time(both.microseconds + chance.choice((10, 1_000, 300_000, 2_500_000)))
        number = chance.choice(list(heard))
        what = chance.random()
        if what < 0.2:
            await both.write(chance.randrange(2))
        elif what < 0.7:
            skew = chance.randint(-200_000, 200_000)
            clock = (both.microseconds + skew) << LOGICAL_BITS
            word = await both.told(number, heard[number], clock)
            if chance.random() < 0.8:
                heard[number] = word.safe
    assert both.ledger.steps["activate"] + both.ledger.steps["settle"] > 0


async def test_one_gateway_alone_settles_at_once(lake: CatalogUnderTest) -> None:
    number = await lake.superuser.fetchval("SELECT pg_sluice.register_gateway()")
    await lake.superuser.fetchval("SELECT pg_sluice.report($1, 0, 0, 0)", number)
    await lake.superuser.execute("SELECT pg_sluice.enter($1, $2)", lake.client.get_server_pid(), number)
    await lake.client.execute("CREATE TABLE t (n integer)")
    await lake.client.execute("ALTER TABLE t ADD COLUMN m integer")
    rows = await lake.superuser.fetch("SELECT settled, made_active = written AS at_once FROM pg_sluice.schema_update")
    assert [tuple(row) for row in rows] == [(True, True)] * 2


async def test_the_next_version_waits_for_the_one_before(lake: CatalogUnderTest) -> None:
    """Another gateway has not confirmed the first: the second commit waits, and goes through when that is settled."""
    one, other = Gateways(lake.url, lambda _: None, _nothing), None
    await one.start()
    other = await lake.superuser.fetchval("SELECT pg_sluice.register_gateway()")
    await lake.superuser.fetchval("SELECT pg_sluice.report($1, 0, 0, 0)", other)
    await lake.client.execute("CREATE TABLE t (n integer)")
    before = await lake.superuser.fetchval("SELECT clock_timestamp()")
    await lake.client.execute("ALTER TABLE t ADD COLUMN m integer")
    waited = (await lake.superuser.fetchval("SELECT clock_timestamp()") - before).total_seconds()
    assert waited > one.settings.delay / 2, "the silent gateway's lease had not run out"
    updates = await lake.superuser.fetch("SELECT written, settled FROM pg_sluice.schema_update ORDER BY version")
    assert updates[0]["settled"]
    assert updates[1]["written"] - updates[0]["written"] > duration(one.settings.delay / 2)
    await one.close()


async def test_a_gateway_without_a_lease_publishes_nothing(lake: CatalogUnderTest) -> None:
    numbers = [await lake.superuser.fetchval("SELECT pg_sluice.register_gateway()") for _ in range(2)]
    await lake.superuser.execute("SELECT pg_sluice.enter($1, $2)", lake.client.get_server_pid(), numbers[0])
    await lake.superuser.fetchval("SELECT pg_sluice.report($1, 0, 0, 0)", numbers[1])
    with pytest.raises(asyncpg.SerializationError, match="had lost the catalog"):
        await lake.client.execute("CREATE TABLE t (n integer)")
    await lake.superuser.fetchval("SELECT pg_sluice.report($1, 0, 0, 0)", numbers[0])
    await lake.client.execute("CREATE TABLE t (n integer)")
    await lake.superuser.execute("UPDATE pg_sluice.gateway SET ended = now() WHERE gateway_id = $1", numbers[0])
    with pytest.raises(asyncpg.SerializationError, match="had lost the catalog"):
        await lake.client.execute("CREATE TABLE u (n integer)")


async def test_a_clock_that_is_far_ahead_is_refused(lake: CatalogUnderTest) -> None:
    """It would drag everybody's along."""
    number = await lake.superuser.fetchval("SELECT pg_sluice.register_gateway()")
    now = await lake.superuser.fetchval("SELECT pg_sluice.physical_time()")
    with pytest.raises(asyncpg.RaiseError, match="ahead of the catalog's"):
        await lake.superuser.fetchval("SELECT pg_sluice.report($1, 0, $2, 0)", number, now + duration(60))
    assert await lake.superuser.fetchval("SELECT last FROM pg_sluice.clock") < now + duration(30)


async def test_who_is_not_a_gateway_cannot_enter(lake: CatalogUnderTest) -> None:
    for call in (
        "report(1, 0, 0, 0)",
        "activate(1, 1)",
        "settle(1, 1)",
        "enter(pg_backend_pid(), 1)",
        "end_gateways()",
        "backend_started(1)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await lake.client.execute(f"SELECT pg_sluice.{call}")


async def _nothing(_: frozenset[int]) -> None:
    return


def test_words_in_any_order() -> None:
    """One that leaves a gap is not taken in; one that is late changes nothing; the clock hears all of them."""
    clock = HybridClock(lambda: 1_000)
    replica = Replica(_SETTINGS, clock)
    update = Update(1, frozenset({7}), written=50 << LOGICAL_BITS, made_active=60 << LOGICAL_BITS)
    assert replica.hear(Word(0, 1_000 << LOGICAL_BITS))
    assert not replica.hear(Word(2_000 << LOGICAL_BITS, 3_000 << LOGICAL_BITS, [update]))
    assert replica.safe == 1_000 << LOGICAL_BITS
    assert replica.version_at(clock.now(), 7) == 0
    assert clock.now() > 3_000 << LOGICAL_BITS
    assert replica.hear(Word(900 << LOGICAL_BITS, 3_500 << LOGICAL_BITS, [update]))
    assert not replica.hear(Word(0, 2_000 << LOGICAL_BITS))
    assert replica.version_at(clock.now(), 7) == 1


def test_settings_that_cannot_work_are_refused() -> None:
    for wrong in ({"heartbeat": 1.5}, {"clock_skew": 3.0}, {"heartbeat": 0.0}, {"delay": 0.0}):
        with pytest.raises(ValueError, match="must"):
            Settings(**wrong)
