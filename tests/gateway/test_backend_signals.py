"""pg_cancel_backend and pg_terminate_backend end a session's work, in Spark or between the steps of a change."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from catalog.schema.states import State
from tests.changes.stages import Held, stopping
from tests.isolation.schedule import Session
from tests.servers import GatewayProcess, Server

_SECONDS_MAX = 120.0
_WAITS = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND state = 'active' AND wait_event = 'PgSleep'"
# A long time's work, in tasks that look every second whether they are cancelled: as soon as some thousand rows of the
# one table have met all of the other that they meet.
_LONG = "SELECT count(*) FROM t b JOIN t c ON b.n % 20 = c.n % 20 WHERE b.n % 7 <> c.n % 11"
_STATEMENTS = {
    "select": _LONG,
    "insert": "INSERT INTO t SELECT b.n FROM t b, t c WHERE b.n % 7 = c.n % 11 + 900",
    "update": f"UPDATE t SET n = n + 1 WHERE ({_LONG}) < 0",
    "delete": f"DELETE FROM t WHERE ({_LONG}) < 0",
    "merge": f"MERGE INTO t USING (SELECT ({_LONG}) AS n) s ON t.n = s.n WHEN MATCHED THEN DELETE",
    "for update": f"SELECT n FROM t WHERE n < ({_LONG}) FOR UPDATE",
}


@pytest.fixture
def session(gateway: Server, schema: str) -> Iterator[Session]:
    session = Session(gateway, schema, messages=False)
    session.execute("CREATE TABLE t (n integer)")
    session.execute("INSERT INTO t SELECT g FROM generate_series(1, 200000) g")
    yield session
    session.connection.close()


def _signal(gateway: Server, session: Session, function: str) -> None:
    """From another session, as soon as this one's backend waits for Spark."""
    with psycopg.connect(gateway.url, autocommit=True) as other:
        deadline = time.monotonic() + _SECONDS_MAX
        while other.execute(_WAITS, (session.process_id,)).fetchone() != (1,):
            assert time.monotonic() < deadline, "the backend does not wait"
            time.sleep(0.02)
        assert other.execute(f"SELECT {function}(%s)".encode(), (session.process_id,)).fetchone() == (True,)


@pytest.mark.turns
@pytest.mark.parametrize("name", ["select", "insert", "update", "delete", "merge", "for update"])
def test_cancel(gateway: Server, session: Session, name: str) -> None:
    answer = session.begin(_STATEMENTS[name])
    _signal(gateway, session, "pg_cancel_backend")
    assert answer.result(_SECONDS_MAX) == "ERROR 57014"
    assert session.execute("SELECT count(*), sum(n) FROM t") == "(200000, 20000100000)"


@pytest.mark.turns
@pytest.mark.parametrize("sql", [_LONG, "FETCH ALL FROM c"])
def test_cancel_in_a_block(gateway: Server, session: Session, sql: str) -> None:
    session.execute("BEGIN")
    session.execute("INSERT INTO t VALUES (0)")
    session.execute(f"DECLARE c CURSOR FOR {_LONG}")
    answer = session.begin(sql)
    _signal(gateway, session, "pg_cancel_backend")
    assert answer.result(_SECONDS_MAX) == "ERROR 57014"
    assert session.execute("SELECT 1") == "ERROR 25P02"
    assert session.execute("ROLLBACK") == "ROLLBACK"
    assert session.execute("SELECT count(*) FROM t") == "(200000,)"


def test_cancel_of_copy(gateway: Server, session: Session) -> None:
    copied = threading.Thread(target=lambda: _signal(gateway, session, "pg_cancel_backend"))
    copied.start()
    with (
        pytest.raises(psycopg.errors.QueryCanceled),
        session.connection.cursor() as cursor,
        cursor.copy(f"COPY ({_LONG}) TO STDOUT".encode()) as copy,
    ):
        list(copy)
    copied.join()


def test_a_statement_that_ends_by_itself_ends_the_wait_and_keeps_the_transaction(
    gateway: Server, session: Session
) -> None:
    """The wait ends without an error: what the transaction has done at the backend stays."""
    session.execute("BEGIN")
    session.execute("CREATE TEMPORARY TABLE kept (n integer)")
    for _ in range(3):
        assert (
            session.execute("SELECT count(*) FROM t a, t b WHERE a.n <= 4000 AND b.n <= 4000 AND a.n + b.n < 1000")
            == "(498501,)"
        )
    assert session.execute("INSERT INTO kept VALUES (1)") == "INSERT 0 1"
    assert session.execute("COMMIT") == "COMMIT"
    assert session.execute("SELECT * FROM kept") == "(1,)"


@pytest.mark.turns
@pytest.mark.parametrize("state", [State.ABSENT, State.DELETE, State.REORG])
def test_cancel_of_a_change_undoes_it(
    gateway_process: GatewayProcess, gateway: Server, session: Session, schema: str, state: State
) -> None:
    with stopping(gateway_process):
        held = Held(gateway_process, session, "ALTER TABLE t ADD CONSTRAINT c UNIQUE (n)")
        held.get_to(state)
        _signal(gateway, session, "pg_cancel_backend")
        assert held.answer.result(_SECONDS_MAX) == "ERROR 57014"
    _nothing_left(gateway_process, schema)
    assert session.execute("ALTER TABLE t ADD CONSTRAINT c UNIQUE (n)") == "ALTER TABLE"


def test_terminate_of_a_change_undoes_it(
    gateway_process: GatewayProcess, gateway: Server, session: Session, schema: str
) -> None:
    with stopping(gateway_process):
        held = Held(gateway_process, session, "ALTER TABLE t ADD CONSTRAINT c UNIQUE (n)")
        held.get_to(State.REORG)
        _signal(gateway, session, "pg_terminate_backend")
        assert held.answer.result(_SECONDS_MAX) == "ERROR 57P01"
    deadline = time.monotonic() + _SECONDS_MAX
    while _left(gateway_process, schema):
        assert time.monotonic() < deadline, "the change is not undone"
        time.sleep(0.05)


def test_cancel_while_spark_works_for_a_change(
    gateway_process: GatewayProcess, gateway: Server, session: Session, schema: str
) -> None:
    session.execute("CREATE TABLE m AS SELECT n FROM t WHERE n <= 20000")
    for _ in range(6):
        session.execute("INSERT INTO m SELECT n FROM m")
    before = session.execute("SELECT count(*), sum(n) FROM m")
    change = "ALTER TABLE m ALTER n TYPE text USING repeat(md5(n::text), 40)"
    answer = session.begin(change)
    _signal(gateway, session, "pg_cancel_backend")
    assert answer.result(_SECONDS_MAX) == "ERROR 57014"
    _nothing_left(gateway_process, schema)
    assert session.execute("SELECT count(*), sum(n) FROM m") == before


def _left(process: GatewayProcess, schema: str) -> list[tuple[object, ...]]:
    with psycopg.connect(process.catalog_url) as catalog:
        return catalog.execute(
            "SELECT change_id::text FROM pg_sluice.schema_change WHERE finished IS NULL"
            " UNION ALL SELECT name FROM pg_sluice.element"
            " UNION ALL SELECT conname FROM pg_constraint WHERE connamespace = %s::regnamespace AND contype <> 't'"
            " UNION ALL SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'i'",
            (schema, schema),
        ).fetchall()


def _nothing_left(process: GatewayProcess, schema: str) -> None:
    assert _left(process, schema) == []
