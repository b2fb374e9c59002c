"""One of two gateways is paused, cut off, killed or restarted: the effect on the other and on clients.

The time limits only tell "DD" from "minutes": they do not measure speed.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import psycopg
import pytest

from catalog.schema.synchronisation import Settings
from tests.proxy import Proxy
from tests.servers import GatewayProcess, Server, open_directory, start_oracle

_DELAY = Settings().delay
_SOON = 30 * _DELAY
# Where it is only to happen at all, on a machine that may be busy.
_AT_LAST = 60.0


@dataclass
class Pair:
    """`one` reaches the catalog directly, `other` through the proxy."""

    one: GatewayProcess
    other: GatewayProcess
    proxy: Proxy
    catalog: Server

    def state(self, gateway: GatewayProcess) -> list[str]:
        """As the other one tells it, of the last number that the gateway has got."""
        address = f"127.0.0.1:{gateway.port}"
        sql = f"SELECT state FROM pg_sluice.nodes WHERE address = '{address}' ORDER BY number DESC LIMIT 1"
        return [state for (state,) in self.one.server.query(sql)]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with open_directory("cut-off") as directory:
        postgres, catalog = start_oracle(directory)
        try:
            catalog.superuser.psql("-qc", "CREATE DATABASE shared OWNER sluice", "-d", "postgres")
            with Proxy(catalog.host, catalog.port) as proxy:

                def gateway(name: str, port: int) -> GatewayProcess:
                    dsn = f"postgresql://postgres@127.0.0.1:{port}/shared"
                    arguments = ("--catalog", dsn, "--data-path", str(directory / "lake"))
                    return GatewayProcess(directory / name, arguments=arguments, user="sluice")

                one, other = gateway("one", catalog.port), gateway("other", proxy.port)
                try:
                    yield Pair(one.start(), other.start(), proxy, catalog)
                finally:
                    proxy.heal()
                    for process in (one, other):
                        if process.process.poll() is None:
                            process.process.send_signal(signal.SIGCONT)
                            process.stop()
        finally:
            asyncio.run(postgres.stop())


def eventually(answered: Callable[[], object], seconds: float = _AT_LAST) -> None:
    """Until it is true; what is not may say why, as an error."""
    deadline = time.monotonic() + seconds
    while (answer := answered()) is not True:
        assert time.monotonic() < deadline, f"it did not come to that: {answer!r}"
        time.sleep(0.05)


def serves(server: Server, sql: str) -> Literal[True] | psycopg.Error:
    """Whether it answers, on a connection of its own, or why not; errors must be retriable ones."""
    try:
        with psycopg.connect(server.url, autocommit=True, connect_timeout=10) as connection:
            connection.execute(sql.encode())
    except psycopg.OperationalError as error:
        if error.sqlstate not in {None, "57P01", "57P02", "57P03"}:
            raise
        return error
    return True


@contextlib.contextmanager
def paused(gateway: GatewayProcess) -> Iterator[None]:
    gateway.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        gateway.process.send_signal(signal.SIGCONT)


def test_everybody_sees_the_gateways(pair: Pair) -> None:
    with psycopg.connect(pair.other.server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE seen (n integer)")
        eventually(
            lambda: (
                [
                    (row[0], row[1])
                    for row in pair.one.server.query(
                        "SELECT state, sessions > 0, version, safe_time, lag < '1 min' FROM pg_sluice.nodes"
                        f" WHERE address = '127.0.0.1:{pair.other.port}' AND version IS NOT NULL"
                        " ORDER BY number DESC LIMIT 1"
                    )
                ]
                == [("serving", "t")]
            )
        )
        for (waited_for,) in connection.execute("SELECT waited_for_by FROM pg_sluice.nodes"):
            assert waited_for == []


def test_one_that_starts_is_not_said_to_serve(pair: Pair) -> None:
    pair.other.stop()
    starting = threading.Thread(target=pair.other.start)
    starting.start()
    eventually(lambda: pair.state(pair.other) == ["starting"])
    assert isinstance(serves(pair.other.server, "SELECT 1"), psycopg.OperationalError)
    starting.join()
    eventually(lambda: pair.state(pair.other) == ["serving"])


def test_a_change_is_settled_when_it_returns(pair: Pair) -> None:
    """Both gateways have confirmed it by then: it did not wait for anything to run out."""
    pair.one.server.psql("-qc", "CREATE TABLE settled (n integer)")
    for number, gateway in enumerate((pair.one, pair.other, pair.one)):
        gateway.server.psql("-qc", f"ALTER TABLE settled ADD COLUMN c{number} integer")
        with psycopg.connect(pair.catalog.superuser.url.replace("/sluice", "/shared")) as catalog:
            (settled, early), *_ = catalog.execute(
                "SELECT settled, made_active < written + pg_sluice.length_of('delay') FROM pg_sluice.schema_update"
                " ORDER BY version DESC LIMIT 1"
            ).fetchall()
        assert (settled, early) == (True, True)
        assert pair.one.server.query("SELECT count(*) FROM settled") == [["0"]]


@pytest.mark.turns
def test_one_that_is_paused_delays_a_change_by_its_lease(pair: Pair) -> None:
    pair.one.server.psql("-qc", "CREATE TABLE waiting (n integer)")
    waited_for: list[str] = []
    with psycopg.connect(pair.one.server.url, autocommit=True) as connection, paused(pair.other):
        begin = time.monotonic()
        change = threading.Thread(target=connection.execute, args=("ALTER TABLE waiting ADD COLUMN m integer",))
        change.start()
        while change.is_alive():
            waited_for += [
                address
                for (address,) in pair.one.server.query(
                    "SELECT address FROM pg_sluice.nodes WHERE waited_for_by <> '{}'"
                )
            ]
        assert time.monotonic() - begin < _SOON
        assert f"127.0.0.1:{pair.other.port}" in waited_for
        # The next does not wait for it again.
        connection.execute("ALTER TABLE waiting ADD COLUMN o integer")
        eventually(lambda: pair.state(pair.other) == ["gone"])
    eventually(lambda: serves(pair.other.server, "SELECT n, m, o FROM waiting"))
    eventually(lambda: pair.state(pair.other) == ["serving"])


@pytest.mark.turns
def test_what_one_that_is_paused_holds_is_given_back(pair: Pair) -> None:
    pair.one.server.psql("-qc", "CREATE TABLE held (id integer PRIMARY KEY, n integer)")
    pair.one.server.psql("-qc", "INSERT INTO held VALUES (1, 1)")
    with psycopg.connect(pair.other.server.url) as there:
        there.execute("UPDATE held SET n = 2 WHERE id = 1")
        with paused(pair.other):
            begin = time.monotonic()
            pair.one.server.psql("-qc", "UPDATE held SET n = 3 WHERE id = 1")
            assert time.monotonic() - begin < _SOON
        with pytest.raises(psycopg.OperationalError):
            there.commit()
    eventually(lambda: serves(pair.other.server, "SELECT 1 FROM held"))
    assert pair.other.server.query("SELECT n FROM held") == [["3"]]


@pytest.mark.turns
@pytest.mark.parametrize("closing", [False, True], ids=["silently", "by closing"])
def test_one_that_is_cut_off_serves_nothing_until_it_hears_again(pair: Pair, *, closing: bool) -> None:
    name = f"cut_{closing}".lower()
    pair.one.server.psql("-qc", f"CREATE TABLE {name} (n integer)")
    eventually(lambda: serves(pair.other.server, f"SELECT FROM {name}"))
    with psycopg.connect(pair.other.server.url, autocommit=True) as connection:
        pair.proxy.cut()
        if closing:
            pair.proxy.drop()
        time.sleep(_DELAY)
        # What an idle session gets, and a new one.
        with pytest.raises(psycopg.OperationalError) as refused:
            connection.execute(f"SELECT FROM {name}")
        assert refused.value.sqlstate in ({"57P01", "57P02", "57P03"} if closing else {"57P03"})
        with pytest.raises(psycopg.OperationalError, match="does not hear its catalog"):
            psycopg.connect(pair.other.server.url, connect_timeout=30)
        begin = time.monotonic()
        pair.one.server.psql("-qc", f"ALTER TABLE {name} ADD COLUMN m integer DEFAULT 5")
        pair.one.server.psql("-qc", f"INSERT INTO {name} VALUES (1)")
        assert time.monotonic() - begin < _SOON
        pair.proxy.heal()
    eventually(lambda: serves(pair.other.server, f"SELECT m FROM {name}"))
    assert pair.other.server.query(f"SELECT m FROM {name}") == [["5"]]
    pair.other.server.psql("-qc", f"ALTER TABLE {name} DROP COLUMN m")
    assert pair.one.server.query(f"SELECT * FROM {name}") == [["1"]]


@pytest.mark.turns
def test_a_change_whose_gateway_dies_is_undone_by_the_other(pair: Pair) -> None:
    pair.one.server.psql("-qc", "CREATE TABLE half (n integer)")
    pair.one.server.psql("-qc", "INSERT INTO half SELECT generate_series(1, 10)")
    change = threading.Thread(target=_until_lost, args=(pair.other.server, "ALTER TABLE half ADD CHECK (n < 100)"))
    catalog = psycopg.connect(pair.catalog.superuser.url.replace("/sluice", "/shared"), autocommit=True)
    with catalog:
        # It stops before its first step.
        catalog.execute("ALTER TABLE pg_sluice.schema_change ALTER paused SET DEFAULT true")
        change.start()
        eventually(lambda: pair.one.server.query("SELECT count(*) FROM pg_sluice.schema_changes") == [["1"]])
        catalog.execute("ALTER TABLE pg_sluice.schema_change ALTER paused SET DEFAULT false")
        pair.other.kill()
        change.join(60)
        assert not change.is_alive()
        eventually(
            lambda: pair.one.server.query("SELECT error FROM pg_sluice.schema_changes") == [["the gateway died"]]
        )
    pair.one.server.psql("-qc", "INSERT INTO half VALUES (1000)")
    pair.other.start()
    assert pair.other.server.query("SELECT count(*) FROM half") == [["11"]]


def _until_lost(server: Server, sql: str) -> None:
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.encode())


def test_a_running_statement_is_finished_and_idle_sessions_are_not(pair: Pair) -> None:
    """SIGTERM: the statement is acknowledged, the idle session gets 57P01, a new one 57P03."""
    pair.one.server.psql("-qc", "CREATE TABLE finished (n bigint)")
    idle = psycopg.connect(pair.other.server.url, autocommit=True)
    busy = psycopg.connect(pair.other.server.url, autocommit=True)
    idle.execute("SELECT 1")
    done: list[str] = []

    def run() -> None:
        done.append(str(busy.execute("INSERT INTO finished SELECT 1 FROM pg_sleep(2)").statusmessage))
        with pytest.raises(psycopg.errors.AdminShutdown):
            busy.execute("SELECT 1")
        done.append("ended")

    running = threading.Thread(target=run)
    running.start()
    time.sleep(0.5)
    pair.other.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    with pytest.raises(psycopg.errors.AdminShutdown):
        idle.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="shutting down"):
        psycopg.connect(pair.other.server.url)
    running.join(60)
    assert done == ["INSERT 0 1", "ended"]
    assert pair.other.process.wait(60) == 0
    pair.other.start()
    assert pair.other.server.query("SELECT n FROM finished") == [["1"]]


def _all_have_more(acknowledged: list[set[int]], before: list[int]) -> bool:
    return all(len(numbers) > count for numbers, count in zip(acknowledged, before, strict=True))


@pytest.mark.turns
def test_a_rolling_restart_loses_nothing(pair: Pair) -> None:
    """Clients that try again at the other address: every acknowledged row is there, once."""
    pair.one.server.psql("-qc", "CREATE TABLE rolled (n integer)")
    acknowledged: list[set[int]] = [set(), set(), set()]
    asked: list[set[int]] = [set(), set(), set()]
    closed = threading.Event()
    strange: list[Exception] = []

    def work(worker: int) -> None:
        number, servers = worker, [pair.one.server, pair.other.server]
        while not closed.is_set():
            servers.reverse()
            try:
                with psycopg.connect(servers[0].url, autocommit=True, connect_timeout=10) as connection:
                    while not closed.is_set():
                        number += 3
                        asked[worker].add(number)
                        connection.execute("INSERT INTO rolled VALUES (%s)", [number])
                        acknowledged[worker].add(number)
            except psycopg.Error as error:
                if error.sqlstate not in {None, "57P01", "57P03", "40001"}:
                    strange.append(error)
                time.sleep(0.05)

    workers = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in range(3)]
    for worker in workers:
        worker.start()
    for gateway in (pair.other, pair.one):
        before = [len(each) for each in acknowledged]
        gateway.stop()
        eventually(partial(_all_have_more, acknowledged, before))
        gateway.start()
    closed.set()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive(), "a client is stuck"
    assert not strange, strange
    found = [int(n) for (n,) in pair.one.server.query("SELECT n FROM rolled")]
    assert len(found) == len(set(found))
    assert set().union(*acknowledged) <= set(found) <= set().union(*asked)
