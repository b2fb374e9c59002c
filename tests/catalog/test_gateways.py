"""Dead gateways are told from living ones, and publish nothing any more."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from catalog.gateways import Gateways
from catalog.model import DataFile
from catalog.publish import RowChange
from gateway.backend.own_message import own
from tests.catalog.conftest import CatalogUnderTest

_UUID = "01890000-0000-7000-8000-000000000000"


class Registered:
    """A gateway, with the numbers that it got and those that it was told of."""

    def __init__(self, url: str) -> None:
        self.numbers: list[int] = []
        self.cleaned: list[frozenset[int]] = []
        self.has_cleaned = asyncio.Event()
        self.gateways = Gateways(url, self.numbers.append, self._clean)

    async def _clean(self, ended: frozenset[int]) -> None:
        self.cleaned.append(ended)
        self.has_cleaned.set()


async def _holder(lake: CatalogUnderTest, number: int) -> int:
    pid: int = await lake.superuser.fetchval("SELECT process_id FROM pg_sluice.gateway WHERE gateway_id = $1", number)
    return pid


async def _publish(lake: CatalogUnderTest, table: str, name: str) -> None:
    oid = await lake.client.fetchval("SELECT $1::pg_catalog.text::pg_catalog.regclass::oid::bigint", table)
    change = RowChange(oid, (DataFile(name, 1, 10, 5, {}),))
    await lake.client.execute(own("SELECT pg_sluice.stage($1::pg_catalog.text::pg_catalog.jsonb)"), change.to_json())


async def test_a_gateway_that_lives_is_left_alone(lake: CatalogUnderTest) -> None:
    one, other = Registered(lake.url), Registered(lake.url)
    await one.gateways.start()
    await other.gateways.start()
    assert one.numbers != other.numbers
    assert not one.cleaned
    assert not other.cleaned
    await lake.client.execute("CREATE TABLE t (n integer)")
    await _publish(lake, "t", f"{_UUID}-w{one.numbers[0]}.parquet")
    await one.gateways.close()
    await other.gateways.close()


async def test_one_that_is_gone_publishes_nothing(lake: CatalogUnderTest) -> None:
    """Its files are to be removed, so none of them may come to be published, whatever its sessions still do."""
    one, other = Registered(lake.url), Registered(lake.url)
    await one.gateways.start()
    [number] = one.numbers
    await lake.client.execute("CREATE TABLE t (n integer)")
    await _publish(lake, "t", f"{_UUID}-w{number}.parquet")
    assert not await lake.superuser.fetchval("SELECT pg_sluice.end_gateways()")
    await lake.superuser.execute("SELECT pg_terminate_backend($1)", await _holder(lake, number))
    async with asyncio.timeout(60):
        await one.has_cleaned.wait()  # it goes on under another number, and looks after what the old one has left
    assert one.cleaned[0] == {number}
    with pytest.raises(asyncpg.SerializationError, match="had lost the catalog"):
        await _publish(lake, "t", f"{_UUID}-w{number}-delete.parquet")
    await _publish(lake, "t", f"{_UUID}-w{one.numbers[-1]}.parquet")
    await _publish(lake, "t", f"{_UUID}.parquet")
    await other.gateways.start()
    assert not other.cleaned, "they were looked after before"
    await one.gateways.close()
    await other.gateways.close()


async def test_who_comes_next_looks_after_one_that_has_ended(lake: CatalogUnderTest) -> None:
    one, other = Registered(lake.url), Registered(lake.url)
    await one.gateways.start()
    await one.gateways.close()
    await other.gateways.start()
    assert other.cleaned == [set(one.numbers)]
    await other.gateways.close()
