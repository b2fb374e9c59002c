"""A gateway for these tests alone: they choose the retention of the whole lake."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.conftest import _NUMBERS
from tests.servers import GatewayProcess, Server, open_directory, run_sluice


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
    checked = run_sluice("check", "--data-dir", str(kept.data_dir))
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


def snapshots(server: Server) -> int:
    return int(server.query("SELECT count(*) FROM pg_sluice.snapshots")[0][0])
