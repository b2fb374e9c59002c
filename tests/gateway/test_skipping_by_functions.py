"""SKIP LOCKED in queries that call functions of users, while others hold rows."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.servers import Server


@pytest.fixture
def sessions(gateway: Server, schema: str) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    options = f"-csearch_path={schema}"
    with psycopg.connect(gateway.url, options=options) as one, psycopg.connect(gateway.url, options=options) as other:
        one.execute(
            """
            CREATE TABLE job (id integer PRIMARY KEY, payload jsonb);
            INSERT INTO job SELECT g, jsonb_build_object('n', g) FROM generate_series(1, 6) g;
            CREATE FUNCTION urgency(j job) RETURNS integer IMMUTABLE LANGUAGE sql
                AS $$ SELECT -(j.payload->>'n')::integer $$;
            CREATE FUNCTION even(n integer) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN n % 2 = 0; END $$;
            CREATE FUNCTION below(n integer) RETURNS bigint STABLE LANGUAGE plpgsql
                AS $$ BEGIN RETURN (SELECT count(*) FROM job WHERE id < n); END $$"""
        )
        one.commit()
        yield one, other


def test_each_worker_takes_others(sessions: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    one, other = sessions
    query = "SELECT id FROM job ORDER BY urgency(job) LIMIT 2 FOR UPDATE SKIP LOCKED"
    assert one.execute(query).fetchall() == [(6,), (5,)]
    assert other.execute(query).fetchall() == [(4,), (3,)]
    assert other.execute("SELECT id FROM job WHERE even(id) ORDER BY id FOR UPDATE SKIP LOCKED").fetchall() == [
        (2,),
        (4,),
    ]
    with pytest.raises(errors.LockNotAvailable), other.transaction():
        other.execute("SELECT id FROM job WHERE even(id) ORDER BY id FOR UPDATE NOWAIT")
    one.rollback()
    assert other.execute(query).fetchall() == [(6,), (5,)]


def test_one_that_looks_at_the_table_itself(sessions: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    one, other = sessions
    query = "SELECT id FROM job WHERE below(id) > 2 ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED"
    one.execute("SELECT FROM job WHERE id = 2 FOR UPDATE")
    assert other.execute(query).fetchall() == [(4,), (5,)]
    other.rollback()
    one.execute("SELECT FROM job WHERE id = 4 FOR UPDATE")
    with pytest.raises(errors.FeatureNotSupported):  # the copies would lack the row that is skipped
        other.execute(query)
