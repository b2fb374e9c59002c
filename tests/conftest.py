"""Fixtures that many tests share. Real parts only: the embedded PostgreSQL as oracle, one Spark, one gateway."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from catalog.postgres.embedded import EmbeddedPostgres
from tests import tiers
from tests.leftovers import Leftovers
from tests.servers import SLUICE, GatewayProcess, Server, open_directory, start_oracle, write_through_memory

_NUMBERS = itertools.count(1)
# The longest that a statement which needs no Spark may wait behind whatever else the gateway does. A machine with
# few cores is busy with Spark meanwhile, so this tells a blocked event loop, not a slow one.
_UNBLOCKED_SECONDS_MAX = 1.5


# How long an example takes tells how busy the machine is.
settings.register_profile("sluice", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sluice")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=tiers.TIERS, help="fast where no file is named; all of a file that is")
    group.addoption("--soak-seed", default=os.environ.get("SLUICE_SOAK_SEED"), help="adds a part of the soak tier")
    group.addoption("--soak-seconds", type=float, default=240.0, help="how long that part may take, about")
    group.addoption("--turn", help="stands for the commit that says which of the tests by turns are of the tier fast")
    group.addoption("--write-seconds", action="store_true", help="writes down how long each file took")


@pytest.hookimpl(tryfirst=True)  # before other processes are told the options
def pytest_configure(config: pytest.Config) -> None:
    if config.option.tier is None:
        config.option.tier = "all" if config.args_source is pytest.Config.ArgsSource.ARGS else "fast"
    told = getattr(config, "workerinput", {}).get("turn")
    if told is None:
        turn = tiers.Turn(config.option.turn) if config.option.turn else tiers.Turn.now()
        told = (turn.name, *sorted(turn.changed))
    config.option.turn = told
    if config.getoption("write_seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(tiers.Stopwatch())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell another process whose turn it is."""
    node.workerinput["turn"] = node.config.option.turn


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed, seconds = config.getoption("soak_seed"), config.getoption("soak_seconds")
    name, *changed = config.getoption("turn")
    turn = tiers.Turn(name, frozenset(changed))
    kept = tiers.selected(items, config.getoption("tier"), turn, seed, seconds)
    config.hook.pytest_deselected(items=list(set(items).difference(kept)))
    items[:] = kept
    tiers.longest_first(items)


@pytest.fixture(autouse=True)
def _no_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of the unit tier starts no process: a test that does is of another tier."""
    if request.config.getoption("tier") == "unit":

        def refuse(*_: object, **__: object) -> None:
            pytest.fail("a test of the tier `unit` starts a process")

        monkeypatch.setattr(subprocess.Popen, "__init__", refuse)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL of the tests' own, with nothing of Sluice in it: the oracle, by its Unix socket."""
    with open_directory("postgres") as directory:
        server = EmbeddedPostgres(directory / "postgres")
        asyncio.run(server.start())
        write_through_memory(server.dsn)
        yield server
        asyncio.run(server.stop())


@pytest.fixture(scope="session")
def leftovers() -> dict[str, Leftovers]:
    """Name of a server that serves many tests → what was on it when it started."""
    return {}


@pytest.fixture(scope="module", autouse=True)
def _leaves_nothing(leftovers: dict[str, Leftovers]) -> Iterator[None]:
    """Fails the last test of a file whose tests leave on a server what others could stumble over."""
    yield
    left = [difference for each in leftovers.values() for difference in each.differences()]
    assert not left, "\n".join(left)


@pytest.fixture(scope="session")
def oracle(leftovers: dict[str, Leftovers]) -> Iterator[Server]:
    """Plain PostgreSQL 18 on TCP, for the clients that know nothing else: the oracle of whole stories."""
    with open_directory("oracle") as directory:
        postgres, server = start_oracle(directory)
        leftovers[server.name] = Leftovers(server, server.superuser.url)
        yield server
        asyncio.run(postgres.stop())


@pytest.fixture(scope="session")
def gateway_process(leftovers: dict[str, Leftovers]) -> Iterator[GatewayProcess]:
    """`sluice serve`, started as its users start it. It serves many tests: use `schema` for tables of your own."""
    with open_directory("gateway") as directory, GatewayProcess(directory / "data", program=(str(SLUICE),)) as process:
        leftovers[process.server.name] = Leftovers(process.server, process.catalog_url)
        yield process


@pytest.fixture(scope="session")
def gateway(gateway_process: GatewayProcess) -> Server:
    """Where the gateway listens."""
    return gateway_process.server


@pytest.fixture(scope="session", params=["postgres", "gateway"])
def target(request: pytest.FixtureRequest) -> Server:
    """The same test against plain PostgreSQL first, so that what it asserts is known to be true, then the gateway."""
    server: Server = request.getfixturevalue("oracle" if request.param == "postgres" else "gateway")
    return server


MAKER = "maker of schemas"
_MAKERS: dict[Server, psycopg.Connection] = {}


def _maker(server: Server) -> psycopg.Connection:
    """The session that makes the schemas of tests and drops them: a new one takes four times as long for each."""
    maker = _MAKERS.get(server)
    if maker is not None:
        try:
            maker.execute("SELECT 1")
        except psycopg.Error:  # a test has ended it
            maker.close()
            maker = None
    if maker is None:
        maker = _MAKERS[server] = psycopg.connect(server.url, autocommit=True)
        maker.execute(f"SET client_min_messages = warning; SET application_name = '{MAKER}'")
    return maker


def _schema(server: Server) -> Iterator[str]:
    name = f"test_{next(_NUMBERS)}"
    _maker(server).execute(f"CREATE SCHEMA {name}".encode())
    yield name
    _maker(server).execute(f"DROP SCHEMA {name} CASCADE".encode())


@pytest.fixture
def schema(gateway: Server) -> Iterator[str]:
    """A schema of the test's own on the gateway."""
    yield from _schema(gateway)


@pytest.fixture
def target_schema(target: Server) -> Iterator[str]:
    """A schema of the test's own on the target."""
    yield from _schema(target)


class Watcher:
    """Asks the gateway for `SELECT 1` again and again, and keeps how long the slowest answer took."""

    def __init__(self, server: Server) -> None:
        self._connection = psycopg.connect(server.url, autocommit=True)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.answers = 0
        self.slowest_seconds = 0.0
        self.failure: Exception | None = None
        self._thread.start()

    def _watch(self) -> None:
        try:
            while not self._ended.wait(0.01):
                begin = time.monotonic()
                self._connection.execute("SELECT 1")
                self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - begin)
                self.answers += 1
        except psycopg.Error as error:
            self.failure = error

    def end(self) -> None:
        """Stop asking, and fail where the gateway failed or kept silent for too long."""
        self.stop()
        assert self.slowest_seconds < _UNBLOCKED_SECONDS_MAX, "something blocked the gateway's event loop"

    def stop(self) -> None:
        """Stop asking, and fail where the gateway failed."""
        self._ended.set()
        self._thread.join()
        self._connection.close()
        if self.failure is not None:
            raise self.failure
        assert self.answers > 0


@pytest.fixture
def unblocked(gateway: Server) -> Iterator[Watcher]:
    """Fails the test if the gateway's event loop was blocked while it ran."""
    watcher = Watcher(gateway)
    yield watcher
    watcher.end()


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory for a gateway of the test's own; not made yet."""
    with open_directory("data") as directory:
        yield directory / "data"
