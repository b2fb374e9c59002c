"""A catalog for each test: a database in the tests' PostgreSQL, bootstrapped for Sluice."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import pytest

from catalog.bootstrap import bootstrap
from catalog.postgres.embedded import EmbeddedPostgres
from catalog.schema.step_connections import StepConnections

_NUMBERS = itertools.count(1)
_FRESH = "fresh_catalog"
CLIENT = "catalog_client"
DATA_PATH = "/lake/"


@dataclass(frozen=True)
class CatalogUnderTest:
    """`superuser` is the gateway's own way in, `client` a session's backend, which it has entered, `steps` what takes
    steps of changes."""

    superuser: asyncpg.Connection
    client: asyncpg.Connection
    url: str
    nonce: str
    steps: StepConnections

    async def entered(self, url: str | None = None) -> asyncpg.Connection:
        """Another session's backend; the superuser's own role, unless the URL says otherwise."""
        connection = await asyncpg.connect(url or self.url)
        await self.superuser.execute("SELECT pg_sluice.enter($1, 0)", connection.get_server_pid())
        return connection


@pytest.fixture(scope="session")
def nonce(postgres: EmbeddedPostgres) -> str:
    """That of the catalog in the database `fresh_catalog`, which is there to be copied: to make one takes longer."""

    async def make() -> str:
        server = await asyncpg.connect(postgres.dsn)
        await server.execute(f"CREATE ROLE {CLIENT} LOGIN")
        await server.execute(f"CREATE DATABASE {_FRESH} OWNER {CLIENT}")
        await server.close()
        return await bootstrap(postgres.url(_FRESH), DATA_PATH)

    return asyncio.run(make())


@pytest.fixture
async def lake(postgres: EmbeddedPostgres, nonce: str) -> AsyncIterator[CatalogUnderTest]:
    """A fresh catalog, with a connection of a client's role."""
    name = f"catalog_{next(_NUMBERS)}"
    server = await asyncpg.connect(postgres.dsn)
    await server.execute(f"CREATE DATABASE {name} TEMPLATE {_FRESH} OWNER {CLIENT}")
    url = postgres.url(name)
    superuser = await asyncpg.connect(url)
    client = await asyncpg.connect(postgres.url(name, CLIENT))
    await superuser.execute("SELECT pg_sluice.enter($1, 0)", client.get_server_pid())  # as a gateway does
    steps = StepConnections(url)
    yield CatalogUnderTest(superuser, client, url, nonce, steps)
    await steps.close()
    await client.close()
    await superuser.close()
    await server.execute(f"DROP DATABASE {name} (FORCE)")
    await server.close()
