"""The identity of a backend: distinct from others of the same process number, and known to have ended."""

from __future__ import annotations

import asyncpg

from catalog.postgres.backends import GONE, BackendId
from tests.catalog.conftest import CatalogUnderTest


async def _is_gone(lake: CatalogUnderTest, backend: BackendId) -> object:
    return await lake.superuser.fetchval(GONE, backend.process_id, backend.started)


async def test_a_backend_is_there_until_its_connection_ends(lake: CatalogUnderTest) -> None:
    connection = await asyncpg.connect(lake.url)
    number = await lake.superuser.fetchval("SELECT pg_sluice.register_gateway()")
    started = await lake.superuser.fetchval("SELECT pg_sluice.enter($1, $2)", connection.get_server_pid(), number)
    backend = BackendId(connection.get_server_pid(), started)
    assert await _is_gone(lake, backend) is False
    await connection.close()
    while not await _is_gone(lake, backend):
        pass


async def test_another_backend_of_that_number_is_another(lake: CatalogUnderTest) -> None:
    """After a restart of PostgreSQL in a container, numbers come again at once."""
    number = lake.client.get_server_pid()
    started = await lake.superuser.fetchval("SELECT pg_sluice.backend_started($1)", number)
    assert await _is_gone(lake, BackendId(number, started)) is False
    assert await _is_gone(lake, BackendId(number, started - 1)) is True


async def test_each_is_told_whatever_the_time_zone(lake: CatalogUnderTest) -> None:
    number = lake.client.get_server_pid()
    before = await lake.superuser.fetchval("SELECT pg_sluice.backend_started($1)", number)
    await lake.superuser.execute("SET timezone = 'Pacific/Kiritimati'")
    assert await lake.superuser.fetchval("SELECT pg_sluice.backend_started($1)", number) == before
