"""Names of savepoints, prepared statements and cursors belong to clients, also those that look like the gateway's.

Their effect is PostgreSQL's: it has the client's object of that name, or none.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence

import psycopg
import pytest
from _pytest.mark import ParameterSet

from gateway.wire.messages import frontend
from tests.gateway.wire import assert_same_answers
from tests.servers import GatewayProcess, Server

_SECONDS_MAX = 60.0
_SAVEPOINTS = [
    "pg_sluice", '"pg_sluice"', "PG_Sluice", 'U&"pg\\005fsluice"', "pg_sluice_window", "pg_sluice_read_only",
    "pg_sluice_patience", "pg_sluice_statement", "pg_sluice_guarded", "pg_sluice_effects", "pg_sluice_with",
]  # fmt: skip
_STATEMENTS = ["pg_sluice", '"pg_sluice"', "pg_sluice_switch", "pg_sluice_arguments", "pg_sluice_attend",
               "pg_sluice_explained", "pg_sluice_proposed", "pg_sluice_occupying"]  # fmt: skip
_MADE_NONE = (
    ("BEGIN", "ROLLBACK TO {0}", "SELECT 1", "ROLLBACK"),
    ("BEGIN", "RELEASE {0}", "SELECT 1", "ROLLBACK"),
    ("BEGIN READ ONLY", "SELECT count(*) FROM t", "ROLLBACK TO SAVEPOINT {0}", "SELECT 1", "ROLLBACK"),
    ("BEGIN READ ONLY", "SELECT count(*) FROM t", "RELEASE SAVEPOINT {0}", "SELECT 1", "ROLLBACK"),
    # A statement that fails where PostgreSQL analyses it, where it is carried out, and where it is one of the lake's.
    ("BEGIN", "INSERT INTO t VALUES (1)", "SELECT nothing FROM t", "ROLLBACK WORK TO {0}", "SELECT 1", "ROLLBACK"),
    ("BEGIN", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (-1)", "ROLLBACK TO {0}", "SELECT 1", "ROLLBACK"),
    ("BEGIN", "SELECT 1 / n FROM (VALUES (0)) v (n)", "ROLLBACK TO SAVEPOINT {0}", "SELECT 1", "ROLLBACK"),
    ("BEGIN", "SELECT nothing FROM t", "RELEASE {0}", "SAVEPOINT {0}", "ROLLBACK TO {0}", "COMMIT"),
    ("BEGIN", "ALTER TABLE t ADD m integer", "ROLLBACK TO {0}", "SELECT 1", "ROLLBACK"),
    ("BEGIN", "ALTER TABLE t ADD m integer", "RELEASE {0}", "SELECT m FROM t", "ROLLBACK"),
    ("BEGIN", "ALTER TABLE t ADD m integer", "SELECT nothing FROM t", "ROLLBACK TO {0}", "SELECT 1", "ROLLBACK"),
    ("BEGIN; INSERT INTO t VALUES (1); ROLLBACK TO {0}; COMMIT", "ROLLBACK", "SELECT count(*) FROM t"),
    ("DO $$ BEGIN SAVEPOINT {0}; END $$", "DO $$ BEGIN ROLLBACK TO {0}; END $$"),
    ("DO $$ BEGIN EXECUTE 'SAVEPOINT {0}'; END $$", "DO $$ BEGIN EXECUTE 'RELEASE {0}'; END $$"),
)
_ITS_OWN = (
    ("BEGIN", "SAVEPOINT {0}", "INSERT INTO t VALUES (1)", "SELECT nothing FROM t", "ROLLBACK TO {0}",
     "SELECT count(*) FROM t", "COMMIT", "SELECT count(*) FROM t"),
    ("BEGIN", "SAVEPOINT {0}", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (-1)", "ROLLBACK TO {0}",
     "SELECT count(*) FROM t", "ROLLBACK TO {0}", "RELEASE {0}", "RELEASE {0}", "ROLLBACK"),
    ("BEGIN", "SAVEPOINT {0}", "INSERT INTO t VALUES (1)", "SAVEPOINT {0}", "INSERT INTO t VALUES (2)",
     "SELECT nothing FROM t", "ROLLBACK TO {0}", "SELECT sum(n) FROM t", "RELEASE {0}", "ROLLBACK TO {0}",
     "SELECT sum(n) FROM t", "ROLLBACK"),
    ("BEGIN", "SAVEPOINT {0}", "ALTER TABLE t ADD m integer", "SELECT m FROM t", "SELECT nothing FROM t",
     "ROLLBACK TO {0}", "SELECT m FROM t", "ROLLBACK"),
    ("BEGIN", "ALTER TABLE t ADD m integer", "SAVEPOINT {0}", "INSERT INTO t VALUES (1, 2)", "SELECT m FROM t",
     "ROLLBACK TO {0}", "SELECT m FROM t", "RELEASE {0}", "RELEASE {0}", "ROLLBACK"),
    ("BEGIN READ ONLY", "SAVEPOINT {0}", "SELECT count(*) FROM t", "INSERT INTO t VALUES (1)", "ROLLBACK TO {0}",
     "SHOW transaction_read_only", "RELEASE {0}", "RELEASE {0}", "ROLLBACK"),
    ("BEGIN; SAVEPOINT {0}; INSERT INTO t VALUES (1); ROLLBACK TO {0}; COMMIT", "SELECT count(*) FROM t"),
)  # fmt: skip
_NAMED = (
    ("PREPARE {0} AS SELECT 7", "SELECT count(*) FROM t", "EXECUTE {0}", "SELECT nothing FROM t", "EXECUTE {0}",
     "SELECT name, statement FROM pg_prepared_statements", "PREPARE {0} AS SELECT 8", "DEALLOCATE {0}", "EXECUTE {0}"),
    ("PREPARE {0} AS SELECT count(*) FROM t", "INSERT INTO t VALUES (1)", "EXECUTE {0}", "EXPLAIN (COSTS OFF) SELECT 1",
     "DEALLOCATE ALL", "EXECUTE {0}", "DEALLOCATE {0}"),
    ("PREPARE {0} AS SELECT 7", "INSERT INTO t VALUES (1)", "DISCARD ALL", "EXECUTE {0}"),
    ("EXECUTE {0}", "DEALLOCATE {0}", "FETCH {0}", "CLOSE {0}"),
    ("BEGIN", "DECLARE {0} CURSOR FOR SELECT n FROM generate_series(1, 9) n", "SELECT count(*) FROM t", "FETCH {0}",
     "INSERT INTO t VALUES (1)", "FETCH {0}", "SELECT name FROM pg_cursors", "DECLARE {0} CURSOR FOR SELECT 1",
     "ROLLBACK"),
    ("BEGIN", "DECLARE {0} CURSOR FOR SELECT n FROM t ORDER BY n", "SELECT count(*) FROM t", "FETCH {0}",
     "CLOSE {0}", "FETCH {0}", "ROLLBACK"),
    ("BEGIN", "DECLARE {0} CURSOR WITH HOLD FOR SELECT n FROM generate_series(1, 9) n", "COMMIT",
     "SELECT count(*) FROM t", "FETCH {0}", "ALTER TABLE t ADD m integer", "FETCH {0}", "CLOSE ALL", "FETCH {0}"),
)  # fmt: skip


@pytest.fixture(scope="module")
def servers(oracle: Server, two: tuple[GatewayProcess, GatewayProcess]) -> Iterator[tuple[Server, Server]]:
    servers = oracle, two[0].server
    for server in servers:
        with psycopg.connect(server.url, autocommit=True) as connection:
            _make(connection)
    yield servers
    for server in servers:
        server.psql("-qc", "DROP TABLE t")


def _make(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (n integer CHECK (n > 0))")
    connection.execute("INSERT INTO t VALUES (10)")


def _told(server: Server, script: tuple[str, ...], name: str, *, extended: bool) -> list[object]:
    """What a session hears, statement by statement. The next one finds the table as this one did."""
    told: list[object] = []
    with psycopg.connect(server.url, autocommit=True) as connection:
        for statement in script:
            text = statement.replace("{0}", name).encode()
            cursor = connection.cursor(binary=extended and b";" not in text)
            try:
                cursor.execute(text)
            except psycopg.Error as error:
                told.append((statement, error.sqlstate, str(error)))
            else:
                told.append((statement, cursor.statusmessage, cursor.fetchall() if cursor.description else None))
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
        if connection.execute("SELECT * FROM t").fetchall() != [(10,)]:
            connection.execute("DROP TABLE t")
            _make(connection)
    return told


def _by_turns(names: Sequence[str]) -> list[ParameterSet]:
    """The first two do all that there is; of the others, each commit has some."""
    return [pytest.param(name, marks=pytest.mark.turns if place > 1 else []) for place, name in enumerate(names)]


@pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize("name", _by_turns(_SAVEPOINTS))
def test_savepoints(servers: tuple[Server, Server], name: str, *, extended: bool) -> None:
    for script in (*_MADE_NONE, *_ITS_OWN) if name in _SAVEPOINTS[:2] else (*_MADE_NONE[:9], _ITS_OWN[0]):
        expected, found = (_told(server, script, name, extended=extended) for server in servers)
        assert found == expected


@pytest.mark.parametrize("name", _by_turns(_STATEMENTS))
def test_statements_and_cursors(servers: tuple[Server, Server], name: str) -> None:
    for script in _NAMED if name in _STATEMENTS[:2] else (_NAMED[0], _NAMED[4]):
        expected, found = (_told(server, script, name, extended=False) for server in servers)
        assert found == expected


@pytest.mark.parametrize("name", ["pg_sluice", "pg_sluice_switch"])
def test_statements_and_portals_of_the_protocol(servers: tuple[Server, Server], name: str) -> None:
    sync, execute = frontend.Sync(), frontend.Execute(name)
    query = frontend.Query("SELECT count(*) FROM pg_class WHERE relname = 'pg_class'")
    for sql in ("SELECT 7", "SELECT count(*) FROM kept_by_name"):
        assert_same_answers(
            servers,
            [
                [frontend.Query("CREATE TABLE kept_by_name (n integer)")],
                [frontend.Parse(name, sql, ()), sync],
                [frontend.Query("INSERT INTO kept_by_name VALUES (1)")],
                [frontend.Bind(name, name, (), (), ()), execute, sync],
                [frontend.Query("BEGIN")],
                [frontend.Bind(name, name, (), (), ()), sync],
                [query],
                [frontend.Query("INSERT INTO kept_by_name VALUES (2)")],
                [execute, frontend.Close(b"P", name), execute, sync],
                [frontend.Query("ROLLBACK")],
                [frontend.Parse(name, "SELECT 8", ()), sync],
                [frontend.Query(f"EXECUTE {name}")],
                [frontend.Close(b"S", name), frontend.Bind("", name, (), (), ()), sync],
                [frontend.Query("DROP TABLE kept_by_name")],
            ],
        )


def test_a_name_that_a_client_has_learnt_serves_it_nothing(
    servers: tuple[Server, Server], catalog: psycopg.Connection
) -> None:
    """pg_stat_activity shows what others of one's own role do."""
    own = _learnt(servers[1], catalog)
    escaped = "".join(f"\\{ord(each):04x}" for each in own)
    with_mark = escaped.replace("\\", "!")
    spellings = (own, f'"{own}"', own.upper(), f'U&"{escaped}"', f"U&\"{with_mark}\" UESCAPE '!'")
    with psycopg.connect(servers[1].url, autocommit=True) as one:
        for spelling in spellings:
            one.execute("BEGIN")
            with pytest.raises(psycopg.errors.UndefinedColumn):
                one.execute("SELECT nothing FROM pg_class")
            for extended in (False, True):
                with pytest.raises(psycopg.errors.InvalidSavepointSpecification, match="does not exist"):
                    one.cursor(binary=extended).execute(f"ROLLBACK TO {spelling}".encode())
                with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                    one.execute("SELECT 1")
            one.execute("ROLLBACK")
        for told in ("ROLLBACK TO", "RELEASE"):
            one.execute("BEGIN READ ONLY")
            with pytest.raises(psycopg.errors.InvalidSavepointSpecification, match="does not exist"):
                one.execute(f"{told} {own}_read_only".encode())
            one.execute("ROLLBACK")
        one.execute("BEGIN")
        with pytest.raises(psycopg.errors.ReservedName):
            one.execute(f"SAVEPOINT {own}".encode())
        one.execute("ROLLBACK")


def _learnt(server: Server, catalog: psycopg.Connection) -> str:
    """What the names of the gateway's savepoints begin with, as a session shows it that has many of them."""
    ended = threading.Event()

    def work() -> None:
        with psycopg.connect(server.url, prepare_threshold=None) as other:  # what is prepared needs no savepoint again
            while not ended.is_set():
                other.execute("SELECT relname FROM pg_class WHERE relname = 'pg_class'")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        deadline = time.monotonic() + _SECONDS_MAX
        while time.monotonic() < deadline:
            for (query,) in catalog.execute("SELECT query FROM pg_stat_activity").fetchall():
                if found := re.search(r"SAVEPOINT (pg_sluice_[0-9a-f]{16})", query or ""):
                    return found[1]
    finally:
        ended.set()
        thread.join()
    raise AssertionError("nothing was to be seen")
