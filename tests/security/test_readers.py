"""Readers of the lake's format: DuckDB, by the output of `sluice attach`, sees all rows and may do nothing else.

Roles that may read or write everything in PostgreSQL may not do so with the lake's metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import duckdb
import psycopg
import pytest

from tests.servers import GatewayProcess, Server
from tests.witness import Witness

_READER: Final = "sluice_reader"
_TABLES: Final = """
SELECT oid::regclass::text, relnamespace::regnamespace::text, (
    SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0
        AND NOT attisdropped AND attgenerated = '' AND attidentity = '' ORDER BY attnum LIMIT 1)
FROM pg_class c WHERE relnamespace IN ('pg_sluice'::regnamespace, 'pg_ducklake'::regnamespace) AND relkind = 'r'
    AND relname NOT LIKE 'table_lock_%' ORDER BY 1
"""
_VIEWS: Final = """
SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'pg_ducklake'::regnamespace AND relkind = 'v' ORDER BY 1
"""
# Each is 42501, whatever the session has set.
_REFUSED: Final = """
SELECT * FROM {schema}.t
INSERT INTO {schema}.t VALUES (1)
SELECT * FROM pg_sluice.setting
SELECT * FROM pg_sluice.session
SELECT * FROM pg_sluice.gateway
SELECT * FROM pg_catalog.pg_authid
SELECT * FROM pg_catalog.pg_shadow
SELECT * FROM pg_catalog.pg_statistic
SELECT pg_sluice.login('sluice')
SELECT pg_sluice.stage('{{}}')
SELECT pg_sluice.end_backend(0, 0)
SELECT nextval('pg_sluice.snapshot_id')
INSERT INTO pg_ducklake.ducklake_metadata (key, value) VALUES ('data_path', '/')
UPDATE pg_ducklake.ducklake_data_file SET path = '/etc/passwd'
DELETE FROM pg_ducklake.ducklake_snapshot
MERGE INTO pg_ducklake.ducklake_tag USING (VALUES (1)) v (i) ON true WHEN MATCHED THEN DELETE
TRUNCATE pg_ducklake.ducklake_snapshot
LOCK TABLE pg_ducklake.ducklake_snapshot IN ROW SHARE MODE
SELECT * FROM pg_ducklake.ducklake_snapshot FOR KEY SHARE
ALTER TABLE pg_ducklake.ducklake_snapshot DISABLE ROW LEVEL SECURITY
DROP POLICY readers ON pg_ducklake.ducklake_snapshot
CREATE TABLE pg_ducklake.more (n integer)
CREATE TABLE pg_sluice.more (n integer)
CREATE TABLE public.more (n integer)
CREATE VIEW {schema}.more AS SELECT 1
CREATE SCHEMA more
CREATE FUNCTION public.more() RETURNS integer LANGUAGE sql AS 'SELECT 1'
CREATE EVENT TRIGGER more ON ddl_command_end EXECUTE FUNCTION pg_sluice.refuse_in_the_past()
DROP TABLE pg_ducklake.ducklake_snapshot
COPY pg_ducklake.ducklake_table TO '/tmp/ducklake_table'
COPY (SELECT 1) TO PROGRAM 'true'
SELECT pg_read_file('PG_VERSION')
SELECT pg_terminate_backend({backend})
SET ROLE sluice_metadata
SET SESSION AUTHORIZATION sluice
ALTER ROLE sluice_reader CREATEROLE
GRANT sluice_reader TO sluice
"""


@pytest.fixture
def reader_url(gateway_process: GatewayProcess) -> str:
    """The catalog itself, as `sluice attach` has DuckDB come to it."""
    return gateway_process.catalog_url.replace("://postgres@", f"://{_READER}@")


def _sqlstate(connection: psycopg.Connection, sql: str) -> str:
    """How the statement ends in a transaction of its own that may write; "" where it succeeds."""
    try:
        connection.execute(b"BEGIN READ WRITE")
        connection.execute(sql.encode())
    except psycopg.Error as error:
        return error.sqlstate or ""
    finally:
        connection.execute(b"ROLLBACK")
    return ""


def test_a_reader_may_read_and_nothing_else(
    gateway: Server, schema: str, gateway_process: GatewayProcess, reader_url: str
) -> None:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as client:
        client.execute("CREATE TABLE t (n integer); INSERT INTO t VALUES (1)")
        client.execute("SELECT 'literal of another' FROM t")
        with psycopg.connect(reader_url, autocommit=True) as reader:
            with psycopg.connect(gateway_process.catalog_url) as superuser:
                backend = superuser.execute("SELECT min(pid) FROM pg_stat_activity WHERE usename = 'sluice_gateway'")
            refused = _REFUSED.format(schema=schema, backend=backend.fetchall()[0][0])
            wrong = {sql: found for sql in refused.strip().splitlines() if (found := _sqlstate(reader, sql)) != "42501"}
            assert wrong == {}
            seen = reader.execute("SELECT query FROM pg_stat_activity WHERE pid <> pg_backend_pid()").fetchall()
            assert not [query for (query,) in seen if query and query != "<insufficient privilege>"]
            with psycopg.connect(gateway_process.catalog_url) as superuser:
                for table, namespace, _ in superuser.execute(_TABLES.encode()).fetchall():
                    if namespace == "pg_ducklake":
                        question = f"SELECT count(*) FROM {table}".encode()
                        assert reader.execute(question).fetchall() == superuser.execute(question).fetchall(), table


def test_duckdb_sees_all_rows_and_changes_none(gateway: Server, schema: str, gateway_process: GatewayProcess) -> None:
    """Rights on tables and columns are the gateway's to keep (docs/security.md): who reads files reads them all."""
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as client:
        client.execute("CREATE TABLE t (id integer, secret text); INSERT INTO t VALUES (1, 'one'), (2, 'two')")
        client.execute("CREATE VIEW v AS SELECT id FROM t WHERE id = 1; REVOKE ALL ON t FROM CURRENT_USER")
    witness = Witness(gateway_process.data_dir)
    try:
        name = f"{witness.lake}.{schema}.t"
        assert witness.rows(f"SELECT * FROM {name} ORDER BY 1") == [(1, "one"), (2, "two")]
        for sql in (
            f"INSERT INTO {name} VALUES (3, 'three')",
            f"UPDATE {name} SET id = 3",
            f"DELETE FROM {name}",
            f"DROP TABLE {name}",
            f"ALTER TABLE {name} ADD COLUMN n INTEGER",
            f"CREATE TABLE {name}_more AS SELECT 1 AS n",
            f"CREATE SCHEMA {witness.lake}.more",
            f"CALL ducklake_expire_snapshots('{witness.lake}', older_than => now())",
        ):
            with pytest.raises(duckdb.Error, match="read-only"):
                witness.rows(sql)
        assert witness.rows(f"SELECT * FROM {name} ORDER BY 1") == [(1, "one"), (2, "two")]
    finally:
        witness.close()


def test_what_the_owner_of_the_database_sets_for_it(
    gateway: Server, schema: str, gateway_process: GatewayProcess, reader_url: str
) -> None:
    """Operators of the owner's in place of PostgreSQL's do not run in a reader's session."""
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as owner:
        owner.execute("CREATE TABLE t (id integer); INSERT INTO t VALUES (7)")
        owner.execute(
            f"""
            CREATE SEQUENCE ran; GRANT ALL ON SEQUENCE ran TO PUBLIC; GRANT USAGE ON SCHEMA {schema} TO PUBLIC;
            CREATE FUNCTION mine(a bigint, b bigint) RETURNS boolean LANGUAGE plpgsql AS $$
            BEGIN PERFORM pg_catalog.nextval('{schema}.ran'); RETURN a OPERATOR(pg_catalog.=) b; END $$;
            CREATE OPERATOR = (FUNCTION = {schema}.mine, LEFTARG = bigint, RIGHTARG = bigint);
            CREATE FUNCTION version() RETURNS text LANGUAGE plpgsql AS $$
            BEGIN PERFORM pg_catalog.nextval('{schema}.ran'); RETURN pg_catalog.version(); END $$;
            """.encode()
        )
        settings = {"search_path": f"{schema}, pg_catalog", "row_security": "off"}
        try:
            for name, value in settings.items():
                owner.execute(f"ALTER DATABASE {gateway.database} SET {name} = {value}".encode())
            witness = Witness(gateway_process.data_dir)
            try:
                assert witness.rows(f"SELECT * FROM {witness.lake}.{schema}.t") == [(7,)]
            finally:
                witness.close()
            with psycopg.connect(reader_url, autocommit=True) as reader:
                reader.execute("SELECT version(), table_id = 1::bigint FROM pg_ducklake.ducklake_table")
        finally:
            for name in settings:
                owner.execute(f"ALTER DATABASE {gateway.database} RESET {name}".encode())
        assert owner.execute("SELECT is_called FROM ran").fetchone() == (False,)


def test_a_reader_does_not_come_through_the_gateway(
    gateway: Server, schema: str, gateway_process: GatewayProcess
) -> None:
    """There it would read what columns hold at least and at most, of tables not its own. Nor do its members."""
    member = f"{schema}_member"
    with psycopg.connect(gateway_process.catalog_url, autocommit=True) as superuser:
        superuser.execute(f"CREATE ROLE {member} LOGIN IN ROLE {_READER}".encode())
        try:
            for role in (_READER, member):
                with pytest.raises(psycopg.OperationalError, match="has rights on the catalog itself"):
                    psycopg.connect(replace(gateway, user=role).url)
        finally:
            superuser.execute(f"DROP ROLE {member}".encode())


@pytest.fixture
def everything(gateway: Server, schema: str, gateway_process: GatewayProcess) -> Iterator[psycopg.Connection]:
    """A client that may read and write everything, as PostgreSQL's predefined roles have it."""
    role = f"{schema}_everything"
    with psycopg.connect(gateway_process.catalog_url, autocommit=True) as superuser:
        superuser.execute(f"CREATE ROLE {role} LOGIN IN ROLE pg_read_all_data, pg_write_all_data".encode())
        try:
            with psycopg.connect(replace(gateway, user=role).url, autocommit=True) as client:
                yield client
        finally:
            superuser.execute(f"DROP ROLE {role}".encode())


def test_rights_on_everything_are_none_on_the_lakes_metadata(
    gateway: Server, schema: str, gateway_process: GatewayProcess, everything: psycopg.Connection
) -> None:
    with psycopg.connect(gateway.url, autocommit=True) as owner:
        owner.execute(f"CREATE TABLE {schema}.t (id integer); INSERT INTO {schema}.t VALUES (1)".encode())
        owner.execute(f"CREATE TABLE {schema}.f (id integer); SET sluice.hot_rows = 0".encode())
        owner.execute(f"INSERT INTO {schema}.f VALUES (1), (2)".encode())
        owner.execute("RESET sluice.hot_rows")
        owner.execute(f"DELETE FROM {schema}.f WHERE id = 1".encode())
    everything.execute(f"UPDATE {schema}.t SET id = id + 1".encode())
    assert everything.execute(f"SELECT id FROM {schema}.t".encode()).fetchall() == [(2,)]
    with psycopg.connect(gateway_process.catalog_url, autocommit=True) as superuser:
        tables = superuser.execute(_TABLES.encode()).fetchall()
        assert len(tables) > 60
        for table, _, column in tables:
            # From code of the client's, which no gateway reads.
            found = _told(
                everything,
                f"""DO $$ DECLARE seen bigint; gone bigint; BEGIN SELECT count(*) FROM {table} INTO seen;
                DELETE FROM {table}; GET DIAGNOSTICS gone = ROW_COUNT;
                RAISE EXCEPTION USING MESSAGE = seen || ' seen, ' || gone || ' gone'; END $$""",
            )
            assert found == ("P0001", "0 seen, 0 gone"), table
            if column is not None:
                state, message = _told(everything, f"INSERT INTO {table} ({column}) VALUES (NULL)")
                assert state in {"42501", "23502"}, (table, message)
        views = superuser.execute(_VIEWS.encode()).fetchall()
        assert any("ducklake_inlined_data_" in view for (view,) in views), "the hot rows of tables"
        assert any("ducklake_inlined_delete_" in view for (view,) in views)
        for (view,) in views:
            found = _told(
                everything,
                f"""DO $$ DECLARE seen bigint; BEGIN SELECT count(*) FROM {view} INTO seen;
                RAISE EXCEPTION USING MESSAGE = seen || ' seen'; END $$""",
            )
            assert found == ("P0001", "0 seen"), view
    assert everything.execute(f"SELECT id FROM {schema}.t".encode()).fetchall() == [(2,)]


def _told(connection: psycopg.Connection, sql: str) -> tuple[str, str]:
    try:
        connection.execute(sql.encode())
    except psycopg.Error as error:
        return error.sqlstate or "", error.diag.message_primary or ""
    return "", ""
