"""docker/compose.yaml itself, in containers: two gateways behind one address. Run by tests/docker/run."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self

import psycopg
import pytest

pytestmark = pytest.mark.containers

COMPOSE_FILE: Final = Path(__file__).parents[2] / "docker" / "compose.yaml"
_START_SECONDS_MAX: Final = 180.0
# A stopped gateway ends its sessions within its --grace of 8 seconds; HAProxy asks each second and counts to two.
_GAP_SECONDS_MAX: Final = 30.0
# Each row is a file: so many that a client is always at it, few enough for `sluice check` to read them all.
_PAUSE_SECONDS: Final = 0.05
# What a client is told that may come again: its server goes, or none is there yet.
_RETRIED: Final = {None, "57P01", "57P02", "57P03", "08006"}


def url() -> str:
    """The address that the compose file promises in its head."""
    match = re.search(r"^# Then: psql (postgresql://\S+)$", COMPOSE_FILE.read_text(), re.MULTILINE)
    assert match is not None
    return match[1]


def compose(*arguments: str) -> str:
    """Run the compose command; its standard output. A failure raises with what it said."""
    command = [*os.environ["SLUICE_COMPOSE"].split(), "--project-name", "sluice-test", "--file", str(COMPOSE_FILE)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def ask(sql: str, address: str = "") -> list[tuple[object, ...]]:
    """A statement's rows, over a connection of its own."""
    with psycopg.connect(address or url(), autocommit=True, connect_timeout=10) as connection:
        return connection.execute(sql.encode()).fetchall()


def carry_out(*statements: str) -> None:
    """Statements without rows, over one connection."""
    with psycopg.connect(url(), autocommit=True, connect_timeout=10) as connection:
        for sql in statements:
            connection.execute(sql.encode())


def ask_inside(host: str, sql: str) -> str:
    """A statement's rows as psql prints them, asked for from within the network, of one service."""
    address = url().replace("127.0.0.1", host)
    return compose("exec", "-T", "postgres", "psql", "--no-psqlrc", "-qAt", address, "-c", sql).strip()


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Wait for something, and for whoever cannot be asked yet."""
    deadline = time.monotonic() + _START_SECONDS_MAX
    while True:
        what_else: Exception | None = None
        try:
            if true():
                return
        except (psycopg.Error, AssertionError) as error:
            what_else = error
        assert time.monotonic() < deadline, f"{what}: {what_else}"
        time.sleep(0.5)


def serving() -> set[tuple[object, ...]]:
    """The gateways that the catalog hears, by number and address. One that is started again has another number."""
    return set(ask("SELECT number, address FROM pg_sluice.nodes WHERE state = 'serving'"))


def restarted(before: set[tuple[object, ...]], gateway: str) -> bool:
    """Whether this one of two gateways serves again, anew, and the other is the one that was there before."""
    now = serving()
    return {address for _, address in now - before} == {f"{gateway}:5433"} and len(now & before) == 1


@pytest.fixture(scope="module", autouse=True)
def containers() -> Iterator[None]:
    """Everything that the file names, started; afterwards nothing of it is left."""
    try:
        compose("up", "-d", "--no-build")
        wait_until(lambda: len(serving()) == 2, "two gateways")
        yield
    finally:
        compose("down", "--volumes")


def test_a_first_session() -> None:
    """psql's own words at the address in the file's head; the work is done by the cluster's worker."""
    script = """
        CREATE TABLE item (id integer PRIMARY KEY, name text);
        INSERT INTO item SELECT n, 'item ' || n FROM generate_series(1, 1000) AS n;
        UPDATE item SET name = upper(name) WHERE id % 2 = 0;
        DELETE FROM item WHERE id % 5 = 0;
        SELECT count(*), sum(id), min(name) FROM item;
    """
    done = subprocess.run(
        ["psql", "--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", url()],
        input=script, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "800|400000|ITEM 102\n", "")
    assert "Asked to launch executor" in compose("logs", "spark-worker")


def test_nobody_gets_in_without_the_password() -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        ask("SELECT 1", url().replace(":sluice@", ":wrong@"))
    with pytest.raises(psycopg.OperationalError, match="has rights on the catalog itself"):
        ask("SELECT 1", url().replace("sluice:sluice@", "postgres:catalog@"))


def test_what_is_written_through_one_is_read_through_the_other_and_at_the_address() -> None:
    ask_inside("gateway-1", "CREATE TABLE shared (id integer, name text)")
    for round_number in range(3):
        for writer, reader in (("gateway-1", "gateway-2"), ("gateway-2", "gateway-1")):
            ask_inside(writer, f"INSERT INTO shared SELECT n, '{round_number}' FROM generate_series(1, 100) AS n")
            expected = ask_inside(writer, "SELECT count(*), sum(id) FROM shared")
            assert ask_inside(reader, "SELECT count(*), sum(id) FROM shared") == expected
    ask_inside("gateway-2", "ALTER TABLE shared RENAME COLUMN name TO title")
    assert ask_inside("gateway-1", "SELECT count(*), min(title) FROM shared") == "600|0"
    assert ask_inside("gateway", "SELECT count(*), max(title) FROM shared") == "600|2"
    assert ask("SELECT count(*), max(title) FROM shared") == [(600, "2")]


def inside_gateway(*command: str) -> str:
    """What a command prints in a gateway's container, with its environment."""
    return compose("exec", "-T", "gateway-1", *command)


def test_the_lake_is_in_the_bucket() -> None:
    carry_out(
        "CREATE TABLE kept (id integer)",
        "INSERT INTO kept SELECT n FROM generate_series(1, 50000) AS n",
    )
    assert ask("SELECT count(*), sum(id)::bigint FROM kept") == [(50_000, 1_250_025_000)]
    script = """
from pyarrow.fs import FileSelector, S3FileSystem
store = S3FileSystem(endpoint_override="object-store:7070", scheme="http", region="us-east-1")
print(*(found.path for found in store.get_file_info(FileSelector("lake", recursive=True))), sep="\\n")
"""
    paths = inside_gateway("python", "-c", script).split()
    assert any(path.startswith("lake/sluice/public/kept-") and path.endswith(".parquet") for path in paths), paths
    on_disk = inside_gateway("find", "/data", "-name", "*.parquet").split()
    assert all(path.startswith("/data/copies-") for path in on_disk), on_disk


def test_the_bucket_is_made_once() -> None:
    before = ask("SELECT count(*), sum(id)::bigint FROM kept")
    compose("run", "--rm", "bucket")
    assert ask("SELECT count(*), sum(id)::bigint FROM kept") == before


class Inserting(threading.Thread):
    """A client that inserts one row after the other, and connects again whenever it is cut off."""

    def __init__(self, table: str) -> None:
        super().__init__(daemon=True)
        self.table = table
        self.attempted = 0
        self.acknowledged: set[int] = set()
        self.told: list[str | None] = []
        self.unexpected: list[psycopg.Error] = []
        self.longest_gap = 0.0
        self._done = threading.Event()

    def run(self) -> None:
        last = time.monotonic()
        while not self._done.is_set():
            try:
                with psycopg.connect(url(), autocommit=True, connect_timeout=5) as connection:
                    while not self._done.is_set():
                        self.attempted += 1
                        connection.execute(f"INSERT INTO {self.table} VALUES ({self.attempted})".encode())
                        self.acknowledged.add(self.attempted)
                        self.longest_gap = max(self.longest_gap, time.monotonic() - last)
                        last = time.monotonic()
                        time.sleep(_PAUSE_SECONDS)
            except psycopg.Error as error:
                self.told.append(error.sqlstate)
                if error.sqlstate not in _RETRIED:
                    self.unexpected.append(error)
                time.sleep(0.1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self.join(60)

    def wait_for_more(self) -> None:
        """Wait until it has had an answer to something that it asked from now on."""
        enough = len(self.acknowledged) + 2
        wait_until(lambda: len(self.acknowledged) >= enough, "a row more")


@contextmanager
def client_at_work(table: str) -> Iterator[Inserting]:
    """A client that inserts meanwhile; afterwards no acknowledged row may be missing, none be there twice."""
    carry_out(f"CREATE TABLE {table} (id integer)")
    with Inserting(table) as client:
        client.wait_for_more()
        yield client
        client.wait_for_more()
    rows = [number for (number,) in ask(f"SELECT id FROM {table}")]
    print(f"\n{len(rows)} rows, longest gap {client.longest_gap:.1f} s, told {client.told}")
    assert not client.unexpected
    assert len(rows) == len(set(rows))
    assert client.acknowledged <= set(rows) <= set(range(1, client.attempted + 1))
    assert client.longest_gap < _GAP_SECONDS_MAX


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_client_gets_on_while_each_gateway_goes_in_turn(how: str) -> None:
    with client_at_work(f"going_{how}") as client:
        for gateway in ("gateway-1", "gateway-2"):
            before = serving()
            compose(how, gateway)
            client.wait_for_more()
            compose("start", gateway)
            wait_until(partial(restarted, before, gateway), f"{gateway} again")
    # Whoever was at the gateway that went was cut off, so the client cannot have had one session all along.
    assert client.told


def test_the_catalog_restarts_under_a_client_at_work() -> None:
    with client_at_work("restarted") as client:
        compose("restart", "postgres")
        client.wait_for_more()
    wait_until(lambda: len(serving()) == 2, "two gateways")


def test_a_running_statement_is_cancelled_through_the_address() -> None:
    """A CancelRequest comes over a connection of its own, which must lead to the same gateway."""
    carry_out("CREATE TABLE big (id integer)", "INSERT INTO big SELECT n FROM generate_series(1, 200000) AS n")
    with psycopg.connect(url(), autocommit=True) as connection:
        timer = threading.Timer(3, connection.cancel)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT count(*) FROM big AS a, big AS b WHERE a.id * b.id % 7 = 3 AND a.id < b.id")
        timer.cancel()
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_check() -> None:
    catalog = "postgresql://postgres:catalog@postgres:5432/sluice"
    program = "/sluice/.venv/bin/sluice"
    assert compose("exec", "-T", "gateway-1", program, "check", "--data-dir=/data", f"--catalog={catalog}")
