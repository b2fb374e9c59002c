"""Code that once ran as the catalog's superuser runs as the client or the table's owner: a test for each known way.

`act` reports that in a sequence, which no rollback undoes. A role that may read a file of the server is a superuser.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import GatewayProcess, Server

_ACT = """
CREATE SEQUENCE ran; CREATE SEQUENCE broken; GRANT ALL ON SEQUENCE ran, broken TO PUBLIC;
GRANT USAGE ON SCHEMA {schema} TO PUBLIC;
CREATE FUNCTION act() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.nextval('{schema}.ran');
    PERFORM pg_catalog.pg_read_file('PG_VERSION');
    PERFORM pg_catalog.nextval('{schema}.broken');
EXCEPTION WHEN insufficient_privilege THEN
    IF current_user IN ('sluice_metadata', 'sluice_gateway', 'sluice_shadow') THEN
        PERFORM pg_catalog.nextval('{schema}.broken');
    END IF;
END $$;
CREATE FUNCTION watch(i integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN PERFORM {schema}.act(); RETURN true; END $$;
CREATE FUNCTION fold(i integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN PERFORM {schema}.act(); RETURN i; END $$;
CREATE DOMAIN watched AS integer CHECK ({schema}.watch(VALUE));
"""


@pytest.fixture
def client(gateway: Server, schema: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute(_ACT.format(schema=schema).encode())
        yield connection
        assert connection.execute("SELECT is_called FROM broken").fetchone() == (False,)


def _ran(client: psycopg.Connection) -> bool:
    row = client.execute("SELECT is_called FROM ran").fetchone()
    return row == (True,)


def test_a_temporary_view_in_place_of_postgresqls(client: psycopg.Connection, schema: str) -> None:
    client.execute("CREATE TABLE t (id integer); INSERT INTO t VALUES (1)")
    client.execute("CREATE TEMP TABLE beside (n integer)")
    client.execute("CREATE FUNCTION pg_temp.spy() RETURNS boolean LANGUAGE sql AS 'SELECT true'")
    for name in ("pg_namespace", "pg_class", "pg_attrdef", "pg_constraint", "pg_index", "pg_depend", "pg_proc"):
        client.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM pg_catalog.{name} WHERE {schema}.watch(1)".encode())
    described = client.execute("SELECT count(*) FROM pg_sluice.describe(ARRAY['t'::regclass::oid])").fetchone()
    assert described == (1,)
    client.execute("INSERT INTO t VALUES (2)")
    client.execute("ALTER TABLE t ADD COLUMN n integer DEFAULT 1")
    client.execute("CREATE INDEX ON t (n)")
    assert client.execute("SELECT count(*) FROM t").fetchone() == (2,)
    assert not _ran(client)


def test_a_cast_of_a_users_at_insert(client: psycopg.Connection, schema: str) -> None:
    client.execute(
        f"""
        CREATE TYPE mood AS ENUM ('sad', 'ok');
        CREATE FUNCTION mood_text(mood) RETURNS text LANGUAGE plpgsql AS $$
        BEGIN PERFORM {schema}.act(); RETURN 'ok'; END $$;
        CREATE CAST (mood AS text) WITH FUNCTION {schema}.mood_text(mood) AS ASSIGNMENT;
        CREATE TABLE person (id integer PRIMARY KEY, m mood, several mood[]);
        """.encode()
    )
    client.execute("INSERT INTO person VALUES (1, 'sad', ARRAY['sad', 'ok']::mood[])")
    client.execute("INSERT INTO person VALUES (1, 'ok') ON CONFLICT (id) DO UPDATE SET id = 2")
    assert client.execute("SELECT id, m, several FROM person").fetchall() == [(2, "sad", "{sad,ok}")]
    assert not _ran(client)


def test_literals_in_what_is_added_over_rows(client: psycopg.Connection, schema: str) -> None:
    client.execute("CREATE TABLE t (id integer); INSERT INTO t SELECT generate_series(1, 10)")
    client.execute("ALTER TABLE t ADD CONSTRAINT odd CHECK (id <> ALL ('{77}'::watched[]))")
    client.execute("CREATE INDEX odd_index ON t ((id = ANY ('{77}'::watched[])))")
    client.execute("ALTER TABLE t DROP CONSTRAINT odd")
    assert _ran(client)


def test_literals_in_the_query_of_a_materialized_view(client: psycopg.Connection, schema: str) -> None:
    client.execute("CREATE TABLE t (id integer); INSERT INTO t VALUES (1), (2)")
    client.execute("CREATE MATERIALIZED VIEW mv AS SELECT id FROM t WHERE id <> ALL ('{2}'::watched[])")
    client.execute("CREATE MATERIALIZED VIEW computed AS SELECT id, fold(id) FROM t WHERE id <> ALL ('{2}'::watched[])")
    for _ in range(2):
        client.execute("REFRESH MATERIALIZED VIEW mv; REFRESH MATERIALIZED VIEW computed")
    assert client.execute("SELECT * FROM mv").fetchall() == [(1,)]
    assert client.execute("SELECT * FROM computed").fetchall() == [(1, 1)]
    assert _ran(client)


def test_expressions_of_indexes_that_are_folded(client: psycopg.Connection, gateway: Server, schema: str) -> None:
    """While rows are read back from the shadow, another session makes PostgreSQL look at the index anew."""
    client.execute("CREATE TABLE t (id integer, v text); CREATE INDEX folded ON t ((id + fold(1)))")
    client.execute("CREATE TABLE alike (LIKE t INCLUDING ALL)")
    stop = threading.Event()

    def disturb() -> None:
        with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as other:
            number = 0
            while not stop.is_set():
                number += 1
                other.execute(f"ALTER INDEX folded SET (fillfactor = {70 + number % 20})".encode())

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    try:
        for number in range(40):
            client.execute("INSERT INTO t VALUES (%s, 'a')", (number,))
        client.execute("UPDATE t SET id = id + 1")
    finally:
        stop.set()
        disturbing.join()
    assert _ran(client)


def test_what_owners_code_leaves_behind(client: psycopg.Connection, schema: str) -> None:
    """A search_path with operators and functions of its own, and statements under every likely name."""
    client.execute(
        f"""
        CREATE FUNCTION mine(a name, b name) RETURNS boolean LANGUAGE plpgsql AS $$
        BEGIN PERFORM {schema}.act(); RETURN a OPERATOR(pg_catalog.=) b; END $$;
        CREATE FUNCTION mine(a bigint, b bigint) RETURNS boolean LANGUAGE plpgsql AS $$
        BEGIN PERFORM {schema}.act(); RETURN a OPERATOR(pg_catalog.=) b; END $$;
        CREATE FUNCTION mine(a text, b text) RETURNS text LANGUAGE plpgsql AS $$
        BEGIN PERFORM {schema}.act(); RETURN pg_catalog.concat(a, b); END $$;
        CREATE OPERATOR = (FUNCTION = {schema}.mine, LEFTARG = name, RIGHTARG = name);
        CREATE OPERATOR = (FUNCTION = {schema}.mine, LEFTARG = bigint, RIGHTARG = bigint);
        CREATE OPERATOR || (FUNCTION = {schema}.mine, LEFTARG = text, RIGHTARG = text);
        CREATE FUNCTION format(text, VARIADIC text[]) RETURNS text LANGUAGE plpgsql AS $$
        BEGIN PERFORM {schema}.act(); RETURN pg_catalog.format($1, VARIADIC $2); END $$;
        CREATE FUNCTION concat(text, text, text) RETURNS text LANGUAGE plpgsql AS $$
        BEGIN PERFORM {schema}.act(); RETURN pg_catalog.concat($1, $2, $3); END $$;
        CREATE FUNCTION leave(i integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
        BEGIN
            PERFORM pg_catalog.set_config('search_path', '{schema}, pg_catalog', false);
            FOR n IN 1..30 LOOP
                BEGIN
                    EXECUTE 'DEALLOCATE __asyncpg_stmt_' OPERATOR(pg_catalog.||) n OPERATOR(pg_catalog.||) '__';
                EXCEPTION WHEN OTHERS THEN NULL;
                END;
                BEGIN
                    EXECUTE 'PREPARE __asyncpg_stmt_' OPERATOR(pg_catalog.||) n OPERATOR(pg_catalog.||)
                        '__ AS SELECT {schema}.act()';
                EXCEPTION WHEN OTHERS THEN NULL;
                END;
            END LOOP;
            RETURN true;
        END $$;
        CREATE DOMAIN left_behind AS integer CHECK ({schema}.leave(VALUE));
        CREATE TABLE parent (id integer PRIMARY KEY);
        CREATE TABLE child (id integer PRIMARY KEY, p integer REFERENCES parent ON UPDATE CASCADE, d left_behind);
        INSERT INTO parent VALUES (1);
        INSERT INTO child VALUES (1, 1, 1);
        """.encode()
    )
    assert not _ran(client)
    client.execute("UPDATE parent SET id = 2")
    client.execute("ALTER TABLE child ADD CONSTRAINT odd CHECK (id <> ALL ('{77}'::left_behind[]))")
    client.execute("CREATE INDEX odd_index ON child ((id = ANY ('{77}'::left_behind[])))")
    client.execute("ALTER TABLE child DROP CONSTRAINT odd")
    assert client.execute("SELECT id, p FROM child").fetchall() == [(1, 2)]


def test_settings_of_the_database(client: psycopg.Connection, gateway: Server, schema: str) -> None:
    """Its owner sets what would stop or mislead the gateway's own connections."""
    settings = {
        "statement_timeout": "1ms",
        "lock_timeout": "1ms",
        "default_transaction_read_only": "on",
        "search_path": schema,
        "default_transaction_isolation": "serializable",
    }
    client.execute("CREATE TABLE t (id integer); INSERT INTO t SELECT generate_series(1, 10)")
    try:
        for name, value in settings.items():
            client.execute(f"ALTER DATABASE {gateway.database} SET {name} = '{value}'".encode())
        options = (
            f"-csearch_path={schema} -cstatement_timeout=0 -clock_timeout=0 -cdefault_transaction_read_only=off"
            " -cdefault_transaction_isolation=read\\ committed"
        )
        with psycopg.connect(gateway.url, autocommit=True, options=options) as other:
            other.execute("INSERT INTO t VALUES (11)")
            other.execute("ALTER TABLE t ADD CONSTRAINT small CHECK (id < 100)")
            other.execute("CREATE INDEX ON t (id)")
            assert other.execute("SELECT count(*) FROM t").fetchone() == (11,)
    finally:
        for name in settings:
            client.execute(f"ALTER DATABASE {gateway.database} RESET {name}".encode())


def test_the_gateways_roles_are_nobodys(gateway: Server, gateway_process: GatewayProcess) -> None:
    for role in ("postgres", "sluice_gateway", "sluice_metadata", "sluice_shadow", "sluice_reader"):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(gateway.url.replace("://sluice@", f"://{role}@"))
    with psycopg.connect(gateway.url, autocommit=True) as client:
        for role in ("sluice_gateway", "sluice_metadata", "sluice_shadow", "sluice_reader"):
            for sql in (f"SET ROLE {role}", f"GRANT {role} TO sluice", f"ALTER ROLE {role} LOGIN", f"DROP ROLE {role}"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    client.execute(sql.encode())
    with psycopg.connect(gateway_process.catalog_url, autocommit=True) as catalog:
        rows = catalog.execute(
            "SELECT DISTINCT usename::text FROM pg_stat_activity"
            " WHERE application_name = 'sluice gateway' AND datname = current_database()"
        ).fetchall()
    assert rows == [("sluice_gateway",)]
