"""The servers that answer: a gateway with PostgreSQL beside it, or (`here`) the planner in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from catalog.embedded import EmbeddedPostgres
from tests.answers.asking import Asker
from tests.answers.sides import Oracle, Planner, Server
from tests.planner.differential import Laboratory, spark_session
from tests.servers import GatewayProcess, open_directory, start_oracle


@contextmanager
def laboratory() -> Iterator[Laboratory]:
    """An embedded PostgreSQL, and a Spark in this process."""
    with open_directory("answers") as directory:
        server = EmbeddedPostgres(directory / "postgres")
        asyncio.run(server.start())
        found = Laboratory(server.dsn, spark_session(interpreted=True), directory, "answers")
        try:
            yield found
        finally:
            found.close()
            asyncio.run(server.stop())


@contextmanager
def here() -> Iterator[Asker]:
    with laboratory() as found:
        yield Asker(Oracle(found), Planner(found))


@contextmanager
def over_urls(gateway: str, postgres: str) -> Iterator[Asker]:
    oracle, sluice = Server(postgres, seconds=5), Server(gateway)
    try:
        yield Asker(oracle, sluice)
    finally:
        oracle.close()
        sluice.close()


@contextmanager
def started() -> Iterator[Asker]:
    """A gateway and a PostgreSQL of one's own."""
    with open_directory("answers") as directory:
        postgres, oracle = start_oracle(directory)
        try:
            with GatewayProcess(directory / "data") as gateway, over_urls(gateway.server.url, oracle.url) as asker:
                yield asker
        finally:
            asyncio.run(postgres.stop())
