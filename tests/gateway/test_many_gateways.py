"""Gateways that share a data directory, or a catalog: they are equals, and each may stop at any time."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from catalog.schema.states import State
from tests.changes.stages import Held, stopping
from tests.chaos.workload import check_lake
from tests.isolation.schedule import Session
from tests.servers import GatewayProcess, Server, open_directory, run_sluice, start_oracle

# What a client of a gateway that lives may meet while the catalog starts again; it is to try again.
_RETRIABLE = {"57P01", "57P02", "57P03", "40001", None}
_RESUME_SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def two(request: pytest.FixtureRequest) -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    """Two gateways on one data directory; a test that ends one of them starts it again."""
    with open_directory("two") as directory:
        one, other = (GatewayProcess(directory / "data") for _ in range(2))
        gateways = one, other
        try:
            for gateway in gateways:
                gateway.start()
            yield gateways
            for gateway in gateways:
                if gateway.process.poll() is None:
                    gateway.stop()
            check_lake(gateways[0], orphans=False)
        finally:
            for gateway in gateways:
                if gateway.process.poll() is None:
                    gateway.kill()


@pytest.fixture
def gateways(two: tuple[GatewayProcess, GatewayProcess]) -> tuple[GatewayProcess, GatewayProcess]:
    """Both, up: the first runs PostgreSQL."""
    for gateway in two:
        if gateway.process.poll() is not None:
            gateway.start()
    return two if runs_postgres(two[0]) else (two[1], two[0])


def runs_postgres(gateway: GatewayProcess) -> bool:
    return "postgres" in gateway.children.values()


def until_answered(server: Server, sql: str) -> list[list[str]]:
    """The answer, after as many errors as the catalog's restart brings; none that does not say so."""
    deadline = time.monotonic() + _RESUME_SECONDS_MAX
    while True:
        try:
            with psycopg.connect(server.url, autocommit=True) as connection:
                cursor = connection.execute(sql.encode())
                return [[str(value) for value in row] for row in cursor.fetchall()] if cursor.description else []
        except psycopg.Error as error:
            if error.sqlstate not in _RETRIABLE or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_both_serve_one_lake(gateways: tuple[GatewayProcess, GatewayProcess]) -> None:
    one, other = (gateway.server for gateway in gateways)
    assert [runs_postgres(gateway) for gateway in gateways] == [True, False]
    one.psql("-qc", "CREATE TABLE shared (id integer PRIMARY KEY, name text)")
    with psycopg.connect(one.url, autocommit=True) as here, psycopg.connect(other.url, autocommit=True) as there:
        for number in range(5):
            here.execute("INSERT INTO shared VALUES (%s, 'here')", [2 * number])
            assert there.execute("SELECT count(*) FROM shared").fetchone() == (2 * number + 1,)
            there.execute("INSERT INTO shared VALUES (%s, 'there')", [2 * number + 1])
            assert here.execute("SELECT count(*) FROM shared").fetchone() == (2 * number + 2,)
        with pytest.raises(psycopg.errors.UniqueViolation):
            there.execute("INSERT INTO shared VALUES (0, 'again')")
        there.execute("ALTER TABLE shared ADD COLUMN age integer DEFAULT 7")
        assert here.execute("SELECT sum(age) FROM shared").fetchone() == (70,)
        here.execute("ALTER TABLE shared ADD CONSTRAINT young CHECK (age < 10)")
        with pytest.raises(psycopg.errors.CheckViolation):
            there.execute("UPDATE shared SET age = 11 WHERE id = 3")


def test_a_change_on_one_dooms_a_transaction_on_the_other(gateways: tuple[GatewayProcess, GatewayProcess]) -> None:
    one, other = (gateway.server for gateway in gateways)
    one.psql("-qc", "CREATE TABLE doomed (n integer, m integer)")
    with psycopg.connect(one.url) as here, psycopg.connect(other.url, autocommit=True) as there:
        here.execute("INSERT INTO doomed VALUES (1, 2)")
        there.execute("ALTER TABLE doomed DROP COLUMN m")
        with pytest.raises(psycopg.errors.SerializationFailure):
            here.execute("SELECT n FROM doomed")
        here.rollback()
        here.execute("INSERT INTO doomed VALUES (3)")
        here.commit()
        assert there.execute("SELECT n FROM doomed").fetchall() == [(3,)]


@pytest.mark.turns
@pytest.mark.parametrize("change", ["ALTER TABLE taken ADD UNIQUE (n)", "ALTER TABLE taken ADD CHECK (n > 0)"])
@pytest.mark.parametrize("at_once", [True, False], ids=["by the next change", "by itself"])
def test_a_change_whose_gateway_dies_is_undone_by_another(
    gateways: tuple[GatewayProcess, GatewayProcess], change: str, *, at_once: bool
) -> None:
    one, other = gateways
    one.server.psql("-qc", "CREATE TABLE taken (n integer)")
    one.server.psql("-qc", "INSERT INTO taken VALUES (1), (2)")
    session = Session(other.server, "public", messages=True)
    left = (
        "SELECT change_id::text FROM pg_sluice.schema_change WHERE finished IS NULL"
        " UNION ALL SELECT conname FROM pg_constraint WHERE conrelid = 'taken'::regclass"
        " UNION ALL SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'taken'::regclass"
    )
    with psycopg.connect(one.catalog_url, autocommit=True) as catalog:
        with stopping(one):
            held = Held(one, session, change)
            held.get_to(State.REORG if "UNIQUE" in change else State.VALIDATE)
            other.kill()
        assert held.answer.result(_RESUME_SECONDS_MAX).startswith("ERROR None")
        assert catalog.execute(left).fetchall()
        if at_once:
            one.server.psql("-qc", "ALTER TABLE taken ADD COLUMN m integer")
        deadline = time.monotonic() + _RESUME_SECONDS_MAX
        while catalog.execute(left).fetchall():
            assert time.monotonic() < deadline, "the change is left"
            time.sleep(0.1)
        one.server.psql("-qc", change)
    session.connection.close()
    one.server.psql("-qc", "DROP TABLE taken")


def test_rows_locked_through_one_are_locked_for_the_other(gateways: tuple[GatewayProcess, GatewayProcess]) -> None:
    one, other = (gateway.server for gateway in gateways)
    one.psql("-qc", "CREATE TABLE locked (id integer PRIMARY KEY)")
    one.psql("-qc", "INSERT INTO locked VALUES (1), (2)")
    with psycopg.connect(one.url) as here, psycopg.connect(other.url, autocommit=True) as there:
        here.execute("SELECT FROM locked WHERE id = 1 FOR UPDATE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            there.execute("SELECT FROM locked WHERE id = 1 FOR UPDATE NOWAIT")
        assert there.execute("SELECT id FROM locked FOR UPDATE SKIP LOCKED").fetchall() == [(2,)]


@pytest.mark.turns
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_another_runs_the_catalog_when_its_gateway_goes(
    gateways: tuple[GatewayProcess, GatewayProcess], *, kill: bool
) -> None:
    """Its clients try again; what was acknowledged is there, through it and through whoever comes next."""
    supervisor, survivor = gateways
    supervisor.server.psql("-qc", "CREATE TABLE IF NOT EXISTS journal (n integer)")
    supervisor.server.psql("-qc", "TRUNCATE journal")
    acknowledged: list[int] = []
    closed = threading.Event()
    strange: list[psycopg.Error] = []

    def work() -> None:
        number = 0
        while not closed.is_set():
            try:
                with psycopg.connect(survivor.server.url, autocommit=True) as connection:
                    while not closed.is_set():
                        number += 1
                        connection.execute("INSERT INTO journal VALUES (%s)", [number])
                        acknowledged.append(number)
            except psycopg.Error as error:
                if error.sqlstate not in _RETRIABLE:
                    strange.append(error)
                time.sleep(0.02)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    time.sleep(1.0)
    if kill:
        supervisor.kill()
    else:
        supervisor.stop()
    before = len(acknowledged)
    deadline = time.monotonic() + _RESUME_SECONDS_MAX
    while len(acknowledged) < before + 10 and time.monotonic() < deadline:
        time.sleep(0.05)
    closed.set()
    worker.join(60)
    assert not worker.is_alive(), "a client is stuck"
    assert not strange, strange
    assert len(acknowledged) >= before + 10, "the survivor's clients did not get on"
    assert runs_postgres(survivor)
    assert "Traceback" not in survivor.output, survivor.output
    supervisor.start()
    for gateway in gateways:
        found = {int(n) for (n,) in until_answered(gateway.server, "SELECT n FROM journal")}
        assert set(acknowledged) <= found
    assert run_sluice("check", "--data-dir", str(survivor.data_dir)).returncode == 0


def test_a_catalog_that_dies_is_started_again_by_its_gateway(
    gateways: tuple[GatewayProcess, GatewayProcess],
) -> None:
    supervisor, other = gateways
    other.server.psql("-qc", "CREATE TABLE IF NOT EXISTS here (n integer)")
    other.server.psql("-qc", "INSERT INTO here VALUES (1)")
    postmaster, *_ = (supervisor.data_dir / "catalog/cluster/postmaster.pid").read_text().splitlines()
    os.kill(int(postmaster), signal.SIGKILL)
    for gateway in gateways:
        assert until_answered(gateway.server, "SELECT count(*) > 0 FROM here") == [["True"]]
    assert runs_postgres(supervisor)


def test_a_catalog_of_ones_own_is_shared_by_name() -> None:
    """`--catalog` and `--data-path`: each gateway has a data directory of its own, for its certificate and its logs."""
    with open_directory("by-name") as directory:
        postgres, server = start_oracle(directory)
        try:
            server.superuser.psql("-qc", "CREATE DATABASE shared OWNER sluice", "-d", "postgres")
            dsn = f"postgresql://postgres@{server.host}:{server.port}/shared"
            arguments = ("--catalog", dsn, "--data-path", str(directory / "lake"))
            one = GatewayProcess(directory / "one", arguments=arguments, user="sluice")
            other = GatewayProcess(directory / "other", arguments=arguments, user="sluice")
            with one, other:
                one.server.psql("-qc", "CREATE TABLE t AS SELECT n FROM generate_series(1, 1000) n")
                assert other.server.query("SELECT sum(n) FROM t") == [["500500"]]
                other.server.psql("-qc", "ALTER TABLE t RENAME n TO m")
                other.server.psql("-qc", "DELETE FROM t WHERE m > 10")
                assert one.server.query("SELECT sum(m) FROM t") == [["55"]]
        finally:
            asyncio.run(postgres.stop())
