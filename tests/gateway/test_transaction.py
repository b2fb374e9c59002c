"""Transactions on the wire: pipelines up to Sync, blocks begun and ended in the extended protocol, and their status."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from gateway.wire.messages.backend import ErrorResponse, ReadyForQuery
from gateway.wire.messages.frontend import Bind, Describe, Execute, Parse, Query, Sync
from gateway.wire.messages.layout import Message
from tests.gateway.orphans import orphans
from tests.gateway.wire import assert_same_answers, wire
from tests.servers import GatewayProcess, Server

_TABLE = "wire_entries"


@pytest.fixture(scope="module")
def both(oracle: Server, gateway: Server) -> Iterator[tuple[Server, Server]]:
    """The two servers, with the same small table."""
    for server in (oracle, gateway):
        server.psql("-qc", f"CREATE TABLE {_TABLE} (n integer NOT NULL, t text)")
    yield oracle, gateway
    for server in (oracle, gateway):
        server.psql("-qc", f"DROP TABLE {_TABLE}")


@pytest.fixture(autouse=True)
def three_rows(both: tuple[Server, Server]) -> None:
    for server in both:
        server.psql("-qc", f"TRUNCATE {_TABLE}; INSERT INTO {_TABLE} VALUES (1, 'a'), (2, 'b'), (3, 'c')")


def _do(sql: str, *parameters: bytes) -> list[Message]:
    return [Parse("", sql), Bind("", "", (), parameters, ()), Execute("")]


def _insert(number: int) -> list[Message]:
    return _do(f"INSERT INTO {_TABLE} VALUES ($1)", str(number).encode())


_ALL = Query(f"SELECT n FROM {_TABLE} ORDER BY n")
_SCRIPTS: dict[str, list[list[Message]]] = {
    "a pipeline is one transaction": [[*_insert(4), *_insert(5), Sync()], [_ALL]],
    "a pipeline that fails leaves nothing": [[*_insert(4), *_do("SELECT 1 / 0"), *_insert(5), Sync()], [_ALL]],
    "a lake statement that fails undoes the pipeline": [
        [*_insert(4), *_do(f"SELECT n / (n - n) FROM {_TABLE}"), Sync()],
        [_ALL],
    ],
    "what is relayed belongs to the pipeline too": [
        [*_do("CREATE TEMP TABLE scratch (n integer)"), *_insert(4), *_do("SELECT 1 / 0"), Sync()],
        [Query("SELECT * FROM scratch")],
        [_ALL],
    ],
    "a pipeline sees its own rows": [[*_insert(4), *_do(f"SELECT n FROM {_TABLE} ORDER BY n"), Sync()]],
    "a block in the extended protocol": [
        [*_do("BEGIN"), *_insert(4), Sync()],
        [*_do(f"UPDATE {_TABLE} SET t = 'x' WHERE n = 4 RETURNING t"), Sync()],
        [_ALL],
        [*_do("ROLLBACK"), Sync()],
        [_ALL],
    ],
    "a commit in the extended protocol": [
        [*_do("BEGIN"), *_insert(4), *_do(f"DELETE FROM {_TABLE} WHERE n = 1"), Sync()],
        [Parse("", "COMMIT"), Bind("", "", (), (), ()), Describe(b"P", ""), Execute(""), Sync()],
        [_ALL],
    ],
    "a commit in the middle of a pipeline": [
        [*_do("BEGIN"), *_insert(4), *_do("COMMIT"), *_insert(5), *_do("SELECT 1 / 0"), Sync()],
        [_ALL],
    ],
    "a table made and filled in one pipeline": [
        [*_do("CREATE TABLE wire_made (n integer)"), *_do("INSERT INTO wire_made VALUES (1)"), Sync()],
        [Query("SELECT * FROM wire_made")],
        [Query("DROP TABLE wire_made")],
    ],
    "an error in a block, and ROLLBACK in the extended protocol": [
        [Query("BEGIN")],
        [*_insert(4), *_do("SELECT 1 / 0"), Sync()],
        [_ALL],
        [*_insert(5), Sync()],
        [*_do("ROLLBACK"), Sync()],
        [_ALL],
    ],
    "savepoints in the extended protocol": [
        [*_do("BEGIN"), *_insert(4), *_do("SAVEPOINT s"), *_insert(5), *_do("ROLLBACK TO s"), *_insert(6), Sync()],
        [_ALL],
        [*_do("COMMIT"), Sync()],
        [_ALL],
    ],
    "ROLLBACK and a look in one query": [
        [Query("BEGIN")],
        [Query("SELECT 1 / 0")],
        [Query(f"ROLLBACK; SELECT count(*) FROM {_TABLE}")],
    ],
    "a row limit in a block": [
        [Query("BEGIN")],
        [*_insert(4), Parse("", f"SELECT n FROM {_TABLE} ORDER BY n"), Bind("c", "", (), (), ()), Execute("c", 2),
         Sync()],
        [Execute("c", 1), Sync()],
        [Execute("c"), Sync()],
        [Query("COMMIT")],
        [Execute("c"), Sync()],
    ],
    "a row limit on what changes": [
        [Query(f"BEGIN; INSERT INTO {_TABLE} VALUES (4), (5), (6)")],
        [Parse("", f"UPDATE {_TABLE} SET n = n WHERE n > 3 RETURNING 1"), Bind("u", "", (), (), ()), Execute("u", 2),
         Sync()],
        [Execute("u", 1), Sync()],
        [Execute("u", 1), Sync()],
        [Parse("", f"INSERT INTO {_TABLE} VALUES (7), (8), (9) RETURNING n"), Bind("i", "", (), (), ()),
         Execute("i", 2), Sync()],
        [Execute("i"), Sync()],
        [Parse("", f"WITH d AS (DELETE FROM {_TABLE} WHERE n > 7 RETURNING n) SELECT n FROM d ORDER BY n"),
         Bind("w", "", (), (), ()), Execute("w", 1), Sync()],
        [Execute("w", 5), Sync()],
        [Parse("", f"MERGE INTO {_TABLE} t USING (VALUES (7)) v (m) ON n = m WHEN MATCHED THEN DELETE RETURNING m"),
         Bind("m", "", (), (), ()), Execute("m", 1), Sync()],
        [Execute("m", 1), Sync()],
        [Query("COMMIT")],
        [Parse("", f"DELETE FROM {_TABLE} WHERE n > 3 RETURNING 1"), Bind("", "", (), (), ()), Execute("", 2), Sync()],
        [_ALL],
    ],
    "LOCK TABLE in a pipeline": [
        [*_do(f"LOCK TABLE {_TABLE}"), Sync()],
        [*_do(f"SELECT n FROM {_TABLE} ORDER BY n"), *_do(f"LOCK TABLE {_TABLE}"), *_insert(4), Sync()],
        [*_insert(5), *_do(f"LOCK TABLE {_TABLE}"), Sync()],
        [*_do("SELECT 1"), *_do(f"LOCK TABLE {_TABLE} IN SHARE MODE"), Sync()],
        [*_do(f"LOCK TABLE {_TABLE}"), *_insert(6), Sync()],
        [_ALL],
    ],
    "deferred to the end": [
        [Query(f"BEGIN; INSERT INTO {_TABLE} VALUES (4); SELECT count(*) FROM {_TABLE}")],
        [Query(f"INSERT INTO {_TABLE} VALUES (NULL)")],
        [Query("COMMIT")],
        [_ALL],
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", _SCRIPTS)
def test_answers_as_postgresql_does(both: tuple[Server, Server], name: str) -> None:
    assert_same_answers(both, _SCRIPTS[name])


@pytest.mark.parametrize("setting", ["statement_timeout", "lock_timeout"])
def test_a_wait_for_rows_ends_in_time(both: tuple[Server, Server], setting: str) -> None:
    """The same on both: 57014 or 55P03, and the session goes on; once the rows are free, they can be had."""
    told = []
    for server in both:
        with wire(server) as holder, wire(server) as waiter:
            holder.query("BEGIN")
            holder.query(f"UPDATE {_TABLE} SET t = 'held' WHERE n = 1")
            waiter.query(f"SET {setting} = '2s'")
            answers = [waiter.query(f"UPDATE {_TABLE} SET t = 'had' WHERE n = 1"), waiter.query("SELECT 1")]
            holder.query("ROLLBACK")
            waiter.query(f"RESET {setting}")
            answers.append(waiter.query(f"UPDATE {_TABLE} SET t = 'had' WHERE n = 1 RETURNING n, t"))
        told.append(answers)
    codes = [dict(messages[0].fields)["C"] for [messages, *_] in told if isinstance(messages[0], ErrorResponse)]
    assert codes == ["57014" if setting == "statement_timeout" else "55P03"] * 2
    assert told[1][1:] == told[0][1:]


def test_a_client_that_says_goodbye_in_the_middle_is_rolled_back(
    gateway_process: GatewayProcess, both: tuple[Server, Server]
) -> None:
    """Its rows are not seen, and its files do not stay."""
    server = gateway_process.server
    with wire(server) as connection:
        connection.query("BEGIN")
        connection.query(f"INSERT INTO {_TABLE} SELECT g FROM generate_series(10, 20) g")
        connection.query(f"DELETE FROM {_TABLE} WHERE n = 1")
        assert connection.query(f"SELECT count(*) FROM {_TABLE}")[-1] == ReadyForQuery(b"T")
    assert server.query(f"SELECT count(*) FROM {_TABLE}") == [["3"]]
    assert orphans(gateway_process, _TABLE) == []


def test_a_backend_that_vanishes_leaves_no_files(gateway_process: GatewayProcess, schema: str) -> None:
    """Nobody could roll its transaction back; the catalog says what became of it."""
    server = gateway_process.server
    server.psql("-qc", f"CREATE TABLE {schema}.lost AS SELECT 1 AS n", settings={"sluice.hot_rows": "0"})
    with psycopg.connect(server.url, options="-c sluice.hot_rows=0") as connection:
        connection.execute(f"INSERT INTO {schema}.lost VALUES (2)".encode())
        connection.execute(f"DELETE FROM {schema}.lost WHERE n = 1".encode())
        assert len(orphans(gateway_process, schema)) == 2
        server.psql("-qc", f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        with pytest.raises(psycopg.errors.AdminShutdown):
            connection.execute("SELECT 1")
    deadline = time.monotonic() + 120
    while left := orphans(gateway_process, schema):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
    assert server.query(f"SELECT n FROM {schema}.lost") == [["1"]]


def test_what_a_transaction_drops_leaves_no_files(gateway_process: GatewayProcess, schema: str) -> None:
    """Files of a table made and dropped in one transaction, of a savepoint undone, and of rows deleted twice."""
    gateway_process.server.psql(
        "-q",
        sql=f"""
        SET search_path = {schema};
        SET sluice.hot_rows = 0;
        CREATE TABLE kept (n integer);
        BEGIN;
        CREATE TABLE dropped AS SELECT 1 AS n;
        INSERT INTO dropped VALUES (2);
        INSERT INTO kept VALUES (1), (2), (3);
        SAVEPOINT s;
        INSERT INTO kept VALUES (4);
        ROLLBACK TO s;
        DELETE FROM kept WHERE n = 1;
        DELETE FROM kept WHERE n = 2;
        DROP TABLE dropped;
        COMMIT;
        """,
    )
    assert gateway_process.server.query(f"SELECT n FROM {schema}.kept") == [["3"]]
    assert orphans(gateway_process, schema) == []
