"""The servers of a run: a gateway with PostgreSQL beside it, or (`here`) the planner in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from catalog.postgres.embedded import EmbeddedPostgres
from tests.answers.asking import Asker
from tests.answers.sides import Oracle, Planner, Server
from tests.cluster.workers import LOOPBACK, Cluster
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
def here(shuffled: int | None = None) -> Iterator[Asker]:
    with laboratory() as found:
        found.shuffled = shuffled
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
def started(shuffled: int | None = None, workers: int = 0) -> Iterator[Asker]:
    """A gateway and a PostgreSQL of one's own; with workers, a Spark cluster beside them.

    Spark begins with every query: what PostgreSQL computes by itself is PostgreSQL's answer.
    """
    arguments = ("--engine", "spark", *(() if shuffled is None else ("--shuffled", str(shuffled))))
    with open_directory("answers") as directory, ExitStack() as stack:
        environment = {}
        if workers:
            cluster = stack.enter_context(Cluster(directory / "spark", workers))
            arguments, environment = (*arguments, "--spark", cluster.url), LOOPBACK
        postgres, oracle = start_oracle(directory)
        stack.callback(lambda: asyncio.run(postgres.stop()))
        gateway = stack.enter_context(GatewayProcess(directory / "data", arguments=arguments, environment=environment))
        yield stack.enter_context(over_urls(gateway.server.url, oracle.url))
