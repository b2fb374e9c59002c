"""TPC-H at scale 0.1 through psql alone: its 22 answers are PostgreSQL's own, character for character."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.clients import tpch
from tests.servers import Server

SCALE = 0.1
SCHEMA = "tpch"
ROWS = {"lineitem": 600572, "orders": 150000, "partsupp": 80000, "part": 20000, "customer": 15000, "supplier": 1000}


def run(server: Server, *arguments: str, sql: str | None = None) -> str:
    """A psql in the schema, with PostgreSQL's default output."""
    return server.psql("-q", "-v", "ON_ERROR_STOP=1", "-c", f"SET search_path = {SCHEMA}", *arguments, sql=sql).stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tpch.generate(tmp_path_factory.mktemp("tpch"), SCALE)


def load(server: Server, data: Path) -> Server:
    server.psql("-qc", f"CREATE SCHEMA {SCHEMA}")
    server.psql("-q", "-v", "ON_ERROR_STOP=1", sql=f"SET search_path = {SCHEMA};\n{tpch.SCHEMA}")
    for table in tpch.TABLES:
        run(server, "-c", tpch.copy_command(table, data))
    return server


@pytest.fixture(scope="module")
def servers(oracle: Server, gateway: Server, data: Path) -> Iterator[tuple[Server, Server]]:
    with ThreadPoolExecutor(2) as pool:
        loaded = pool.map(load, (oracle, gateway), (data, data))
        oracle, gateway = loaded
    oracle.psql("-q", "-v", "ON_ERROR_STOP=1", sql=f"SET search_path = {SCHEMA};\n{tpch.ORACLE_INDEXES}")
    yield oracle, gateway
    for server in (oracle, gateway):
        server.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {SCHEMA} CASCADE")


def test_all_queries_are_there() -> None:
    assert [path.name for path in tpch.query_files()] == [f"q{n:02d}.sql" for n in range(1, 23)]


@pytest.mark.parametrize("table", ROWS)
def test_rows_arrived(servers: tuple[Server, Server], table: str) -> None:
    for server in servers:
        assert run(server, "-At", "-c", f"SELECT count(*) FROM {table}") == f"{ROWS[table]}\n"


@pytest.mark.turns
@pytest.mark.parametrize("query", tpch.query_files(), ids=lambda path: path.stem)
def test_query(servers: tuple[Server, Server], query: Path) -> None:
    oracle, gateway = servers
    wanted = run(oracle, "-f", str(query))
    assert wanted.count("\n") > 3
    assert run(gateway, "-f", str(query)) == wanted
