"""Statements whose executor is killed: they succeed by another attempt, and nothing is written twice or left over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.cluster.workers import LOOPBACK, Cluster
from tests.forks import ask_sluice
from tests.servers import GatewayProcess, open_directory, sqlstate_of

_ROWS = 400_000
# Of the executors' processor time: what a statement has cost them when one is killed. It costs a multiple.
_BEGUN_SECONDS = 1.0
# A condition that takes a while for each row, and is true for all.
_SLOW = "length(regexp_replace(repeat(md5(n::text), 10), '[0-9]+', '-', 'g')) > 0"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with open_directory("lossy") as directory, Cluster(directory / "spark") as running:
        yield running


@pytest.fixture(scope="module")
def gateway_process(cluster: Cluster) -> Iterator[GatewayProcess]:
    arguments = ("--engine", "spark", "--spark", cluster.url, "--spark-conf", "spark.sql.files.maxPartitionBytes=200k")
    with (
        open_directory("of-cluster") as directory,
        GatewayProcess(directory / "data", arguments=arguments, environment=LOOPBACK) as process,
    ):
        rows = f"SELECT n, n % 7 AS g FROM generate_series(1, {_ROWS}) n"
        process.server.psql("-qc", f"CREATE TABLE source AS {rows}")
        yield process


def lose_one(cluster: Cluster, process: GatewayProcess, *statements: str) -> float:
    """Carry statements out, and kill an executor while the last one runs; how long it ran after that."""
    ended: list[float] = []
    with psycopg.connect(process.server.url, autocommit=True) as connection:
        *before, last = statements
        for statement in before:
            connection.execute(statement.encode())

        def run() -> None:
            try:
                connection.execute(last.encode())
            finally:
                ended.append(time.monotonic())

        thread = threading.Thread(target=run)
        used = cluster.seconds()
        thread.start()
        while thread.is_alive() and cluster.seconds() < used + _BEGUN_SECONDS:
            time.sleep(0.02)
        killed = time.monotonic()
        assert thread.is_alive(), "the statement had ended before"
        cluster.lose_an_executor()
        thread.join()
    return ended[0] - killed


@pytest.fixture(autouse=True)
def consistent(gateway_process: GatewayProcess, cluster: Cluster) -> Iterator[None]:
    """After each test the lake is as the catalog says, and the cluster whole again."""
    yield
    checked = ask_sluice("check", "--data-dir", str(gateway_process.data_dir)).stdout.splitlines()[:-1]
    assert [line for line in checked if "lacks a sidecar" not in line] == []
    deadline = time.monotonic() + 60
    while len(cluster.executors()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.soak
def test_a_query(gateway_process: GatewayProcess, cluster: Cluster) -> None:
    question = f"SELECT g, count(*), sum(n) FROM source WHERE {_SLOW} GROUP BY g ORDER BY g"
    lose_one(cluster, gateway_process, f"CREATE TABLE of_query AS {question}")
    expected = [[str(g), str(len(r)), str(sum(r))] for g in range(7) for r in [range(g or 7, _ROWS + 1, 7)]]
    assert gateway_process.server.query("SELECT * FROM of_query ORDER BY g") == expected


def test_an_insert(gateway_process: GatewayProcess, cluster: Cluster) -> None:
    server = gateway_process.server
    server.psql("-qc", "CREATE TABLE inserted (n int)")
    lose_one(cluster, gateway_process, f"INSERT INTO inserted SELECT n FROM source WHERE {_SLOW}")
    assert server.query("SELECT count(*), count(DISTINCT n) FROM inserted") == [[str(_ROWS), str(_ROWS)]]


@pytest.mark.soak
def test_an_update(gateway_process: GatewayProcess, cluster: Cluster) -> None:
    server = gateway_process.server
    server.psql("-qc", "CREATE TABLE updated AS SELECT n, g FROM source")
    lose_one(cluster, gateway_process, f"UPDATE updated SET g = g + 10 WHERE {_SLOW}")
    assert server.query("SELECT count(*), count(DISTINCT n), min(g), max(g) FROM updated") == [
        [str(_ROWS), str(_ROWS), "10", "16"]
    ]


@pytest.mark.soak
def test_a_change_of_type(gateway_process: GatewayProcess, cluster: Cluster) -> None:
    server = gateway_process.server
    server.psql("-qc", "CREATE TABLE retyped AS SELECT n, g FROM source")
    lose_one(
        cluster,
        gateway_process,
        f"ALTER TABLE retyped ALTER COLUMN g TYPE text USING CASE WHEN {_SLOW} THEN 'g' || g ELSE '' END",
    )
    assert server.query("SELECT count(*), count(DISTINCT n), min(g), max(g) FROM retyped") == [
        [str(_ROWS), str(_ROWS), "g0", "g6"]
    ]


@pytest.mark.soak
def test_rows_that_are_too_many_to_be_held(gateway_process: GatewayProcess, cluster: Cluster) -> None:
    """A client that reads slowly has some of them when the executor goes: all come, or an error, none twice."""
    seen: list[int] = []
    state: str | None = None
    question = "SELECT a.n::bigint * 100 + b.g * 14 + c.g FROM source a, source b, source c "
    question += "WHERE a.n <= 200000 AND b.n <= 7 AND c.n <= 7"
    with psycopg.connect(gateway_process.server.url) as connection, connection.cursor() as cursor:
        try:
            for row in cursor.stream(question.encode()):
                seen.append(row[0])
                if len(seen) == 300_000:
                    cluster.lose_an_executor()
        except psycopg.Error as error:
            state = error.sqlstate
    assert len(set(seen)) == len(seen)
    assert (state, len(seen)) == (None, 200_000 * 49) or state == "58000"


def test_a_fault_of_the_data_is_told_as_such(gateway_process: GatewayProcess) -> None:
    question = f"SELECT count(*) FROM source WHERE 1 / (n - {_ROWS // 2}) > 2"
    assert sqlstate_of(gateway_process.server, question) == ("22012", "division by zero")
