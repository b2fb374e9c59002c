"""Temporary tables that are filled from the lake, through psycopg: parameters, prepared statements, binary results."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

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
        execute("CREATE TABLE made AS SELECT id, t FROM lake WHERE id < %s", 4)
        execute("SELECT * FROM made ORDER BY id")
        execute("CREATE TABLE other AS SELECT g, %s::text AS t FROM generate_series(1, %s) g", "x", 3)
        execute("SELECT * FROM other ORDER BY g")
        execute("CREATE TEMP TABLE whole AS SELECT l FROM lake l WHERE id < %s", 4)
        execute("SELECT * FROM whole ORDER BY 1")
    return answers


def test_temporary_tables_from_the_lake(oracle: Server, gateway: Server, schema: str) -> None:
    oracle.psql("-qc", f"CREATE SCHEMA {schema}")
    expected = _story(oracle, schema)
    oracle.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")
    assert _story(gateway, schema) == expected


def test_what_spark_computes_has_no_limit(gateway: Server, schema: str) -> None:
    """Its rows go into the temporary table as they come; copies that PostgreSQL is to read are what is limited."""
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}")
        connection.execute("CREATE TABLE lake AS SELECT g AS id, 'x' || g AS t FROM generate_series(1, 300000) g")
        connection.execute("SET sluice.load_limit = '64kB'")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute("CREATE TEMP TABLE a AS SELECT l FROM lake l")
        done = connection.execute("CREATE TEMP TABLE a AS SELECT id, upper(t) AS t FROM lake")
        assert done.statusmessage == "SELECT 300000"
        connection.execute(
            "CREATE TEMP TABLE b (n serial, id bigint CHECK (id <= 300000), t varchar(7), d date DEFAULT '2026-01-01')"
        )
        for sql, refused in (
            ("INSERT INTO b (id, t) SELECT id, l::text FROM lake l", psycopg.errors.FeatureNotSupported),
            ("INSERT INTO b (id, d) SELECT id, '2026-02-02' FROM lake", psycopg.errors.FeatureNotSupported),
            ("INSERT INTO b (id) SELECT id + 1 FROM lake", psycopg.errors.CheckViolation),
            ("INSERT INTO b (t) SELECT t || '!!' FROM lake", psycopg.errors.StringDataRightTruncation),
        ):
            with pytest.raises(refused):
                connection.execute(sql.encode())
        done = connection.execute("INSERT INTO b (id, t) SELECT id, t FROM lake WHERE id > %s ORDER BY id DESC", [10])
        assert done.statusmessage == "INSERT 0 299990"
        assert connection.execute(
            "SELECT count(*), min(id), max(t), min(d)::text, max(n) - min(n), min(id + n) = max(id + n) FROM b"
        ).fetchall() == [(299990, 11, "x99999", "2026-01-01", 299989, True)]
        with connection.transaction():
            connection.execute("INSERT INTO lake VALUES (0, 'own')")
            done = connection.execute("INSERT INTO b (id, t) (SELECT id, t FROM lake WHERE t LIKE 'o%')")
            assert done.statusmessage == "INSERT 0 1"
        assert connection.execute("SELECT id, t FROM b WHERE id = 0").fetchall() == [(0, "own")]
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname ~ 'pg_sluice_ins'").fetchall() == [(0,)]
        assert connection.execute("SELECT count(*), max(t), sum(id) FROM a").fetchall() == [
            (300000, "X99999", 45000150000)
        ]
