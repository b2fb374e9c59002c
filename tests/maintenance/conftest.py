"""A gateway for these tests alone: they choose the retention of the whole lake."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
import pytest

from tests.conftest import _NUMBERS
from tests.forks import ask_sluice
from tests.servers import GatewayProcess, Server, open_directory


@pytest.fixture(scope="module")
def kept() -> Iterator[GatewayProcess]:
    """Without maintenance in the background."""
    with open_directory("maintenance") as directory, GatewayProcess(directory / "data") as process:
        yield process


@pytest.fixture
def lake(kept: GatewayProcess) -> Iterator[Server]:
    """The gateway with an empty schema, in which its sessions live; whole in the end."""
    server = kept.server
    name = f"kept_{next(_NUMBERS)}"
    server.psql("-qc", f"CREATE SCHEMA {name}")
    server.psql("-qc", f"ALTER ROLE CURRENT_USER SET search_path = {name}")
    retain(server, None)
    yield server
    checked = ask_sluice("check", "--data-dir", str(kept.data_dir))
    assert checked.stdout == "the lake is consistent\n"
    server.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {name} CASCADE")


def retain(server: Server, interval: str | None) -> None:
    """Set the lake's retention, or (None) what it is by itself."""
    to = "RESET sluice.retention" if interval is None else f"SET sluice.retention = '{interval}'"
    server.psql("-qc", f"ALTER DATABASE {server.database} {to}")


def connect(server: Server, *, autocommit: bool = False) -> psycopg.Connection:
    return psycopg.connect(server.url, autocommit=autocommit)


def files_of(server: Server, table: str) -> int:
    """How many data files the table has now."""
    return int(server.query(f"SELECT files FROM pg_sluice.table_sizes WHERE relation = '{table}'::regclass")[0][0])


def read_and_skipped(server: Server, query: str) -> tuple[int, int]:
    """How many files EXPLAIN says that the query reads, and how many it leaves out."""
    plan = "\n".join(row[0] for row in server.query(f"EXPLAIN {query}"))
    found = re.search(r"Files: (\d+) scanned, (\d+) skipped", plan)
    assert found is not None, plan
    return int(found[1]), int(found[2])


@contextmanager
def changing(connection: psycopg.Connection, table: str, numbers: Sequence[int], change: str) -> Iterator[list[int]]:
    """Meanwhile delete the row with each number as id, and change the next one. Yields the numbers that are done."""
    stop, done, faults = threading.Event(), list[int](), list[psycopg.Error]()

    def run() -> None:
        try:
            for number in numbers:
                if stop.is_set():
                    return
                connection.execute(f"DELETE FROM {table} WHERE id = %s".encode(), [number])
                connection.execute(f"UPDATE {table} SET {change} WHERE id = %s".encode(), [number + 1])
                done.append(number)
        except psycopg.Error as fault:
            faults.append(fault)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()
    assert not faults
    assert done


def snapshots(server: Server) -> int:
    return int(server.query("SELECT count(*) FROM pg_sluice.snapshots")[0][0])
