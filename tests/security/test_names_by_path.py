"""The gateway's own statements at a client's backend use PostgreSQL's types, functions and operators.

The client sets the search path, with its own schema before pg_catalog. The objects there report where they ran: in a
message of the gateway's, which has rights that the client has not.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server

_TYPES = ("bool", "bytea", "int8", "json", "jsonb", "name", "oid", "regclass", "text", "tid", "timestamptz", "xid")
_OPERATORS = (
    ("=", "oid", "oid"), ("<>", "oid", "oid"), ("=", "text", "text"), ("<>", "text", "text"), ("=", "name", "name"),
    ("<>", "xid", "xid"), ("=", "xid", "xid"), ("=", "tid", "tid"), ("=", "int4", "int4"), (">", "int2", "int4"),
)  # fmt: skip
_CALLED = ("current_setting(text)", "current_setting(text, boolean)", "set_config(text, text, boolean)", "now()")
_NOTE = """
CREATE FUNCTION ran() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.current_query() OPERATOR(pg_catalog.~) 'pg_sluice|pg_catalog' THEN
        RAISE EXCEPTION 'ran in %', pg_catalog.current_query();
    END IF;
    RETURN true;
END $$;
"""
# Sits in the same message as the gateway, and asks for what only the gateway may.
_FORGE = """
CREATE FUNCTION forge() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.current_query() OPERATOR(pg_catalog.~) '^/.sluice:stage' THEN
        PERFORM pg_sluice.stage('{"relid": %(victim)s, "truncate": true, "data_files": [], "delete_files": []}');
    END IF;
    RETURN true;
END $$;
CREATE DOMAIN jsonb AS pg_catalog.jsonb CHECK (forge());
"""


@pytest.fixture
def stranger(gateway: Server, schema: str) -> Iterator[psycopg.Connection]:
    """A role that owns a schema of its own and nothing else, and searches that first."""
    name = f"stranger_{secrets.token_hex(4)}"
    with psycopg.connect(gateway.url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN; GRANT {name} TO CURRENT_USER".encode())
        owner.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}".encode())
        owner.execute(f"CREATE TABLE {schema}.theirs (id integer PRIMARY KEY)".encode())
        owner.execute(f"INSERT INTO {schema}.theirs VALUES (1), (2)".encode())
        url = gateway.url.replace(f"://{gateway.user}@", f"://{name}@")
        with psycopg.connect(url, autocommit=True, options=f"-csearch_path={name},pg_catalog") as connection:
            yield connection
        owner.execute(f"SET client_min_messages = warning; DROP SCHEMA {name} CASCADE".encode())
        owner.execute(f"REVOKE ALL ON SCHEMA {schema} FROM {name}; DROP ROLE {name}".encode())


def _carry_out(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE mine (id integer PRIMARY KEY, v integer)")
    client.execute("INSERT INTO mine VALUES (1, 1), (2, 2)")
    with client.transaction():
        client.execute("INSERT INTO mine VALUES (3, 3) ON CONFLICT (id) DO UPDATE SET v = excluded.v")
        client.execute("UPDATE mine SET v = v + 1 WHERE id = 1")
        client.execute("DELETE FROM mine WHERE id = 2")
        client.execute("SELECT * FROM mine FOR UPDATE")
        client.execute("LOCK TABLE mine")
    client.execute("ALTER TABLE mine ADD COLUMN w integer DEFAULT 7")
    client.execute("CREATE INDEX ON mine (v)")
    with client.transaction(), client.cursor("c") as cursor:
        cursor.execute("SELECT id, v, w FROM mine ORDER BY id")
        assert cursor.fetchall() == [(1, 2, 7), (3, 3, 7)]
    client.execute("TRUNCATE mine")


def test_types(stranger: psycopg.Connection) -> None:
    stranger.execute(_NOTE)
    for name in _TYPES:
        stranger.execute(f"CREATE DOMAIN {name} AS pg_catalog.{name} CHECK (ran())".encode())
    _carry_out(stranger)


def test_operators(stranger: psycopg.Connection) -> None:
    stranger.execute(_NOTE)
    for place, (operator, left, right) in enumerate(_OPERATORS):
        stranger.execute(
            f"CREATE FUNCTION o{place}(pg_catalog.{left}, pg_catalog.{right}) RETURNS boolean LANGUAGE sql"
            f" AS 'SELECT ran()'; CREATE OPERATOR {operator} (FUNCTION = o{place}, LEFTARG = pg_catalog.{left},"
            f" RIGHTARG = pg_catalog.{right})".encode()
        )
    stranger.execute("CREATE TABLE mine (id integer, v integer); INSERT INTO mine VALUES (1, 1), (2, 2)")
    with stranger.transaction():
        stranger.execute("LOCK TABLE mine; DELETE FROM mine; INSERT INTO mine VALUES (3, 3)")
    for sql in ("TRUNCATE mine", "VACUUM mine", "ANALYZE mine"):
        stranger.execute(sql.encode())


def test_functions(stranger: psycopg.Connection) -> None:
    stranger.execute(_NOTE)
    for called in _CALLED:
        stranger.execute(
            f"CREATE FUNCTION {called} RETURNS pg_catalog.text LANGUAGE plpgsql"
            " AS $$ BEGIN PERFORM ran(); RETURN 'Mars/Phobos'; END $$".encode()
        )
    stranger.execute("CREATE AGGREGATE bool_and (boolean) (SFUNC = pg_catalog.booland_statefunc, STYPE = boolean)")
    _carry_out(stranger)


def test_a_type_that_stages_anothers_truncation(stranger: psycopg.Connection, gateway: Server, schema: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True) as owner:
        [victim] = owner.execute(f"SELECT '{schema}.theirs'::regclass::oid::int".encode()).fetchone() or (0,)
        stranger.execute((_FORGE % {"victim": victim}).encode())
        stranger.execute("CREATE TABLE mine (id integer); INSERT INTO mine VALUES (1)")
        stranger.execute("UPDATE mine SET id = 2")
        assert owner.execute(f"SELECT count(*) FROM {schema}.theirs".encode()).fetchone() == (2,)


def test_rights_that_a_client_answers_for_itself(stranger: psycopg.Connection, gateway: Server, schema: str) -> None:
    """LOCK TABLE and TRUNCATE wait for whoever uses the table, and others wait behind: only where the client may."""
    with psycopg.connect(gateway.url, autocommit=True) as owner:
        owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO {stranger.info.user}".encode())
    stranger.execute("CREATE FUNCTION yes(boolean, boolean) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
    stranger.execute("CREATE AGGREGATE bool_and (boolean) (SFUNC = yes, STYPE = boolean, INITCOND = 'true')")
    with psycopg.connect(gateway.url) as reader:
        reader.execute(f"SELECT * FROM {schema}.theirs".encode())
        for sql in (f"LOCK TABLE {schema}.theirs", f"TRUNCATE {schema}.theirs"):
            stranger.execute("BEGIN; SET LOCAL statement_timeout = '20s'")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                stranger.execute(sql.encode())
            stranger.execute("ROLLBACK")
