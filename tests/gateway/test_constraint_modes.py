"""SET CONSTRAINTS and the gateway's own triggers at the backend: no client statement publishes before COMMIT.

Its effect on the client's own constraints is in tests/golden/sessions/references.sql, beside PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server


@pytest.fixture
def connection(gateway: Server) -> Iterator[psycopg.Connection]:
    gateway.psql("-qc", "CREATE SCHEMA modes")
    with psycopg.connect(gateway.url, options="-c search_path=modes,pg_sluice") as connection:
        connection.execute("CREATE TABLE t (n integer UNIQUE DEFERRABLE)")
        connection.commit()
        yield connection
        connection.rollback()
    gateway.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA modes CASCADE")


@pytest.mark.parametrize("name", ["pg_sluice.pg_sluice_publish", "pg_sluice_publish", "modes.pg_sluice_guard"])
@pytest.mark.parametrize("mode", ["IMMEDIATE", "DEFERRED"])
def test_the_gateways_own_are_nobodys(connection: psycopg.Connection, name: str, mode: str) -> None:
    with pytest.raises(psycopg.errors.UndefinedObject):
        connection.execute(f"SET CONSTRAINTS {name} {mode}".encode())


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER pg_sluice_guard ON t",
        "DROP TRIGGER pg_sluice_guard ON t CASCADE",
        "ALTER TRIGGER pg_sluice_guard ON t RENAME TO mine",
        "ALTER TRIGGER pg_sluice_guard ON t DEPENDS ON EXTENSION plpgsql",
        "ALTER TABLE t RENAME CONSTRAINT pg_sluice_guard TO mine",
        "COMMENT ON TRIGGER pg_sluice_guard ON t IS 'mine'",
        "DO $$ BEGIN DROP TRIGGER pg_sluice_guard ON t; END $$",
        "DROP TRIGGER pg_sluice_guard_truncate ON t",
        "ALTER TRIGGER pg_sluice_guard_truncate ON t RENAME TO mine",
        "ALTER TABLE t DISABLE TRIGGER pg_sluice_guard_truncate",
        "CREATE OR REPLACE TRIGGER pg_sluice_guard_truncate BEFORE TRUNCATE ON t EXECUTE FUNCTION writes_into_t()",
        "ALTER TABLE t DISABLE TRIGGER pg_sluice_guard",
        "DO $$ BEGIN ALTER TABLE t DISABLE TRIGGER ALL; END $$",
        "ALTER TABLE t DROP CONSTRAINT pg_sluice_guard",
        "CREATE OR REPLACE TRIGGER pg_sluice_guard AFTER INSERT ON t EXECUTE FUNCTION writes_into_t()",
    ],
)
def test_nobody_takes_the_guard_away(connection: psycopg.Connection, statement: str) -> None:
    """What writes into a shadow behind the gateway's back is refused, whatever its owner does before."""
    connection.execute("""
        CREATE FUNCTION writes_into_t() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RETURN NULL; END $$;
        CREATE PROCEDURE writes() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (1); END $$
    """)
    connection.commit()
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    assert caught.value.sqlstate in {"42704", "42501", "2BP01", "42710", "0A000"}
    connection.rollback()
    connection.execute("ALTER TABLE t DISABLE TRIGGER USER, DISABLE TRIGGER ALL")
    connection.commit()
    guards = connection.execute("""
        SELECT tgname, tgenabled::text, tgfoid::regproc::text FROM pg_trigger
        WHERE tgrelid = 't'::regclass AND tgname LIKE 'pg_sluice%' ORDER BY 1
    """).fetchall()
    assert guards == [(name, "O", "refuse_shadow_change") for name in ("pg_sluice_guard", "pg_sluice_guard_truncate")]
    connection.execute("CALL writes()")  # what it writes is a change of the lake
    assert connection.execute("SELECT n FROM t").fetchall() == [(1,)]
    connection.execute("DO $$ BEGIN TRUNCATE t; END $$")
    assert connection.execute("SELECT n FROM t").fetchall() == []
    connection.rollback()


@pytest.mark.parametrize(
    "statement",
    [
        "SET CONSTRAINTS ALL IMMEDIATE",
        "DO $$ BEGIN SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; END $$",
    ],
)
def test_nothing_is_published_before_commit(gateway: Server, connection: psycopg.Connection, statement: str) -> None:
    """Others commit meanwhile, which they could not while somebody publishes; and see nothing."""
    connection.execute(statement.encode())
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("INSERT INTO t VALUES (2)")
    with psycopg.connect(gateway.url, autocommit=True, options="-c search_path=modes") as other:
        other.execute("SET statement_timeout = '60s'")
        assert other.execute("SELECT n FROM t").fetchall() == []
        other.execute("CREATE TABLE another (n integer)")
        other.execute("INSERT INTO another VALUES (1)")
        connection.commit()
        assert other.execute("SELECT n FROM t ORDER BY n").fetchall() == [(1,), (2,)]


def test_modes_end_with_the_transaction(connection: psycopg.Connection) -> None:
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("SET CONSTRAINTS ALL DEFERRED")
    connection.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("SET CONSTRAINTS t_n_key IMMEDIATE")
    connection.rollback()
    connection.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("INSERT INTO t VALUES (1)")


def test_prepared(connection: psycopg.Connection) -> None:
    """The extended protocol, with names."""
    connection.execute("SET CONSTRAINTS ALL DEFERRED", prepare=True)
    connection.execute("INSERT INTO t VALUES (1), (2)")
    connection.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE", prepare=True)
