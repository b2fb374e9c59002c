"""No client can prolong a publish, during which no other session can commit.

Constraints that are deferred to COMMIT fire at once by SET CONSTRAINTS, which needs no privilege, and beside triggers
of a client's own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from tests.security.waiting import slowest_beside
from tests.servers import Server

_CODE = """
CREATE TABLE t (id integer); CREATE TABLE other (id integer);
CREATE FUNCTION f() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN EXECUTE 'SET CONSTRAINTS ALL IMMEDIATE'; RETURN 1; END $$;
CREATE FUNCTION g() RETURNS integer LANGUAGE sql AS 'SET CONSTRAINTS ALL IMMEDIATE; SELECT 1';
CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN SET CONSTRAINTS ALL IMMEDIATE; END $$;
CREATE DOMAIN d AS integer CHECK (f() = VALUE);
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(5); RETURN NULL; END';
CREATE FUNCTION same(i integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN i; END';
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE FUNCTION number(mood) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE CAST (mood AS integer) WITH FUNCTION number(mood) AS IMPLICIT;
CREATE TEMP TABLE mine (id integer PRIMARY KEY);
CREATE TEMP TABLE folded (id integer PRIMARY KEY);
CREATE INDEX ON folded ((id + same(1)));
CREATE TEMP TABLE above (id integer PRIMARY KEY);
CREATE TEMP TABLE below (id integer REFERENCES above DEFERRABLE);
"""
_LATE = "CREATE CONSTRAINT TRIGGER s AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %s()"


@pytest.fixture
def client(gateway: Server, schema: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute(_CODE)
        yield connection


@pytest.mark.parametrize("change", ["INSERT INTO t VALUES (1)", "CREATE TABLE n (id integer)"])
@pytest.mark.parametrize(
    "statement",
    [
        "DO $$ BEGIN SET CONSTRAINTS ALL IMMEDIATE; END $$",
        "DO $$ BEGIN SET CONSTRAINTS pg_sluice.pg_sluice_publish IMMEDIATE; END $$",
        "SELECT f()",
        "SELECT g()",
        "CALL p()",
        "SELECT '{1}'::d[]",
    ],
)
def test_nobody_publishes_before_commit(
    client: psycopg.Connection, gateway: Server, schema: str, change: str, statement: str
) -> None:
    client.execute("BEGIN")
    client.execute(change.encode())
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        client.execute(statement.encode())
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as other:
        other.execute("SET statement_timeout = '20s'")
        other.execute("INSERT INTO other VALUES (1)")
    client.execute("ROLLBACK")
    assert client.execute("SELECT id FROM t").fetchall() == []


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE CONSTRAINT TRIGGER s AFTER INSERT ON mine DEFERRABLE FOR EACH ROW EXECUTE FUNCTION slow()",
        "ALTER TABLE mine ADD EXCLUDE USING btree (same(id) WITH =) DEFERRABLE INITIALLY DEFERRED",
        "ALTER TABLE mine ADD m mood REFERENCES mine DEFERRABLE INITIALLY DEFERRED",
        "CREATE TEMP TABLE sub (id integer REFERENCES folded DEFERRABLE)",
        "CREATE INDEX ON above ((id + same(1)))",
        "CREATE INDEX ON below (id) WHERE same(1) = id",
        "CREATE STATISTICS pg_temp.s ON (id + same(1)), id FROM above",
    ],
)
@pytest.mark.parametrize("inside", ["{}", "DO $$ BEGIN {}; END $$"])
def test_no_code_of_a_clients_is_deferred(client: psycopg.Connection, statement: str, inside: str) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="DEFERRABLE"):
        client.execute(inside.format(statement).encode())


def test_what_runs_no_code_may_be_deferred(client: psycopg.Connection) -> None:
    client.execute(
        "CREATE TEMP TABLE sub (id integer REFERENCES mine DEFERRABLE INITIALLY DEFERRED, n integer UNIQUE DEFERRABLE)"
    )
    with client.transaction():
        client.execute("INSERT INTO sub VALUES (1)")
        client.execute("INSERT INTO t VALUES (1)")
        client.execute("INSERT INTO mine VALUES (1)")
    assert client.execute("SELECT id FROM t").fetchall() == [(1,)]


def test_a_deferred_trigger_holds_up_nobody(client: psycopg.Connection, gateway: Server, schema: str) -> None:
    """It fires before the commit, so that others commit meanwhile, be it slow."""
    client.execute((_LATE % "slow").encode())
    done = threading.Event()

    def insert() -> None:
        client.execute("INSERT INTO t VALUES (1)")
        done.set()

    inserting = threading.Thread(target=insert)
    inserting.start()
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as other:
        active = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        while other.execute(active).fetchone() == (0,):
            pass
        for number in range(5):
            other.execute("INSERT INTO other VALUES (%s)", (number,))
        assert not done.is_set()
    inserting.join()
    assert client.execute("SELECT id FROM t").fetchall() == [(1,)]


@pytest.mark.parametrize("statement", ["INSERT INTO t VALUES (1)", "DO $$ BEGIN INSERT INTO t VALUES (1); END $$"])
def test_what_defers_again_ends(client: psycopg.Connection, statement: str) -> None:
    """Whatever a client puts in place of the gateway's list."""
    client.execute(
        "CREATE FUNCTION quick() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN SET CONSTRAINTS pg_sluice.pg_sluice_late IMMEDIATE;"
        " INSERT INTO other VALUES (NEW.id); RETURN NULL; END'"
    )
    client.execute((_LATE % "quick").encode())
    client.execute("SET sluice.late = '{2200}'; SET statement_timeout = '20s'")
    client.execute("BEGIN")
    client.execute(statement.encode())
    client.execute("COMMIT")
    assert client.execute("SELECT id FROM other").fetchall() == [(1,)]


def test_many_deferred_checks_hold_up_nobody(client: psycopg.Connection, gateway: Server, schema: str) -> None:
    """They are made before the commit, so that others commit meanwhile."""
    client.execute("CREATE TEMP TABLE many (id integer REFERENCES mine DEFERRABLE INITIALLY DEFERRED)")
    client.execute("INSERT INTO mine VALUES (1)")
    client.execute("BEGIN")
    client.execute("INSERT INTO t VALUES (1)")
    client.execute("INSERT INTO many SELECT 1 FROM generate_series(1, 400000)")
    committing = threading.Thread(target=lambda: client.execute("COMMIT"))
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as other:
        slowest, taken = slowest_beside(committing, other, "INSERT INTO other VALUES (1)")
        assert slowest < taken / 2
        assert other.execute("SELECT count(*) FROM t").fetchone() == (1,)
    client.execute("BEGIN")
    client.execute("INSERT INTO t VALUES (2)")
    client.execute("INSERT INTO many VALUES (7)")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        client.execute("COMMIT")
    assert client.execute("SELECT id FROM t").fetchall() == [(1,)]
