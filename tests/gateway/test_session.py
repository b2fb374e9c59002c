"""The same messages to PostgreSQL and to the gateway get the same answers, over lake tables and others alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.wire.messages import startup
from gateway.wire.messages.backend import (
    BindComplete,
    CommandComplete,
    DataRow,
    ErrorResponse,
    NegotiateProtocolVersion,
    ParameterStatus,
    ParseComplete,
    PortalSuspended,
    ReadyForQuery,
)
from gateway.wire.messages.frontend import Bind, Close, Describe, Execute, Flush, Parse, Query, Sync
from gateway.wire.messages.layout import Message
from tests.gateway.wire import Wire, assert_same_answers, wire
from tests.servers import Server

_TABLE = "wire_numbers"


@pytest.fixture(scope="module")
def both(oracle: Server, gateway: Server) -> Iterator[tuple[Server, Server]]:
    """The two servers, with the same small table."""
    for server in (oracle, gateway):
        server.psql("-qc", f"CREATE TABLE {_TABLE} (n integer NOT NULL, t text, d numeric(8,2))")
        server.psql("-qc", f"INSERT INTO {_TABLE} SELECT g, 'row ' || g, g * 1.5 FROM generate_series(1, 7) g")
    yield oracle, gateway
    for server in (oracle, gateway):
        server.psql("-qc", f"DROP TABLE {_TABLE}")


def _bind(*parameters: bytes | None, portal: str = "", statement: str = "", results: tuple[int, ...] = ()) -> Bind:
    return Bind(portal, statement, (), parameters, results)


_SELECT = f"SELECT n, t, d FROM {_TABLE} WHERE n > $1 ORDER BY n"
_SCRIPTS: dict[str, list[list[Message]]] = {
    "simple select": [[Query(f"SELECT n, d FROM {_TABLE} ORDER BY n DESC")]],
    "simple select without rows": [[Query(f"SELECT n FROM {_TABLE} WHERE n > 100")]],
    "several statements": [[Query(f"SELECT 1; SELECT n FROM {_TABLE} WHERE n = 3; SELECT 'a;b'")]],
    "several statements, one wrong": [[Query(f"SELECT n FROM {_TABLE} WHERE n = 3; SELECT nothing; SELECT 2")]],
    "nothing at all": [[Query("")], [Query(" ; ; -- nothing")]],
    "unknown column": [[Query(f"SELECT m FROM {_TABLE}")]],
    "unknown table": [[Query("SELECT n FROM nowhere")]],
    "syntax": [[Query(f"SELEC n FROM {_TABLE}")]],
    "division by zero": [[Query(f"SELECT 1 / 0 FROM {_TABLE}")]],
    "parse, describe, bind, execute": [
        [Parse("", _SELECT), Describe(b"S", ""), _bind(b"4"), Describe(b"P", ""), Execute(""), Sync()]
    ],
    "binary results": [[Parse("", _SELECT), _bind(b"5", results=(1,)), Describe(b"P", ""), Execute(""), Sync()]],
    "mixed results": [[Parse("", _SELECT), _bind(b"5", results=(1, 0, 1)), Describe(b"P", ""), Execute(""), Sync()]],
    "null parameter": [[Parse("", _SELECT), _bind(None), Execute(""), Sync()]],
    "bad parameter": [[Parse("", _SELECT), _bind(b"four"), Execute(""), Sync()], [Query("SELECT 1")]],
    "too few parameters": [[Parse("p", _SELECT), _bind(statement="p"), Execute(""), Sync()]],
    "portions": [
        [Query("BEGIN")],
        [Parse("", _SELECT), _bind(b"1", portal="c"), Execute("c", 2), Execute("c", 3), Sync()],
        [Execute("c", 2), Sync()],
        [Query("COMMIT")],
    ],
    "portions end with the transaction": [
        [Parse("", _SELECT), _bind(b"1", portal="c"), Execute("c", 2), Sync()],
        [Execute("c", 2), Sync()],
    ],
    "named statement": [
        [Parse("s", _SELECT, (23,)), Sync()],
        [_bind(b"6", statement="s"), Execute(""), _bind(b"5", statement="s"), Execute(""), Sync()],
        [Close(b"S", "s"), Sync()],
        [_bind(b"6", statement="s"), Sync()],
    ],
    "a named statement twice": [[Parse("s", _SELECT), Parse("s", _SELECT), Sync()]],
    "after an error nothing until Sync": [
        [Parse("", f"SELECT m FROM {_TABLE}"), _bind(), Execute(""), Parse("", "SELECT 1"), Sync()],
        [Parse("", "SELECT 1"), _bind(), Execute(""), Sync()],
    ],
    "relayed and lake in one pipeline": [
        [
            Parse("", "SELECT 1"), _bind(), Execute(""),
            Parse("", _SELECT), _bind(b"6"), Execute(""),
            Parse("", "SELECT 2"), _bind(), Execute(""), Sync(),
        ],
    ],
    "closing": [
        [Parse("s", _SELECT), _bind(b"6", portal="c", statement="s"), Close(b"P", "c"), Close(b"S", "s"), Sync()],
        [Close(b"P", "nothing"), Close(b"S", "nothing"), Sync()],
    ],
    "unknown portal": [[Execute("nothing"), Sync()], [Describe(b"P", "nothing"), Sync()]],
    "unknown statement": [[Describe(b"S", "nothing"), Sync()], [_bind(statement="nothing"), Sync()]],
    "insert": [
        [Parse("", f"INSERT INTO {_TABLE} VALUES ($1, $2) RETURNING n, d"), Describe(b"S", ""),
         _bind(b"50", b"x", results=(1,)), Describe(b"P", ""), Execute(""), Sync()],
        [Query(f"SELECT * FROM {_TABLE} WHERE n = 50")],
        [Query(f"DELETE FROM {_TABLE} WHERE n = 50")],
    ],
    "insert that is refused": [
        [Query(f"INSERT INTO {_TABLE} VALUES (NULL)")],
        [Query(f"INSERT INTO {_TABLE} VALUES (1, 'a', 1e9)")],
        [Query(f"INSERT INTO {_TABLE} VALUES (1, 2, 3, 4)")],
        [Query(f"SELECT count(*) FROM {_TABLE}")],
    ],
    "update and delete": [
        [Query(f"INSERT INTO {_TABLE} VALUES (60, 'a', 1), (61, 'b', 2)")],
        [Query(f"UPDATE {_TABLE} SET t = t || '!', d = d * 2 WHERE n >= 60")],
        [Query(f"SELECT * FROM {_TABLE} WHERE n >= 60 ORDER BY n")],
        [Parse("", f"DELETE FROM {_TABLE} WHERE n >= $1"), _bind(b"60"), Execute(""), Sync()],
        [Query(f"SELECT count(*) FROM {_TABLE}")],
    ],
    "WITH that changes": [
        [Parse("", f"WITH d AS (DELETE FROM {_TABLE} WHERE n = $1 RETURNING n, t) INSERT INTO {_TABLE}"
                   " SELECT n + $2, t FROM d RETURNING n, t, d"),
         Describe(b"S", ""), _bind(b"7", b"70", results=(1,)), Describe(b"P", ""), Execute(""), Sync()],
        [Query(f"SELECT * FROM {_TABLE} WHERE n > 6")],
        [Parse("", f"WITH d AS (DELETE FROM {_TABLE} WHERE n = $1 RETURNING n, t) SELECT n + $2, t FROM d"),
         _bind(b"77", b"1"), Describe(b"P", ""), Execute(""),
         Parse("", "SELECT 2"), _bind(), Execute(""), Sync()],
        [Query("BEGIN")],
        [Parse("", f"WITH d AS (INSERT INTO {_TABLE} VALUES ($1, $2, 10.5) RETURNING *) SELECT * FROM d"),
         _bind(b"7", b"row 7", results=(1,)), Execute(""), Sync()],
        [Query("COMMIT")],
        [Query(f"SELECT * FROM {_TABLE} ORDER BY n; WITH d AS (DELETE FROM {_TABLE} WHERE n = 8) SELECT 1; SELECT 2")],
        [Query(f"WITH d AS (DELETE FROM {_TABLE} WHERE n = 1 RETURNING n) SELECT 1 / (n - 1) FROM d")],
        [Query(f"SELECT count(*) FROM {_TABLE}")],
    ],
    "a failed block": [
        [Query("BEGIN")],
        [Query(f"SELECT n / (n - n) FROM {_TABLE}")],
        [Query(f"SELECT n FROM {_TABLE}")],
        [Query("ROLLBACK")],
    ],
    "an analysis that fails in a block": [[Query("BEGIN")], [Query("SELECT nothing")], [Query("COMMIT")]],
    "notices": [
        [Query("DROP TABLE IF EXISTS nowhere, neither")],
        [Query(f"CREATE TABLE IF NOT EXISTS {_TABLE} (n integer)")],
        [Query("DO $$ BEGIN RAISE NOTICE USING MESSAGE = 'm', DETAIL = 'd', HINT = 'h', ERRCODE = '01ABC', TABLE = 't',"
               " COLUMN = 'c', CONSTRAINT = 'k', SCHEMA = 's', DATATYPE = 'y'; RAISE WARNING 'w';"
               " RAISE INFO 'i'; END $$")],
        [Query("SET client_min_messages = warning; DROP TABLE IF EXISTS nowhere; ROLLBACK")],
        [Query("RESET client_min_messages")],
        [Parse("", "DROP VIEW IF EXISTS nowhere"), _bind(), Execute(""),
         Parse("", _SELECT), _bind(b"6"), Execute(""), Sync()],
        [Query(f"SELECT n FROM {_TABLE} WHERE n = 3; DROP SCHEMA IF EXISTS nowhere; SELECT 4")],
        [Query(f"CREATE VIEW wire_view AS SELECT n FROM {_TABLE}; CREATE VIEW wire_view_2 AS SELECT n FROM wire_view")],
        [Query("DROP VIEW wire_view")],
        [Query("DROP VIEW wire_view CASCADE")],
    ],
    "deferred constraints that fail": [
        [Query("CREATE TABLE wire_parent (id integer PRIMARY KEY)")],
        [Query("CREATE TABLE wire_child (n integer, p integer CONSTRAINT wire_key REFERENCES wire_parent"
               " DEFERRABLE INITIALLY DEFERRED)")],
        [Query("INSERT INTO wire_parent VALUES (1); INSERT INTO wire_child VALUES (1, 1)")],
        [Query("INSERT INTO wire_child VALUES (2, 9) RETURNING n")],
        [Query("SELECT 1; INSERT INTO wire_child VALUES (2, 9); SELECT 2")],
        [Query("INSERT INTO wire_child VALUES (2, 9); SELECT n FROM wire_child ORDER BY n")],
        [Query("SET client_min_messages = error")],
        [Query("INSERT INTO wire_child VALUES (2, 9); COMMIT")],
        [Query("RESET client_min_messages")],
        [Query("INSERT INTO wire_child VALUES (2, 9); ROLLBACK")],
        [Query("WITH d AS (DELETE FROM wire_parent RETURNING id) SELECT id FROM d")],
        [Parse("", "INSERT INTO wire_child VALUES (2, 9) RETURNING n"), _bind(), Execute(""), Sync()],
        [Parse("", "UPDATE wire_child SET p = 9"), _bind(), Execute(""), Sync()],
        [Parse("", "DELETE FROM wire_parent"), _bind(), Execute(""), Sync()],
        [Parse("", "INSERT INTO wire_child SELECT id, 9 FROM wire_parent"), _bind(), Execute(""), Sync()],
        [Parse("", "WITH d AS (DELETE FROM wire_parent RETURNING id) SELECT id FROM d"), _bind(), Execute(""), Sync()],
        [Parse("", "DO 'BEGIN INSERT INTO wire_child VALUES (1, 9); END'"), _bind(), Execute(""), Sync()],
        [Parse("w", "INSERT INTO wire_child VALUES (2, $1)"), _bind(b"1", statement="w"), Execute(""),
         _bind(b"9", statement="w"), Execute(""), Sync()],
        [Query("SELECT * FROM wire_child")],
        [Query("DROP TABLE wire_child, wire_parent")],
    ],
    "copy out": [[Query(f"COPY (SELECT n, t FROM {_TABLE} WHERE n < 3 ORDER BY n) TO STDOUT")]],
}  # fmt: skip


@pytest.mark.parametrize("name", _SCRIPTS)
def test_answers_as_postgresql_does(both: tuple[Server, Server], name: str) -> None:
    assert_same_answers(both, _SCRIPTS[name])


_SETTINGS: list[list[Message]] = [
    [Query("SET TimeZone = 'Europe/Berlin'")],
    [Query("SET application_name = 'a name'; SET DateStyle = 'German'; SELECT 1")],
    [Query(f"SET extra_float_digits = 0; SELECT n FROM {_TABLE} WHERE n = 3; SET IntervalStyle = iso_8601")],
    [Query("BEGIN; SET LOCAL IntervalStyle = sql_standard; SET search_path = pg_catalog")],
    [Query(f"SELECT n FROM public.{_TABLE} WHERE n = 3")],
    [Query("ROLLBACK")],
    [Query("BEGIN; SET TimeZone = 'Asia/Tokyo'; SAVEPOINT s; SET TimeZone = 'UTC'; ROLLBACK TO s")],
    [Query(f"DELETE FROM {_TABLE} WHERE n = 1 / 0")],
    [Query("COMMIT")],
    [Parse("", "SET TimeZone = 'America/New_York'"), _bind(), Execute(""),
     Parse("", _SELECT), _bind(b"6"), Execute(""), Sync()],
    [Parse("", "SELECT set_config('DateStyle', $1, false)"), _bind(b"SQL, DMY"), Execute(""), Sync()],
    [Query("SELECT set_config('TimeZone', 'UTC', true)")],
    [Query("SET TimeZone = 'Nowhere'")],
    [Query("DISCARD ALL")],
    [Query("SET default_transaction_read_only = on; SET standard_conforming_strings = off")],
    [Query("RESET ALL")],
]  # fmt: skip


def test_settings_that_are_reported(both: tuple[Server, Server]) -> None:
    """What a client knows of them when it may speak again is what PostgreSQL has told it: the gateway tells it after
    each statement of a query, PostgreSQL after all of them."""
    told: list[list[dict[str, str]]] = []
    said: list[list[list[Message]]] = []
    for server in both:
        with wire(server) as connection:
            reported = {m.name: m.value for m in connection.greeting if isinstance(m, ParameterStatus)}
            told.append([dict(reported)])
            said.append([])
            for messages in _SETTINGS:
                answers = connection.ask(*messages)
                reported |= {m.name: m.value for m in answers if isinstance(m, ParameterStatus)}
                told[-1].append(dict(reported))
                said[-1].append([m for m in answers if not isinstance(m, ParameterStatus)])
    assert told[1] == told[0]
    assert said[1] == said[0]
    assert len({str(each) for each in told[0]}) > 8


def test_startup_reports_what_postgresql_does(oracle: Server, gateway: Server) -> None:
    reports = []
    for server in (oracle, gateway):
        with wire(server, application_name="a client", options="-c search_path=pg_catalog") as connection:
            reports.append({m.name: m.value for m in connection.greeting if isinstance(m, ParameterStatus)})
            assert isinstance(connection.query("SHOW search_path")[1], DataRow)
    assert reports[0] == reports[1]


def test_a_newer_protocol_is_negotiated_down(gateway: Server) -> None:
    connection = Wire(gateway, version=startup.PROTOCOL_3_2, **{"_pq_.fancy": "yes"})
    assert connection.greeting[0] == NegotiateProtocolVersion(startup.PROTOCOL_3_0, ("_pq_.fancy",))
    assert connection.query("SELECT 1")[-1] == ReadyForQuery(b"I")
    connection.close()


def test_flush_brings_the_answers_so_far(gateway: Server, both: tuple[Server, Server]) -> None:
    with wire(gateway) as connection:
        connection.send(Parse("", _SELECT), _bind(b"6"), Execute("", 1), Flush())
        kinds = [type(connection.read()) for _ in range(4)]
        assert kinds == [ParseComplete, BindComplete, DataRow, PortalSuspended]
        connection.send(Sync())
        assert connection.read() == ReadyForQuery(b"I")


def test_a_vanished_client_leaves_the_gateway_at_work(gateway: Server, both: tuple[Server, Server]) -> None:
    connection = Wire(gateway)
    connection.send(Query(f"SELECT a.n FROM {_TABLE} a, {_TABLE} b, {_TABLE} c, {_TABLE} d"))
    connection._socket.close()
    with wire(gateway) as another:
        assert another.query("SELECT 1")[-2:] == [CommandComplete("SELECT 1"), ReadyForQuery(b"I")]


def test_clients_see_no_trace_of_the_analysis(gateway: Server, both: tuple[Server, Server]) -> None:
    with wire(gateway) as connection:
        connection.query("BEGIN")
        connection.query(f"SELECT n FROM {_TABLE}")
        for setting, value in (("debug_print_rewritten", b"off"), ("client_min_messages", b"notice")):
            assert connection.query(f"SHOW {setting}")[1] == DataRow((value,))
        connection.query("COMMIT")
        assert connection.query("SELECT count(*) FROM pg_prepared_statements")[1] == DataRow((b"0",))


def test_superusers_of_the_catalog_stay_out(gateway: Server) -> None:
    with pytest.raises(AssertionError):
        Wire(gateway.superuser)


@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE TABLE x AS WITH d AS (DELETE FROM {_TABLE} RETURNING n) SELECT * FROM d",
        f"EXPLAIN WITH d AS (DELETE FROM {_TABLE} RETURNING n) SELECT * FROM d",
        f"COPY (WITH d AS (DELETE FROM {_TABLE} RETURNING n) SELECT * FROM d) TO STDOUT",
        f"COPY (DELETE FROM {_TABLE} RETURNING n) TO STDOUT",
        f"COPY (SELECT n FROM {_TABLE} FOR UPDATE) TO STDOUT",
        f"COPY {_TABLE} FROM PROGRAM 'true'",
    ],
)
def test_what_cannot_be_answered_is_refused(gateway: Server, both: tuple[Server, Server], sql: str) -> None:
    with wire(gateway) as connection:
        *_, error, ready = connection.query(sql)
        assert isinstance(error, ErrorResponse)
        assert dict(error.fields)["C"] == "0A000"
        assert ready == ReadyForQuery(b"I")
        assert connection.query(f"SELECT count(*) FROM {_TABLE}")[1] == DataRow((b"7",))
