"""A session that changes schemas in a block, and another session."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import GatewayProcess


@pytest.fixture
def block(gateway_process: GatewayProcess, schema: str) -> Iterator[psycopg.Connection]:
    """A session with a table of three rows, which is about to begin a block."""
    url = gateway_process.server.url
    with psycopg.connect(url, autocommit=True) as others:
        others.execute(f"CREATE TABLE {schema}.t (id integer PRIMARY KEY, n integer, name text)".encode())
        others.execute(f"INSERT INTO {schema}.t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')".encode())
    with psycopg.connect(url, options=f"-csearch_path={schema}") as connection:
        yield connection


@pytest.fixture
def other(gateway_process: GatewayProcess, schema: str) -> Iterator[psycopg.Connection]:
    """Somebody else, who waits for nobody."""
    options = f"-csearch_path={schema} -cstatement_timeout=60s"
    with psycopg.connect(gateway_process.server.url, options=options, autocommit=True) as connection:
        yield connection
