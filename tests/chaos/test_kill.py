"""kill -9 of the gateway, of PostgreSQL and of the JVM, at rest and in the middle of a statement.

After each: the next start works (the next statement, if only Spark died), exactly the acknowledged statements have
effect, and the lake is whole.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.chaos.workload import (
    PREPARATION,
    ROWS,
    Statement,
    Totals,
    check_lake,
    copy_in,
    endless_rows,
    execute,
    totals,
)
from tests.servers import SLUICE, GatewayProcess, Server, open_directory, wait_until_gone

pytestmark = pytest.mark.soak

Kill = Callable[[GatewayProcess], None]
Run = Callable[[Server], None]


def kill_gateway(process: GatewayProcess) -> None:
    """The gateway alone: what it leaves behind must go by itself."""
    process.kill()


def kill_postgres(process: GatewayProcess) -> None:
    """PostgreSQL and all its backends, as the kernel does when memory runs out."""
    _kill_children(process, "postgres")


def kill_jvm(process: GatewayProcess) -> None:
    _kill_children(process, "java")


def _kill_children(process: GatewayProcess, command: str) -> None:
    victims = {child for child, name in process.children.items() if name.startswith(command)}
    assert victims, f"no {command} among {process.children}"
    for victim in victims:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:  # its parent's end took it along
            continue
    wait_until_gone(victims)


def update_all(server: Server) -> None:
    execute(server, "UPDATE ledger SET state = state + 1, note = note || '!'")


def delete_many(server: Server) -> None:
    execute(server, "DELETE FROM ledger WHERE id % 3 = 0")


def copy_much(server: Server) -> None:
    copy_in(server, endless_rows(ROWS, seconds=3.0))


def end(process: GatewayProcess) -> None:
    """Whatever state it is in, end it; it may have ended by itself."""
    if process.process.poll() is None:
        process.process.send_signal(signal.SIGTERM)
        process.process.wait(60)


@contextmanager
def with_ledger(name: str) -> Iterator[GatewayProcess]:
    """A gateway with a lake of its own, in a directory of that name."""
    with open_directory(name) as directory:
        process = GatewayProcess(directory / "data", program=(str(SLUICE),)).start()
        process.server.psql("-qc", "CREATE TABLE ledger (id bigint, state integer, note text)")
        yield process
        end(process)


@pytest.fixture(scope="module")
def one_lake() -> Iterator[GatewayProcess]:
    """One lake that goes through everything, one blow after another."""
    with with_ledger("chaos") as process:
        yield process


@pytest.fixture
def process(one_lake: GatewayProcess) -> GatewayProcess:
    """The gateway, up, with its ledger as it was at first."""
    if one_lake.process.poll() is not None:
        one_lake.start()
    for statement in PREPARATION:
        one_lake.server.psql("-qc", statement)
    one_lake.lines.clear()  # what it said of the blows before
    return one_lake


def settled(process: GatewayProcess) -> str:
    """End what is left, check the lake, start again; what the gateway said until its end."""
    end(process)
    check_lake(process)
    said = process.output
    process.lines.clear()
    process.start()
    check_lake(process, orphans=False)
    return said


@pytest.mark.parametrize("kill", [kill_gateway, kill_postgres])
def test_at_rest(process: GatewayProcess, kill: Kill) -> None:
    process.server.psql("-qc", "INSERT INTO ledger VALUES (-1, 0, 'the last before the blow')")
    before = totals(process.server)
    kill(process)
    said = settled(process)
    assert "Traceback" not in said, said
    assert totals(process.server) == before
    process.server.psql("-qc", "DELETE FROM ledger WHERE id = -1")
    assert totals(process.server) == (before[0] - 1, before[1])


@pytest.mark.parametrize("kill", [kill_gateway, kill_postgres])
@pytest.mark.parametrize("run", [update_all, delete_many, copy_much])
def test_in_the_middle(process: GatewayProcess, kill: Kill, run: Run) -> None:
    """Not acknowledged is none of it or, where the answer alone was lost, all of it; never some of it."""
    before = totals(process.server)
    statement = Statement(lambda: run(process.server))
    time.sleep(random.uniform(0.1, 0.8))
    kill(process)
    statement.wait()
    settled(process)
    after = totals(process.server)
    if statement.acknowledged:
        assert after != before
    if after != before:
        assert_whole(run, process.server, before, after)


def assert_whole(run: Run, server: Server, before: Totals, after: Totals) -> None:
    """The statement took effect on all its rows."""
    if run is update_all:
        assert after == (before[0], before[1] + before[0])
    elif run is delete_many:
        assert after == (before[0] - before[0] // 3, before[1])
    else:
        # COPY sends rows numbered without gaps, in thousands.
        ((count, last),) = server.query(f"SELECT count(*), max(id) FROM ledger WHERE id > {ROWS}")
        assert int(count) == int(last) - ROWS == after[0] - before[0]
        assert int(count) % 1000 == 0


def test_the_jvm_at_rest(process: GatewayProcess) -> None:
    """The gateway lives on: the same connection's next statement works."""
    before = totals(process.server)
    with psycopg.connect(process.server.url, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM ledger").fetchone() == (before[0],)
        kill_jvm(process)
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM ledger").fetchone() == (before[0],)
        connection.execute("UPDATE ledger SET state = state + 1 WHERE id = 1")
    assert totals(process.server) == (before[0], before[1] + 1)
    assert process.process.poll() is None


@pytest.mark.parametrize("run", [update_all, delete_many, copy_much])
def test_the_jvm_in_the_middle(process: GatewayProcess, run: Run) -> None:
    """The statement fails with an error of its own, or is done; the next statement works."""
    before = totals(process.server)
    statement = Statement(lambda: run(process.server))
    time.sleep(random.uniform(0.1, 0.6))
    kill_jvm(process)
    statement.wait()
    after = totals(process.server)
    assert process.process.poll() is None
    if statement.error is not None:
        assert statement.error.sqlstate is not None, "the session was lost with the JVM"
        assert after == before
    else:
        assert_whole(run, process.server, before, after)


def test_again_and_again(process: GatewayProcess) -> None:
    """One-row statements until the blow, three times: what was acknowledged is there, and at most one more."""
    execute(process.server, "DROP TABLE IF EXISTS journal")
    execute(process.server, "CREATE TABLE journal (n integer)")
    acknowledged = 0
    for _ in range(3):
        blow = time.monotonic() + random.uniform(0.3, 1.0)
        connection = psycopg.connect(process.server.url, autocommit=True)
        while time.monotonic() < blow:
            connection.execute("INSERT INTO journal VALUES (%s)", [acknowledged + 1])
            acknowledged += 1
        last = Statement(insert(connection, acknowledged + 1))
        process.kill()
        last.wait()
        connection.close()
        acknowledged += last.acknowledged
        settled(process)
        ((count, greatest),) = process.server.query("SELECT count(*), max(n) FROM journal")
        assert count == greatest, "a row is there twice, or missing"
        assert int(count) in {acknowledged, acknowledged + (not last.acknowledged)}
        acknowledged = int(count)


def insert(connection: psycopg.Connection, number: int) -> Callable[[], None]:
    """To be run later: one row into the journal."""

    def run() -> None:
        connection.execute("INSERT INTO journal VALUES (%s)", [number])

    return run


def test_nothing_is_left_behind(process: GatewayProcess) -> None:
    """After all that, the lake is whole, and no file of a statement that failed stays unnamed."""
    end(process)
    check_lake(process)
