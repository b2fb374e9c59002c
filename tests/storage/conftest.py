"""One Spark for all tests of storage, over one lake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings

from catalog.model import TableVersion
from storage.plan import BoundScan, RunnableQuery
from storage.spark.engine import EngineSettings, SparkEngine
from tests.storage.lake import Witness

# Neighbours on the same machine make times say nothing.
settings.register_profile("storage", deadline=None)
settings.load_profile("storage")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, all that use the one Spark stay in one of them."""
    for item in items:
        if "engine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def lake_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data path of the engine."""
    return tmp_path_factory.mktemp("a lake")


@pytest.fixture(scope="session")
def engine(lake_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """A Spark on two cores; large inserts (by Spark's estimate, from 1 MB on) are written by its tasks."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    settings = EngineSettings(url="local[2]", driver_memory="1g", log=log, spark_writes_from=2**20)
    engine = SparkEngine(str(lake_path), settings)
    yield engine
    asyncio.run(engine.stop())


class Reader:
    """Runs queries to their end."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine

    async def table(self, sql: str, *scans: BoundScan, time_zone: str = "UTC", tag: str = "test") -> pa.Table:
        async with await self._engine.stream(RunnableQuery(sql, scans, time_zone), tag) as rows:
            return pa.Table.from_batches([batch async for batch in rows], rows.schema)

    async def column(self, sql: str, *scans: BoundScan, time_zone: str = "UTC", tag: str = "test") -> list[object]:
        """The first column, as Python values."""
        values: list[object] = (await self.table(sql, *scans, time_zone=time_zone, tag=tag)).column(0).to_pylist()
        return values


@pytest.fixture
def reader(engine: SparkEngine) -> Reader:
    """Runs queries to their end."""
    return Reader(engine)


@pytest.fixture
def witness(lake_path: Path) -> Iterator[Callable[[TableVersion], Witness]]:
    """DuckDB over a table version of the engine's lake."""
    opened: list[Witness] = []

    def attach(version: TableVersion) -> Witness:
        opened.append(Witness(lake_path, version))
        return opened[-1]

    yield attach
    for each in opened:
        each.close()
