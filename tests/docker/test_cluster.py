"""The processes of docker/compose.yaml, by the same commands without containers: catalog, Spark cluster, two
gateways."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.servers import (
    GatewayProcess,
    Server,
    free_port,
    open_directory,
    run_sluice,
    start_oracle,
    wait_until_gone,
)

ROOT = Path(__file__).parents[2]
SERVICES = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
_SECONDS_MAX = 60.0


def entry_point(service: str) -> list[str]:
    """The command of a service, as the compose file has it."""
    program, *arguments = SERVICES[service]["entrypoint"]
    return [str(Path(sys.executable).parent / program), *arguments]


def start_daemon(stack: ExitStack, log: Path, command: list[str], until: str, options: str = "") -> None:
    """Start a part of the cluster and wait until its log says that it is up."""
    # As in the image, Spark's scripts must find the Python that has PySpark.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_MASTER_OPTS"] = options
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)

    def end() -> None:
        process.send_signal(signal.SIGTERM)
        wait_until_gone({process.pid})
        process.wait()

    stack.callback(end)
    deadline = time.monotonic() + _SECONDS_MAX
    while until not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


@pytest.fixture(scope="module")
def gateways() -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    with ExitStack() as stack:
        directory = stack.enter_context(open_directory("cluster"))
        postgres, catalog = start_oracle(directory)
        stack.callback(lambda: asyncio.run(postgres.stop()))
        port = free_port()
        master = [*entry_point("spark-master"), "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        start_daemon(
            stack,
            directory / "master.log",
            master,
            "New state: ALIVE",
            SERVICES["spark-master"]["environment"]["SPARK_MASTER_OPTS"],
        )
        url = f"spark://127.0.0.1:{port}"
        worker = [*entry_point("spark-worker"), "--work-dir", str(directory / "work"), "--webui-port", "0"]
        worker += ["--host", "127.0.0.1", "--cores", "2", "--memory", "2g", url]
        start_daemon(stack, directory / "worker.log", worker, "Successfully registered with master")
        arguments = ("--catalog", catalog.superuser.url, "--spark", url, "--data-path", str(directory / "lake"))
        first, second = (
            GatewayProcess(
                directory / name, arguments=arguments, environment={"SPARK_LOCAL_IP": "127.0.0.1"}, user=catalog.user
            )
            for name in ("first", "second")
        )
        yield stack.enter_context(first), stack.enter_context(second)


@pytest.fixture
def cluster(gateways: tuple[GatewayProcess, GatewayProcess]) -> GatewayProcess:
    """The first of them."""
    return gateways[0]


def test_a_statement_of_each_kind(cluster: GatewayProcess) -> None:
    server: Server = cluster.server
    server.psql("-qc", "CREATE TABLE item (id integer, name text)")
    server.psql("-q", sql="COPY item FROM STDIN;\n1\tone\n2\ttwo\n3\tthree\n\\.\n")
    server.psql("-qc", "INSERT INTO item SELECT n, 'item ' || n FROM generate_series(4, 1000) AS n")
    server.psql("-qc", "UPDATE item SET name = upper(name) WHERE id % 2 = 0")
    server.psql("-qc", "DELETE FROM item WHERE id % 5 = 0")
    assert server.query("SELECT count(*), sum(id) FROM item") == [["800", str(1000 * 1001 // 2 - 5 * (200 * 201 // 2))]]
    assert server.query("SELECT id, name FROM item WHERE id < 5 ORDER BY id") == [
        ["1", "one"], ["2", "TWO"], ["3", "three"], ["4", "ITEM 4"],
    ]  # fmt: skip


def test_the_executors_are_the_clusters(cluster: GatewayProcess) -> None:
    """The gateway's own JVM only drives; the work happens below the worker."""
    assert cluster.server.query("SELECT count(*) FROM generate_series(1, 10)") == [["10"]]
    log = (cluster.data_dir.parent / "worker.log").read_text()
    assert "Asked to launch executor" in log


def test_what_one_gateway_writes_the_other_reads_at_once(gateways: tuple[GatewayProcess, GatewayProcess]) -> None:
    """Both are applications of one cluster, each with its share of the cores, and their executors write one lake."""
    first, second = (gateway.server for gateway in gateways)
    first.psql("-qc", "CREATE TABLE shared (id integer, name text)")
    for round_number in range(3):
        for writer, reader in ((first, second), (second, first)):
            writer.psql("-qc", f"INSERT INTO shared SELECT n, '{round_number}' FROM generate_series(1, 100) AS n")
            writer.psql("-qc", "UPDATE shared SET id = id + 1")
            writer.psql("-qc", "DELETE FROM shared WHERE id > 100")
            assert reader.query("SELECT * FROM shared ORDER BY 1, 2") == writer.query(
                "SELECT * FROM shared ORDER BY 1, 2"
            )
    assert first.query("SELECT name, count(*) FROM shared GROUP BY 1 ORDER BY 1") == [
        ["0", "189"], ["1", "193"], ["2", "197"],
    ]  # fmt: skip
    log = (gateways[0].data_dir.parent / "worker.log").read_text()
    assert len({line.split("/")[0] for line in log.split("Asked to launch executor ")[1:]}) == 2


def test_check(cluster: GatewayProcess) -> None:
    catalog = cluster.arguments[cluster.arguments.index("--catalog") + 1]
    checked = run_sluice("check", "--data-dir", str(cluster.data_dir), "--catalog", catalog)
    assert checked.returncode == 0, checked.stdout + checked.stderr
