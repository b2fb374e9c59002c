"""The processes of docker/compose.yaml, by the same commands without containers: catalog, object store, Spark cluster,
two gateways.

Two parts come from elsewhere: the S3 server is moto's, in this process, and Hadoop's file system for it is the one of
`stand-ins/S3AFileSystem.java`, which reads over HTTP by the same settings.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from tests.docker.compose_file import command, environment
from tests.object_store.s3_server import S3Server
from tests.servers import (
    GatewayProcess,
    Server,
    descendants,
    free_port,
    open_directory,
    run_sluice,
    start_oracle,
    wait_until_gone,
)

pytestmark = pytest.mark.soak

_BIN = Path(sys.executable).parent
_SECONDS_MAX = 60.0
_BUCKET, _PREFIX = "lake", "sluice/"
_STAND_IN = "Hadoop stand-in"
_SECRET = "a-key-that-nobody-else-has"
_LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
# Given anew below: where the gateway's files are, and where it listens.
_OF_CONTAINERS = ("--data-dir=", "--listen=")


@dataclass(frozen=True)
class Composed:
    """What the compose file starts."""

    gateways: tuple[GatewayProcess, GatewayProcess]
    store: S3Server
    directory: Path
    environment: Mapping[str, str]

    @property
    def servers(self) -> tuple[Server, Server]:
        """Both gateways, as clients see them."""
        return self.gateways[0].server, self.gateways[1].server

    def objects(self) -> dict[str, int]:
        """The objects of the lake and their sizes."""
        return objects(self.store)


def objects(store: S3Server) -> dict[str, int]:
    """What is in the bucket."""
    pages = store.client.get_paginator("list_objects_v2").paginate(Bucket=_BUCKET)
    return {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", [])}


def empty(store: S3Server) -> None:
    """Remove the bucket, for the server keeps everything in this process."""
    for key in objects(store):
        store.client.delete_object(Bucket=_BUCKET, Key=key)
    store.client.delete_bucket(Bucket=_BUCKET)


def as_in_image(added: Mapping[str, str]) -> dict[str, str]:
    """An environment in which Spark's scripts find the Python that has PySpark."""
    return {**os.environ, "PATH": f"{_BIN}:{os.environ['PATH']}", **_LOOPBACK, **added}


def start_daemon(stack: ExitStack, log: Path, words: list[str], until: str, added: Mapping[str, str]) -> None:
    """Start a part of the cluster and wait until its log says that it is up."""
    program, *arguments = words
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(_BIN / program), *arguments],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=as_in_image({"SPARK_DAEMON_MEMORY": "256m", **added}),
        )

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


def make_jar(folder: Path) -> None:
    """The stand-in for Hadoop's file system, compiled, as the image has Hadoop's own."""
    home = os.environ.get("JAVA_HOME")
    compiler = shutil.which("javac", path=f"{home}/bin" if home else None) or shutil.which("javac")
    assert compiler is not None, "no javac: tests/run installs one"
    source = Path(__file__).parent / "stand-ins" / "S3AFileSystem.java"
    classes = folder / "classes"
    classes.mkdir(parents=True)
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    subprocess.run([compiler, "-cp", str(jars), "-d", str(classes), str(source)], check=True)
    with zipfile.ZipFile(folder / "hadoop-aws.jar", "w") as jar:
        for each in classes.rglob("*.class"):
            jar.write(each, each.relative_to(classes))


def make_bucket(places: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """What the service `bucket` does."""
    program, *arguments = command("bucket", places)
    return subprocess.run(
        [str(_BIN / program), *arguments],
        env=as_in_image(environment("bucket", places)),
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS_MAX,
    )


@pytest.fixture(scope="module")
def places() -> dict[str, str]:
    """Where on this machine that is which the compose file has in containers; filled while it starts."""
    return {"$STORE_PASSWORD": _SECRET}


@pytest.fixture(scope="module")
def composed(places: dict[str, str]) -> Iterator[Composed]:
    with ExitStack() as stack:
        directory = stack.enter_context(open_directory("cluster"))
        store = stack.enter_context(S3Server())
        places |= {"http://object-store:7070": store.endpoint, "/sluice/hadoop-aws": str(directory / "hadoop-aws")}
        make_jar(directory / "hadoop-aws")
        made = make_bucket(places)
        assert made.returncode == 0, made.stderr
        stack.callback(empty, store)
        postgres, catalog = start_oracle(directory)
        stack.callback(lambda: asyncio.run(postgres.stop()))
        places["postgresql://postgres:catalog@postgres:5432/sluice"] = catalog.superuser.url
        port = str(free_port())
        places |= {"spark-master": "127.0.0.1", "7077": port, "spark-master:7077": f"127.0.0.1:{port}"}
        places |= {"8080": "0", "8081": "0", "/tmp/spark-work": str(directory / "work")}
        master, worker = command("spark-master", places), command("spark-worker", places)
        worker[2:2] = ["--host", "127.0.0.1", "--memory", "2g"]
        added = environment("spark-master", places)
        start_daemon(stack, directory / "master.log", master, "New state: ALIVE", added)
        added = environment("spark-worker", places)
        start_daemon(stack, directory / "worker.log", worker, "Successfully registered with master", added)
        processes = []
        for name in ("gateway-1", "gateway-2"):
            arguments = tuple(each for each in command(name, places) if not each.startswith(_OF_CONTAINERS))
            added = environment(name, places)
            process = GatewayProcess(
                directory / name, arguments=arguments, environment={**_LOOPBACK, **added}, user=catalog.user
            )
            processes.append(stack.enter_context(process))
        first, second = processes
        yield Composed((first, second), store, directory, added)


def test_a_statement_of_each_kind(composed: Composed) -> None:
    server, _ = composed.servers
    server.psql("-qc", "CREATE TABLE item (id integer, name text)")
    server.psql("-q", sql="COPY item FROM STDIN;\n1\tone\n2\ttwo\n3\tthree\n\\.\n")
    server.psql("-qc", "INSERT INTO item SELECT n, 'item ' || n FROM generate_series(4, 1000) AS n")
    server.psql("-qc", "UPDATE item SET name = upper(name) WHERE id % 2 = 0")
    server.psql("-qc", "DELETE FROM item WHERE id % 5 = 0")
    assert server.query("SELECT count(*), sum(id) FROM item") == [["800", str(1000 * 1001 // 2 - 5 * (200 * 201 // 2))]]
    assert server.query("SELECT id, name FROM item WHERE id < 5 ORDER BY id") == [
        ["1", "one"], ["2", "TWO"], ["3", "three"], ["4", "ITEM 4"],
    ]  # fmt: skip


def test_the_executors_are_the_clusters(composed: Composed) -> None:
    """The gateway's own JVM only drives; the work happens below the worker."""
    assert composed.servers[0].query("SELECT count(*) FROM generate_series(1, 10)") == [["10"]]
    assert "Asked to launch executor" in (composed.directory / "worker.log").read_text()


def test_what_one_gateway_writes_the_other_reads_at_once(composed: Composed) -> None:
    """Both are applications of one cluster, each with its share of the cores, over one lake."""
    first, second = composed.servers
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
    log = (composed.directory / "worker.log").read_text()
    assert len({line.split("/")[0] for line in log.split("Asked to launch executor ")[1:]}) == 2


def test_the_files_are_objects_that_executors_read_themselves(composed: Composed) -> None:
    """Rows of both ways in bulk, through one gateway, and read through the other, by its executors."""
    first, second = composed.servers
    before = composed.objects().keys()
    first.psql("-qc", "CREATE TABLE bulk (id integer PRIMARY KEY, part integer, name text)")
    source = "SELECT n, n % 10, 'row ' || n FROM generate_series(1, 60000) AS n"
    first.psql("-qc", f"SET sluice.engine = 'spark'; INSERT INTO bulk {source}")
    rows = "".join(f"{number}\t{number % 10}\trow {number}\n" for number in range(60_001, 100_001))
    first.psql("-q", sql=f"COPY bulk FROM STDIN;\n{rows}\\.\n")
    added = composed.objects().keys() - before
    assert any(key.endswith(".parquet") for key in added), added
    assert all(key.startswith(_PREFIX) for key in added), added
    composed.store.requests.clear()
    question = "SELECT part, count(*), sum(id)::bigint, max(name) FROM bulk GROUP BY part ORDER BY part"
    by_part = [range(part or 10, 100_001, 10) for part in range(10)]
    expected = [
        [str(part), str(len(ids)), str(sum(ids)), max(f"row {n}" for n in ids)] for part, ids in enumerate(by_part)
    ]
    assert second.query(f"SET sluice.engine = 'spark'; {question}") == expected
    asked = {
        request.path.removeprefix(f"/{_BUCKET}/") for request in composed.store.requests if request.agent == _STAND_IN
    }
    assert asked & added, "Spark reads the store, and not what its gateway has fetched"


def test_on_disk_are_copies_only(composed: Composed) -> None:
    composed.servers[1].psql("-qc", "CREATE TABLE somewhere AS SELECT n FROM generate_series(1, 5000) AS n")
    assert any(key.endswith(".parquet") for key in composed.objects())
    files = [path.relative_to(composed.directory).parts for path in composed.directory.rglob("*.parquet")]
    assert files
    assert all(folder.startswith("copies-") for _, folder, *_ in files), files


def test_the_bucket_is_made_once(composed: Composed, places: dict[str, str]) -> None:
    before = composed.objects()
    again = make_bucket(places)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert composed.objects() == before


def test_check(composed: Composed, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment of a gateway's container it needs no word about the object store."""
    for name, value in composed.environment.items():
        monkeypatch.setenv(name, value)
    catalog = next(each for each in composed.gateways[0].arguments if each.startswith("--catalog="))
    checked = run_sluice("check", "--data-dir", str(composed.gateways[0].data_dir), catalog)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_no_log_and_no_command_line_has_the_key(composed: Composed) -> None:
    said = {path.name for path in composed.directory.rglob("*") if _has(path, _SECRET)}
    assert not said
    assert all(_SECRET not in process.output for process in composed.gateways)
    lines = {Path(f"/proc/{number}/cmdline") for number in descendants(os.getpid())}
    assert len(lines) > len(composed.gateways)
    assert not {path for path in lines if _has(path, _SECRET)}


def _has(path: Path, text: str) -> bool:
    try:
        return path.is_file() and text.encode() in path.read_bytes()
    except OSError:  # it is gone
        return False
