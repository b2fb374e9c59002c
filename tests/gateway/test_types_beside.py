"""Nobody waits for who renames a label or adds a constraint of a domain but who uses the type, as in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.servers import Server

_MADE = """
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE DOMAIN small AS integer;
CREATE TABLE moods (m mood, s small);
INSERT INTO moods VALUES ('low', 1), ('high', 2);
CREATE TYPE other_mood AS ENUM ('low', 'high');
CREATE DOMAIN other_small AS integer;
CREATE TABLE t (id integer PRIMARY KEY, m other_mood, s other_small);
INSERT INTO t VALUES (1, 'low', 1), (2, 'high', 2);
CREATE TABLE u (id integer PRIMARY KEY);
CREATE TYPE unused AS ENUM ('a');
CREATE TYPE pair AS (x integer, m other_mood);
"""
_CHANGES = ["ALTER TYPE mood RENAME VALUE 'low' TO 'lower'", "ALTER DOMAIN small ADD CHECK (VALUE < 10)"]
_BESIDE = [
    "DROP TABLE u",
    "CREATE TABLE v (m other_mood, s other_small, p pair, a other_mood[])",
    "ALTER TABLE u ADD COLUMN m other_mood",
    "CREATE TEMPORARY TABLE w (id integer); DROP TABLE w",
    "CREATE TEMPORARY TABLE w (m other_mood)",
    "CREATE TYPE third_mood AS ENUM ('low')",
    "CREATE TYPE row_of AS (x integer, m other_mood)",
    "DROP TYPE unused",
    "ALTER TYPE other_mood RENAME VALUE 'low' TO 'lower'",
    "ALTER TYPE other_mood ADD VALUE 'highest'",
    "ALTER TYPE pair ADD ATTRIBUTE s other_small",
    "CREATE DOMAIN third AS integer CHECK (VALUE > 0)",
    "ALTER DOMAIN other_small ADD CHECK (VALUE < 10)",
    "DROP DOMAIN other_small CASCADE",
    "MERGE INTO t USING u ON t.id = u.id WHEN NOT MATCHED THEN INSERT VALUES (9, 'low', 3)",
    "WITH gone AS (DELETE FROM t WHERE id = 1 RETURNING *) INSERT INTO u SELECT id + 10 FROM gone",
]


@pytest.fixture
def made(gateway: Server, schema: str) -> str:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute(_MADE.encode())
    return schema


@contextmanager
def _connected(server: Server, schema: str) -> Iterator[psycopg.Connection]:
    options = f"-csearch_path={schema} -clock_timeout=3s -cstatement_timeout=20s"
    with psycopg.connect(server.url, autocommit=True, options=options) as connection:
        yield connection


@pytest.mark.turns
@pytest.mark.parametrize("change", _CHANGES)
def test_who_does_not_use_the_type(gateway: Server, made: str, change: str) -> None:
    with _connected(gateway, made) as changing:
        changing.execute(f"BEGIN; {change}".encode())
        changing.execute("DO $$ BEGIN END $$")  # what the block has deferred is carried out for good
        for statement in _BESIDE:
            with _connected(gateway, made) as beside:
                beside.execute("BEGIN")
                for each in statement.split("; "):
                    beside.execute(each.encode())
                beside.execute("ROLLBACK")
        for statement in _BESIDE[3:6]:
            with _connected(gateway, made) as beside:
                for each in statement.split("; "):
                    beside.execute(each.encode())
        changing.execute("COMMIT")
        with _connected(gateway, made) as beside:
            assert beside.execute("SELECT count(*) FROM moods").fetchone() == (2,)


@pytest.mark.turns
@pytest.mark.parametrize("of", ["mood", "mood[]", "of_mood", "pair_of_mood"])
def test_who_has_made_a_column_of_the_type(gateway: Server, made: str, of: str) -> None:
    """Its rows are rewritten, though they are committed only afterwards."""
    value = {"mood": "'low'", "mood[]": "'{low}'", "of_mood": "'low'", "pair_of_mood": "'(low)'"}[of]
    with _connected(gateway, made) as making, _connected(gateway, made) as changing:
        changing.execute("CREATE DOMAIN of_mood AS mood")
        changing.execute("CREATE TYPE pair_of_mood AS (m mood)")
        making.execute("BEGIN")
        making.execute(f"CREATE TABLE late (m {of})".encode())
        making.execute("DO $$ BEGIN END $$")
        making.execute(f"INSERT INTO late VALUES ({value})".encode())
        with pytest.raises(psycopg.errors.LockNotAvailable):
            changing.execute(_CHANGES[0].encode())
        making.execute("COMMIT")
        changing.execute(_CHANGES[0].encode())
        assert changing.execute("SELECT m::text FROM late").fetchall() == [(value.strip("'").replace("low", "lower"),)]


def test_who_has_made_a_column_of_the_domain(gateway: Server, made: str) -> None:
    with _connected(gateway, made) as making, _connected(gateway, made) as changing:
        making.execute("BEGIN")
        making.execute("CREATE TABLE late (s small)")
        making.execute("DO $$ BEGIN END $$")
        making.execute("INSERT INTO late VALUES (11)")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            changing.execute(_CHANGES[1].encode())
        making.execute("COMMIT")
        with pytest.raises(psycopg.errors.CheckViolation):
            changing.execute(_CHANGES[1].encode())
