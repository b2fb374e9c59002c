"""INSERT … ON CONFLICT of constants first tries over rows that have their keys: a guess, which changes no answer."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.gateway.both_sides import both_sides
from tests.servers import Server

pytestmark = pytest.mark.turns

_SCHEMA = "guessed_conflicts"
_TABLES = """
CREATE TABLE two (id integer PRIMARY KEY, email text UNIQUE, n integer);
INSERT INTO two VALUES (1, 'y', 0), (2, 'x', 0);
CREATE TABLE one (a integer PRIMARY KEY, n integer CHECK (n < 10), m integer DEFAULT 0);
INSERT INTO one SELECT g, g % 9, 0 FROM generate_series(1, 120) g;
CREATE TABLE pair (a integer, b text, n integer, UNIQUE (a, b));
INSERT INTO pair VALUES (1, 'x', 1), (1, NULL, 2), (NULL, 'x', 3);
CREATE TABLE texts (k varchar(3) PRIMARY KEY, n integer);
INSERT INTO texts VALUES ('abc', 1), ('ab', 2);
CREATE TABLE moments (k timestamptz PRIMARY KEY, n integer);
INSERT INTO moments VALUES ('2020-01-01 00:00+00', 1), ('2020-01-01 05:00+00', 2);
"""
_IN_NEW_YORK = (
    "SET TIME ZONE 'America/New_York'; INSERT INTO moments VALUES ('2020-01-01 00:00', 7)"
    " ON CONFLICT (k) DO UPDATE SET n = excluded.n; RESET TIME ZONE"
)
_STATEMENTS = [
    "INSERT INTO two VALUES (1, 'x', 5) ON CONFLICT (email) DO UPDATE SET n = excluded.n",
    "INSERT INTO two VALUES (1, 'x', 5) ON CONFLICT (email) DO UPDATE SET n = excluded.n WHERE false",
    "INSERT INTO two VALUES (1, 'x', 5) ON CONFLICT (id) DO UPDATE SET email = excluded.email",
    "INSERT INTO two VALUES (3, 'x', 5) ON CONFLICT (id) DO UPDATE SET n = 1",
    "INSERT INTO one VALUES (1, 5) ON CONFLICT (a) DO UPDATE SET n = excluded.n RETURNING *",
    "INSERT INTO one VALUES (1, 5), (121, 6), (2, 7) ON CONFLICT (a) DO UPDATE SET n = excluded.n, m = one.n",
    "INSERT INTO one VALUES (1, 5), (1, 6) ON CONFLICT (a) DO UPDATE SET n = excluded.n",
    "INSERT INTO one VALUES (3, 2), (1, 2), (200, 4) ON CONFLICT (a) DO UPDATE SET a = excluded.n",
    "INSERT INTO one VALUES (8, 1) ON CONFLICT (a) DO UPDATE SET n = one.n + 5",
    "INSERT INTO one VALUES (8, 1) ON CONFLICT (a) DO UPDATE SET n = 1 / one.m",
    "INSERT INTO one VALUES (8, 1) ON CONFLICT (a) DO UPDATE SET n = 1 WHERE one.n = 9",
    "INSERT INTO one VALUES (8, 1) ON CONFLICT (a) DO UPDATE SET a = 9",
    "INSERT INTO one VALUES (8, 1) ON CONFLICT (a) DO UPDATE SET a = 300",
    "INSERT INTO one VALUES (8, 1) ON CONFLICT (a) DO UPDATE SET n = (SELECT max(n) FROM two)",
    "INSERT INTO one VALUES (8, 10) ON CONFLICT (a) DO UPDATE SET n = 1",
    "INSERT INTO one VALUES (NULL, 1) ON CONFLICT (a) DO UPDATE SET n = 1",
    "INSERT INTO one (a) VALUES (8), (9) ON CONFLICT ON CONSTRAINT one_pkey DO UPDATE SET n = 0",
    "INSERT INTO one VALUES (8, 1) ON CONFLICT (a) DO NOTHING",
    "INSERT INTO pair VALUES (1, 'x', 7), (1, NULL, 8) ON CONFLICT (a, b) DO UPDATE SET n = excluded.n",
    "INSERT INTO pair (n, b, a) VALUES (7, 'x', 1) ON CONFLICT (a, b) DO UPDATE SET n = excluded.n",
    "INSERT INTO texts VALUES ('abc  ', 7) ON CONFLICT (k) DO UPDATE SET n = excluded.n",
    "INSERT INTO texts VALUES ('ab' || 'c', 7) ON CONFLICT (k) DO UPDATE SET n = excluded.n",
    _IN_NEW_YORK,
]


@pytest.fixture(scope="module")
def sides(oracle: Server, gateway: Server) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    with both_sides(oracle, gateway, _SCHEMA, _TABLES) as connections:
        yield connections


def _told(connection: psycopg.Connection, statement: str) -> list[object]:
    """What a statement answers, and all rows after it."""
    connection.execute("BEGIN")
    try:
        done = connection.execute(statement.encode())
        told: list[object] = []
        while True:
            told.append((done.statusmessage, done.fetchall() if done.description else None))
            if not done.nextset():
                break
    except psycopg.Error as error:
        connection.execute("ROLLBACK")
        return [error.sqlstate, error.diag.message_primary, error.diag.message_detail]
    for table in ("two", "one", "pair", "texts", "moments"):
        rows = connection.execute(f"SELECT t::text FROM {table} t".encode()).fetchall()
        told.append(sorted(str(row) for (row,) in rows))
    connection.execute("ROLLBACK")
    return told


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_outcomes_are_those_of_postgres(sides: tuple[psycopg.Connection, psycopg.Connection], statement: str) -> None:
    oracle, gateway = sides
    assert _told(gateway, statement) == _told(oracle, statement)


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_row_that_another_has_deleted_is_inserted(
    oracle: Server, gateway: Server, sides: tuple[psycopg.Connection, psycopg.Connection], level: str
) -> None:
    told = []
    for server, other in zip((oracle, gateway), sides, strict=True):
        with psycopg.connect(server.url, autocommit=True, options=f"-c search_path={_SCHEMA}") as connection:
            other.execute("INSERT INTO one VALUES (400, 9)")
            connection.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
            connection.execute("SELECT count(*) FROM one")
            other.execute("DELETE FROM one WHERE a = 400")
            upsert = "INSERT INTO one VALUES (400, 1) ON CONFLICT (a) DO UPDATE SET n = one.n + 1"
            told.append(connection.execute(upsert).statusmessage)
            connection.execute("COMMIT")
            told.append(str(other.execute("DELETE FROM one WHERE a = 400 RETURNING n").fetchall()))
    assert told[:2] == told[2:] == ["INSERT 0 1", "[(1,)]"]
