"""The servers of a run: a gateway with PostgreSQL beside it, or (`here`) the planner in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

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


# Of a hundred thousand small queries Spark otherwise remembers a thousand plans, which fill a small heap.
_FORGETTING: Final = tuple(
    word
    for name in ("spark.sql.ui.retainedExecutions", "spark.ui.retainedJobs", "spark.ui.retainedStages")
    for word in ("--spark-conf", f"{name}=1")
)


@dataclass(frozen=True)
class Stage:
    """Who is asked: the planner `here`, a gateway and a PostgreSQL at `urls`, or those that it starts.

    `settings` are of the gateway's sessions: NAME=VALUE. With `workers` the gateway has a Spark cluster.
    """

    here: bool = False
    urls: tuple[str, str] | None = None
    shuffled: int | None = None
    workers: int = 0
    settings: tuple[str, ...] = ()
    sessions: int = 1

    @property
    def name(self) -> str:
        """Its name in tallies, without the order of rows and how many sessions ask."""
        words = [f"{self.workers} workers"] if self.workers else []
        words += self.settings
        if self.here:
            return "here"
        return "gateway" + (f" with {', '.join(words)}" if words else "")

    def open(self) -> AbstractContextManager[list[Asker]]:
        """An asker for each session."""
        if self.here:
            return here(self.shuffled)
        return self._started() if self.urls is None else self._over(*self.urls)

    @contextmanager
    def _over(self, gateway: str, postgres: str) -> Iterator[list[Asker]]:
        """Each session has a schema of its own."""
        options = " ".join(f"-c {setting}" for setting in self.settings)
        with ExitStack() as stack:
            askers = []
            for number in range(1, self.sessions + 1):
                schema = "answers" if number == 1 else f"answers_{number}"
                oracle, sluice = Server(postgres, 5, "", schema), Server(gateway, 0, options, schema)
                stack.callback(oracle.close)
                stack.callback(sluice.close)
                askers.append(Asker(oracle, sluice))
            yield askers

    @contextmanager
    def _started(self) -> Iterator[list[Asker]]:
        """Over a gateway and a PostgreSQL of one's own.

        Spark begins with every query: what PostgreSQL computes by itself is PostgreSQL's answer.
        """
        arguments: tuple[str, ...] = ("--engine", "spark", *_FORGETTING)
        if self.shuffled is not None:
            arguments += ("--shuffled", str(self.shuffled))
        with open_directory("answers") as directory, ExitStack() as stack:
            environment = {}
            if self.workers:
                cluster = stack.enter_context(Cluster(directory / "spark", self.workers))
                arguments, environment = (*arguments, "--spark", cluster.url), LOOPBACK
            postgres, oracle = start_oracle(directory)
            stack.callback(lambda: asyncio.run(postgres.stop()))
            gateway = GatewayProcess(directory / "data", arguments=arguments, environment=environment)
            stack.enter_context(gateway)
            yield stack.enter_context(self._over(gateway.server.url, oracle.url))


@contextmanager
def here(shuffled: int | None = None) -> Iterator[list[Asker]]:
    with laboratory() as found:
        found.shuffled = shuffled
        yield [Asker(Oracle(found), Planner(found))]
