"""Queries that a client cancels, or leaves, again and again keep no other from Spark.

Spark analyses calls that nest deeply for seconds, and looks for no cancel meanwhile: each goes on in a thread of the
engine's, of which there are 64.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from tests.servers import Server

_NESTED = f"{'abs(' * 110}n{')' * 110}"
_TIMES = 70


@pytest.fixture(scope="module")
def table(gateway: Server) -> Iterator[str]:
    gateway.psql("-qc", "CREATE TABLE abandoned (n integer)", "-c", "INSERT INTO abandoned VALUES (1)")
    gateway.psql("-qc", "CREATE ROLE impatient LOGIN", "-c", "GRANT SELECT ON abandoned TO impatient")
    yield "abandoned"
    gateway.psql("-qc", "DROP TABLE abandoned", "-c", "DROP ROLE impatient")


def _abandon(connection: psycopg.Connection, query: str) -> None:
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute(query)


@pytest.mark.parametrize(
    "word", [pytest.param("", id="SELECT"), pytest.param("EXPLAIN ", marks=pytest.mark.turns, id="EXPLAIN")]
)
@pytest.mark.parametrize("how", ["one session", "one session after another", "cursors"])
def test_cancelled_queries_hold_few_threads(gateway: Server, table: str, word: str, how: str) -> None:
    url = replace(gateway, user="impatient").url
    options = "-c statement_timeout=50 -c sluice.engine=spark"
    query = f"{word}SELECT {_NESTED} FROM {table}"
    begun = time.monotonic()
    with psycopg.connect(url, autocommit=True, options=options) as connection:
        for number in range(_TIMES):
            if how == "one session":
                _abandon(connection, query)
            elif how == "cursors":
                declare = f"DECLARE c{number} CURSOR FOR SELECT {_NESTED} FROM {table}"
                _abandon(connection, f"BEGIN; {declare}; FETCH c{number}")
                connection.execute("ROLLBACK")
            else:
                with psycopg.connect(url, autocommit=True, options=options) as another:
                    _abandon(another, query)
    abandoned = time.monotonic() - begun
    with psycopg.connect(gateway.url, autocommit=True, options="-c sluice.engine=spark") as other:
        begun = time.monotonic()
        assert other.execute(f"SELECT max(n) FROM {table}").fetchone() == (1,)
        waited = time.monotonic() - begun
    assert waited < 10, f"{_TIMES} queries were abandoned within {abandoned:.0f} seconds"


def test_a_role_named_like_work_of_the_gateway_does_not_stop_it(gateway: Server, table: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True, options="-c sluice.hot_rows=0") as owner:
        owner.execute("CREATE TABLE sorted_rows (n integer) WITH (sluice.sort_by = 'n')")
        for _ in range(2):
            owner.execute("INSERT INTO sorted_rows SELECT g FROM generate_series(1, 1000) g")
        [(name,)] = owner.execute("SELECT 'compaction-' || 'sorted_rows'::regclass::oid").fetchall()
        owner.execute(f'CREATE ROLE "{name}" LOGIN; GRANT SELECT ON {table} TO "{name}"'.encode())
        options = "-c statement_timeout=50 -c sluice.engine=spark"
        for _ in range(9):
            with psycopg.connect(replace(gateway, user=name).url, autocommit=True, options=options) as left:
                _abandon(left, f"SELECT {_NESTED} FROM {table}")
        begun = time.monotonic()
        owner.execute("VACUUM FULL sorted_rows")
        assert time.monotonic() - begun < 10
        owner.execute(f'DROP TABLE sorted_rows; REVOKE ALL ON {table} FROM "{name}"; DROP ROLE "{name}"'.encode())
