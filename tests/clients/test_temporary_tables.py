"""Temporary tables that are filled from the lake, through psycopg: parameters, prepared statements, binary results."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.servers import Server

Answer = tuple[str | None, list[tuple[Any, ...]] | None]


def _story(server: Server, schema: str) -> list[Answer]:
    answers: list[Answer] = []

    def execute(sql: str, *parameters: Any, **options: Any) -> None:
        done = connection.execute(sql.encode(), parameters, **options)
        answers.append((done.statusmessage, done.fetchall() if done.description else None))

    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}")
        execute("CREATE TABLE lake (id integer PRIMARY KEY, n numeric(8, 2), t text)")
        execute("INSERT INTO lake SELECT g, g * 1.5, 'x' || g FROM generate_series(1, 1000) g")
        execute("CREATE TEMP TABLE a AS SELECT id, n FROM lake WHERE id <= %s", 10)
        execute("INSERT INTO a SELECT id, n FROM lake WHERE t = %s RETURNING id, n", "x77")
        execute("INSERT INTO a SELECT id, n FROM lake WHERE t = %s RETURNING id, n", "x78", binary=True)
        execute("UPDATE a SET n = lake.n + %s FROM lake WHERE lake.id = a.id AND a.id < 3 RETURNING a.*", 5)
        execute("DELETE FROM a USING lake WHERE lake.id = a.id AND lake.t = ANY(%s)", ["x1", "x5"])
        for number in range(6):
            execute("INSERT INTO a SELECT id, n FROM lake WHERE id = %s", number, prepare=True)
        execute("SELECT * FROM a ORDER BY id, n")
        with connection.transaction():
            execute("INSERT INTO lake VALUES (2000, 1, 'own')")
            execute("CREATE TEMP TABLE b ON COMMIT DROP AS SELECT * FROM lake WHERE id > 998")
            execute("SELECT lake.id, b.t FROM lake JOIN b USING (id) ORDER BY 1")
        execute("SELECT to_regclass('b')")
    return answers


def test_temporary_tables_from_the_lake(oracle: Server, gateway: Server, schema: str) -> None:
    oracle.psql("-qc", f"CREATE SCHEMA {schema}")
    expected = _story(oracle, schema)
    oracle.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")
    assert _story(gateway, schema) == expected
