"""UPDATE and DELETE of large tables by what only PostgreSQL computes, in portions: all rows once, or none."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from gateway.execution.reading.postgres_query import SMALL_ROWS
from tests.servers import Server, sqlstate_of


@pytest.fixture(scope="module")
def portioned(gateway: Server) -> Iterator[Server]:
    """A table that PostgreSQL changes in two portions, and one that refers to it."""
    rows = SMALL_ROWS + 10
    gateway.psql(
        "-q",
        sql="CREATE TABLE portioned (n integer PRIMARY KEY, doc jsonb CHECK (doc ->> 'bad' IS NULL));"
        "CREATE TABLE portioned_child (n integer REFERENCES portioned ON UPDATE CASCADE);"
        "CREATE SEQUENCE portioned_numbers;"
        f"INSERT INTO portioned SELECT g, jsonb_build_object('n', g) FROM generate_series(1, {rows}) g;"
        f"INSERT INTO portioned_child VALUES (1), ({rows});",
    )
    yield gateway
    gateway.psql("-qc", "DROP TABLE portioned, portioned_child; DROP SEQUENCE portioned_numbers")


def test_all_rows_of_a_large_table_are_changed(portioned: Server) -> None:
    rows = SMALL_ROWS + 10
    with psycopg.connect(portioned.url) as connection:
        connection.execute("UPDATE portioned SET doc = doc || jsonb_build_object('i', nextval('portioned_numbers'))")
        found = connection.execute(
            "SELECT count(*), count(DISTINCT doc -> 'i'), max((doc ->> 'i')::integer), sum((doc ->> 'n')::bigint),"
            " count(DISTINCT n) FROM portioned"
        )
        assert found.fetchone() == (rows, rows, rows, rows * (rows + 1) // 2, rows)
        connection.rollback()
        found = connection.execute("SELECT count(*), count(doc -> 'i') FROM portioned")
        assert found.fetchone() == (rows, 0)


@pytest.mark.parametrize("parameters", [None, pytest.param([0], marks=pytest.mark.soak)])
def test_rows_of_all_portions_are_returned_once(portioned: Server, parameters: list[int] | None) -> None:
    rows = SMALL_ROWS + 10
    above = "0" if parameters is None else "%s"
    with psycopg.connect(portioned.url) as connection:
        sql = f"UPDATE portioned SET n = -n, doc = jsonb_set(doc, '{{s}}', '1') WHERE n > {above} RETURNING n, doc"
        updated = connection.execute(sql.encode(), parameters)
        assert updated.statusmessage == f"UPDATE {rows}"
        assert sorted(-n for n, _ in updated.fetchall()) == list(range(1, rows + 1))
        children = connection.execute("SELECT n FROM portioned_child ORDER BY n").fetchall()
        assert children == [(-rows,), (-1,)]
        connection.rollback()
        deleted = connection.execute("DELETE FROM portioned_child WHERE jsonb_path_exists(to_jsonb(n), '$ ? (@ > 1)')")
        assert deleted.rowcount == 1
        sql = "DELETE FROM portioned WHERE jsonb_path_exists(doc, '$.n ? (@ > 1)') RETURNING n"
        assert connection.execute(sql.encode()).rowcount == rows - 1
        assert connection.execute("SELECT n FROM portioned").fetchall() == [(1,)]
        connection.rollback()


def test_an_error_in_any_portion_leaves_nothing(portioned: Server) -> None:
    with psycopg.connect(portioned.url, autocommit=True) as connection:
        for change, sqlstate in (
            (f"jsonb_set(doc, '{{n}}', to_jsonb(1 / ({SMALL_ROWS + 5} - n)))", "22012"),
            (f"CASE n WHEN {SMALL_ROWS + 5} THEN doc || '{{\"bad\": 1}}' ELSE doc || '{{}}' END", "23514"),
        ):
            with pytest.raises(psycopg.Error) as raised:
                connection.execute(f"UPDATE portioned SET doc = {change}".encode())
            assert raised.value.sqlstate == sqlstate
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(f"UPDATE portioned SET n = 1, doc = doc || '{{}}' WHERE n = {SMALL_ROWS + 5}".encode())
        found = connection.execute("SELECT count(*), sum((doc ->> 'n')::bigint), count(doc -> 'bad') FROM portioned")
        assert found.fetchone() == (SMALL_ROWS + 10, (SMALL_ROWS + 10) * (SMALL_ROWS + 11) // 2, 0)


def test_spark_finds_the_rows_that_postgres_changes(portioned: Server) -> None:
    with psycopg.connect(portioned.url) as connection:
        sql = "UPDATE portioned SET doc = jsonb_set(doc, '{{seen}}', '{}') WHERE n % 50000 = 7 AND doc @> '{{}}'"
        assert connection.execute(sql.format(1).encode()).rowcount == SMALL_ROWS // 50_000 + 1
        assert connection.execute(sql.format(2).encode()).rowcount == SMALL_ROWS // 50_000 + 1
        seen = connection.execute("SELECT n, doc -> 'seen' FROM portioned WHERE doc ? 'seen' ORDER BY n").fetchall()
        assert seen == [(place * 50_000 + 7, 2) for place in range(SMALL_ROWS // 50_000 + 1)]
        connection.rollback()


@pytest.mark.turns
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE portioned SET doc = jsonb_set(doc, '{t}', to_jsonb(statement_timestamp()))",
        "UPDATE portioned SET doc = jsonb_set(doc, '{t}', (SELECT to_jsonb(nextval('portioned_numbers'))))",
        "UPDATE portioned SET doc = jsonb_set(doc, '{t}', (SELECT to_jsonb(max(n)) FROM portioned))",
        "UPDATE portioned p SET doc = p.doc || q.doc FROM portioned q WHERE p.n = q.n + 1",
        "UPDATE portioned SET doc = doc || jsonb_build_object('v', v) FROM (SELECT random() AS v) s",
        "UPDATE portioned p SET doc = p.doc || '{}' FROM portioned_child c TABLESAMPLE SYSTEM (50) WHERE c.n > p.n",
    ],
)
def test_what_is_the_same_for_all_rows_is_refused_in_portions(portioned: Server, sql: str) -> None:
    sqlstate, message = sqlstate_of(portioned, sql)
    assert (sqlstate, "do not depend on the table's other rows" in message) == ("0A000", True)
