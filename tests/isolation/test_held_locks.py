"""An open block's reads and writes hold no lock on a shadow, in whichever form clients send them.

A schema change would wait for the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import psycopg
import pytest
from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from tests.servers import GatewayProcess

_STATEMENTS: Final = (
    "SELECT * FROM w",
    "TABLE v",
    "SELECT count(*) FROM w JOIN u ON u.w = w.id",
    "SELECT (SELECT max(n) FROM u)",
    "SELECT * FROM w WHERE id = 1 FOR UPDATE",
    "INSERT INTO w (d) VALUES ('2020-01-02')",
    "INSERT INTO u VALUES (17, 1, 17) RETURNING *",
    "INSERT INTO u VALUES (18, 1, 1) ON CONFLICT (n) DO UPDATE SET w = 2",
    "INSERT INTO w (d) SELECT d FROM w",
    "UPDATE w SET d = '2020-02-02' WHERE id = 2",
    "DELETE FROM u WHERE id = 1",
    "WITH gone AS (DELETE FROM u RETURNING *) SELECT * FROM gone",
    "MERGE INTO w USING u ON u.w = w.id WHEN MATCHED THEN UPDATE SET d = NULL",
    "EXPLAIN SELECT * FROM w",
    "EXPLAIN ANALYZE SELECT * FROM w",
    "EXPLAIN ANALYZE UPDATE w SET d = NULL",
    "CREATE TEMPORARY TABLE copied AS SELECT * FROM w",
)
_LOCKS: Final = """
SELECT c.relname, l.mode FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
WHERE l.pid = %s AND c.relnamespace = %s::regnamespace AND c.relkind <> 'S'
"""
_Sending = Callable[[PGconn, bytes], PGresult]


def _simple(connection: PGconn, sql: bytes) -> PGresult:
    return connection.exec_(sql)


def _unnamed(connection: PGconn, sql: bytes) -> PGresult:
    return connection.exec_params(sql, [])


def _named(connection: PGconn, sql: bytes) -> PGresult:
    for prepared in (connection.prepare(b"p", sql), connection.describe_prepared(b"p")):
        assert prepared.status == pq.ExecStatus.COMMAND_OK, prepared.error_message
    return connection.exec_prepared(b"p", [])


def _by_sql(connection: PGconn, sql: bytes) -> PGresult:
    prepared = connection.exec_(b"PREPARE p AS " + sql)
    assert prepared.status == pq.ExecStatus.COMMAND_OK, prepared.error_message
    return connection.exec_(b"EXECUTE p")


def _by_sql_unnamed(connection: PGconn, sql: bytes) -> PGresult:
    prepared = connection.exec_params(b"PREPARE p AS " + sql, [])
    assert prepared.status == pq.ExecStatus.COMMAND_OK, prepared.error_message
    return connection.exec_params(b"EXECUTE p", [])


@pytest.fixture(scope="module")
def filled(gateway_process: GatewayProcess) -> Iterator[str]:
    """A schema with two tables, and a view."""
    with psycopg.connect(gateway_process.server.url, autocommit=True) as connection:
        connection.execute(
            b"CREATE SCHEMA held; SET search_path = held;"
            b" CREATE TABLE w (id serial PRIMARY KEY, d date DEFAULT '2020-01-01');"
            b" CREATE TABLE u (id integer PRIMARY KEY, w integer REFERENCES w, n numeric UNIQUE);"
            b" CREATE VIEW v AS SELECT * FROM w"
        )
        connection.execute(
            b"INSERT INTO w DEFAULT VALUES; INSERT INTO w DEFAULT VALUES; INSERT INTO u VALUES (1, 1, 1)"
        )
        yield "held"
        connection.execute(b"DROP SCHEMA held CASCADE")


@pytest.mark.parametrize("send", [_simple, _unnamed, _named, _by_sql, _by_sql_unnamed])
def test_what_is_read_and_written(gateway_process: GatewayProcess, filled: str, send: _Sending) -> None:
    server, path = gateway_process.server, f"-csearch_path={filled}"
    with (
        psycopg.connect(server.url, autocommit=True, options=path, prepare_threshold=None) as block,
        psycopg.connect(gateway_process.catalog_url, autocommit=True) as catalog,
    ):
        held = {}
        for sql in _STATEMENTS:
            if send in {_by_sql, _by_sql_unnamed} and sql.startswith(("EXPLAIN", "CREATE")):
                continue  # PREPARE takes none of these
            block.execute("BEGIN")
            done = send(block.pgconn, sql.encode())
            assert done.status in {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK}, (sql, done.error_message)
            held[sql] = catalog.execute(_LOCKS, [block.info.backend_pid, filled]).fetchall()
            block.execute("ROLLBACK")
            block.execute("DEALLOCATE ALL")
        assert {sql: locks for sql, locks in held.items() if locks} == {}


def test_a_change_beside_a_driver_that_prepares(gateway_process: GatewayProcess, filled: str) -> None:
    """The block's rows are in the altered table: a wider type is forward-compatible, that of a serial's default too."""
    path = f"-csearch_path={filled}"
    with (
        psycopg.connect(gateway_process.server.url, options=path, prepare_threshold=0) as block,
        psycopg.connect(gateway_process.server.url, autocommit=True, options=path) as other,
    ):
        other.execute("CREATE TABLE x (id serial, n smallint DEFAULT 3, s varchar(3) DEFAULT 'a', f real DEFAULT 1.5)")
        block.execute("INSERT INTO x (n) VALUES (%s)", [5])
        assert block.execute("SELECT id, f FROM x WHERE n = %s", [5]).fetchall() == [(1, 1.5)]
        other.execute("SET statement_timeout = '60s'")
        for change in ("id TYPE bigint", "n TYPE integer", "s TYPE varchar(30)", "f TYPE double precision"):
            other.execute(f"ALTER TABLE x ALTER {change}".encode())
        block.commit()
        other.execute("INSERT INTO x DEFAULT VALUES")
        assert other.execute("TABLE x").fetchall() == [(1, 5, "a", 1.5), (2, 3, "a", 1.5)]
