"""Statements without scans start no job: they are answered while Spark's JVM is stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import GatewayProcess

_SECONDS_MAX = 60


@pytest.fixture
def connection(gateway_process: GatewayProcess) -> Iterator[psycopg.Connection]:
    """A session with a table of its own, while no thread of the JVM runs."""
    with psycopg.connect(gateway_process.server.url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE without_spark (id integer GENERATED ALWAYS AS IDENTITY, name text NOT NULL,"
            " price numeric(8, 2) DEFAULT 1.5 CHECK (price > 0), twice numeric GENERATED ALWAYS AS (price * 2) STORED)"
        )
        connection.execute(f"SET statement_timeout = '{_SECONDS_MAX}s'")
        machines = [child for child, name in gateway_process.children.items() if name == "java"]
        assert machines
        try:
            for machine in machines:
                os.kill(machine, signal.SIGSTOP)
            yield connection
        finally:
            for machine in machines:
                os.kill(machine, signal.SIGCONT)
        connection.execute("DROP TABLE without_spark")


def test_literal_inserts_and_copies(connection: psycopg.Connection) -> None:
    inserted = connection.execute(
        "INSERT INTO without_spark (name, price) VALUES (%s, %s), ('two', DEFAULT) RETURNING id, twice", ("one", 7)
    )
    assert [(key, str(twice)) for key, twice in inserted.fetchall()] == [(1, "14.00"), (2, "3.00")]
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("INSERT INTO without_spark (name, price) VALUES ('none', 0)")
    with connection.cursor() as cursor, cursor.copy("COPY without_spark (name) FROM STDIN") as copy:
        for number in range(5_000):
            copy.write_row((f"copied {number}",))
    with connection.transaction():
        connection.execute("INSERT INTO without_spark (name) VALUES ('in a block')")
        connection.execute("INSERT INTO without_spark (name) VALUES ('another')")
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_schemas(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE made_meanwhile (n integer, t text)")
    connection.execute("COMMENT ON TABLE made_meanwhile IS 'made'")
    connection.execute("CREATE VIEW seen_meanwhile AS SELECT n FROM made_meanwhile")
    connection.execute("ALTER TABLE made_meanwhile ADD COLUMN d date DEFAULT '2024-01-01'")
    connection.execute("TRUNCATE made_meanwhile")
    connection.execute("DROP VIEW seen_meanwhile")
    connection.execute("DROP TABLE made_meanwhile")


def test_indexes_of_some_rows(connection: psycopg.Connection) -> None:
    """Arrow decides which rows meet the conditions."""
    with connection.cursor() as cursor, cursor.copy("COPY without_spark (name, price) FROM STDIN") as copy:
        for number in range(20_000):
            copy.write_row((f"copied {number}", number % 100 + 1))
    connection.execute("CREATE INDEX dear_ones ON without_spark (name, price) WHERE price > 95 AND name LIKE 'copied%'")
    there = "SELECT files_done, files_total, unused FROM pg_sluice.indexes WHERE index = 'dear_ones'::regclass"
    assert connection.execute(there).fetchone() == (1, 1, None)
