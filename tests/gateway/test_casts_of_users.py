"""A user's cast for a type of theirs changes no answer, and runs only for sessions that use it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server

_TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s "so", {bad}');
CREATE DOMAIN feeling AS mood CHECK (VALUE <> 'ok');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN day AS timestamptz;
CREATE TYPE pair AS (a int, b text);
CREATE FUNCTION cast_mood(mood) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN 'ok'; END $$;
CREATE FUNCTION cast_pair(pair) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN 'pair'; END $$;
CREATE FUNCTION cast_moods(mood[]) RETURNS text[] IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN '{ok,ok}'; END $$;
CREATE FUNCTION cast_moods_to_text(mood[]) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN '{ok}'; END $$;
CREATE FUNCTION cast_positives(positive[]) RETURNS int[] IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN '{-1}'; END $$;
CREATE FUNCTION cast_days(day[]) RETURNS timestamptz[] IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN '{}'; END $$;
CREATE CAST (mood AS text) WITH FUNCTION cast_mood(mood) AS {0};
CREATE CAST (pair AS text) WITH FUNCTION cast_pair(pair) AS {0};
CREATE CAST (mood[] AS text[]) WITH FUNCTION cast_moods(mood[]) AS {0};
CREATE CAST (mood[] AS text) WITH FUNCTION cast_moods_to_text(mood[]) AS {0};
CREATE CAST (positive[] AS int[]) WITH FUNCTION cast_positives(positive[]) AS {0};
CREATE CAST (day[] AS timestamptz[]) WITH FUNCTION cast_days(day[]) AS {0};
CREATE TABLE person (
    id int PRIMARY KEY, m mood DEFAULT 'sad', f feeling, ms mood[], fs feeling[], n positive, ns positive[], ds day[]
);
INSERT INTO person VALUES
    (1, 'sad', 'it''s "so", {bad}', '{sad,NULL,"it''s \\"so\\", {bad}"}', '{sad}', 5, '{1,NULL,3}', '{2020-01-02}'),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, DEFAULT, 'sad', '{}', '{}', 1, '{}', '{infinity,NULL}');
"""
_STATEMENTS = [
    "SELECT * FROM person ORDER BY id",
    "INSERT INTO person SELECT id + 10, m, f, ms, fs, n, ns, ds FROM person WHERE id = 1 RETURNING *",
    (
        "INSERT INTO person VALUES (20, 'it''s \"so\", {bad}', 'sad', '{sad,sad}', '{sad}', 7, '{8}', '{2021-01-01}')"
        " RETURNING m, f, ms, fs, n, ns, ds"
    ),
    (
        "UPDATE person SET m = 'it''s \"so\", {bad}', ms = array_append(ms, 'sad'::mood),"
        " ns = array_append(ns, 9::positive) WHERE id = 1 RETURNING m, ms, ns"
    ),
    (
        "INSERT INTO person (id, ms) VALUES (1, '{sad}') ON CONFLICT (id) DO UPDATE SET f = 'sad', ms = excluded.ms"
        " RETURNING *"
    ),
    (
        "MERGE INTO person USING (VALUES (3, 'sad'::mood)) s (i, x) ON id = i"
        " WHEN MATCHED THEN UPDATE SET m = x, fs = '{sad,sad}' RETURNING id, m, fs"
    ),
    "WITH x AS (UPDATE person SET n = n + 1 WHERE m = 'sad' RETURNING m, n) SELECT * FROM x ORDER BY m, n",
    "ALTER TABLE person ADD COLUMN again mood DEFAULT 'sad'",
    "ALTER TABLE person ALTER ns TYPE positive[] USING array_cat(ns, ns), ALTER m TYPE mood USING coalesce(m, 'sad')",
    "CREATE TABLE copied AS SELECT * FROM person",
    "SELECT * FROM copied ORDER BY id",
    "SELECT id, ROW(id, 'x')::pair FROM person ORDER BY id",
    "SELECT id, ROW(NULL, NULL)::pair, NULL::pair FROM person ORDER BY id",
    "SELECT id, p FROM person p ORDER BY id",
    "SELECT m, count(*) FROM person GROUP BY m ORDER BY m",
    "DELETE FROM person WHERE m = 'sad' RETURNING id, m, ms",
    "SELECT * FROM person ORDER BY id",
]


@pytest.fixture(params=["EXPLICIT", "ASSIGNMENT", "IMPLICIT"])
def both(request: pytest.FixtureRequest, gateway: Server, oracle: Server, schema: str) -> Iterator[str]:
    oracle.psql("-qc", f"CREATE SCHEMA {schema}")
    method = "" if request.param == "EXPLICIT" else f"AS {request.param}"
    made = _TYPES.replace("AS {0}", method)
    for server in (oracle, gateway):
        server.psql("-q", "-v", "ON_ERROR_STOP=1", sql=f"SET search_path = {schema}; SET timezone = 'UTC'; {made}")
    yield schema
    oracle.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")


def _answers(server: Server, schema: str) -> list[object]:
    found: list[object] = []
    with psycopg.connect(server.url, autocommit=True, options=f"-c search_path={schema} -c timezone=UTC") as connection:
        for sql in _STATEMENTS:
            done = connection.execute(sql.encode())
            found.append((sql, done.fetchall() if done.description else done.statusmessage))
    return found


def test_casts_change_no_answer(gateway: Server, oracle: Server, both: str) -> None:
    assert _answers(gateway, both) == _answers(oracle, both)


def test_casts_change_no_parameter(gateway: Server, oracle: Server, both: str) -> None:
    found = []
    for server in (oracle, gateway):
        with psycopg.connect(server.url, autocommit=True, options=f"-c search_path={both}") as connection:
            asked = [
                connection.execute("SELECT id FROM person WHERE m = %s ORDER BY id", ("sad",)),
                connection.execute("SELECT id, %s::mood[] FROM person WHERE ms = %s", ("{sad,sad}", "{}")),
                connection.execute("SELECT id FROM person WHERE f::mood = %s ORDER BY id", ("sad",)),
                connection.execute("SELECT id FROM person WHERE ns = %s::positive[]", ("{1,NULL,3}",)),
            ]
            found.append([each.fetchall() for each in asked])
    assert found[0] == found[1]


def test_nobody_else_runs_a_cast(gateway: Server, schema: str) -> None:
    """Least of all the catalog's superuser: no plain INSERT of an enumeration calls it."""
    gateway.psql(
        "-q",
        sql=f"SET search_path = {schema};"
        " CREATE TYPE mood AS ENUM ('sad', 'ok');"
        " CREATE FUNCTION told(mood) RETURNS text LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE 'cast by %', current_user; END $$;"
        " CREATE FUNCTION told(mood[]) RETURNS text[] LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE 'cast by %', current_user; END $$;"
        " CREATE CAST (mood AS text) WITH FUNCTION told(mood) AS IMPLICIT;"
        " CREATE CAST (mood[] AS text[]) WITH FUNCTION told(mood[]) AS IMPLICIT;"
        " CREATE TABLE person (id int, m mood, ms mood[])",
    )
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute("INSERT INTO person VALUES (1, 'sad', '{ok}')")
        connection.execute("UPDATE person SET m = 'ok'")
        assert connection.execute("SELECT * FROM person").fetchall() == [(1, "ok", "{ok}")]
