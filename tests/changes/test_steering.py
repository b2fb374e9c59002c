"""Running changes are paused, resumed and cancelled; those of one table run in turn, others side by side."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator

import psycopg
import pytest

from catalog.schema.states import State
from tests.changes.stages import Held, stopping
from tests.isolation.schedule import Session
from tests.servers import PSQL_18, GatewayProcess, Server

_AT_WORK = (
    "SELECT change_id, step, state, paused FROM pg_sluice.schema_changes WHERE finished IS NULL AND relation = %s"
)
_LEFT = """
SELECT change_id::text FROM pg_sluice.schema_change WHERE finished IS NULL
UNION ALL SELECT name FROM pg_sluice.element
UNION ALL SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'i'
"""
_SECONDS_MAX = 60.0


@pytest.fixture
def session(gateway: Server, schema: str) -> Iterator[Session]:
    """A session with a table."""
    session = Session(gateway, schema, messages=True)
    session.execute("CREATE TABLE t (id integer, n integer)")
    session.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
    yield session
    session.connection.close()


@pytest.fixture
def second(gateway: Server, schema: str) -> Iterator[Session]:
    """Another session of the same role."""
    session = Session(gateway, schema, messages=True)
    yield session
    session.connection.close()


def _left(process: GatewayProcess, schema: str) -> list[tuple[object, ...]]:
    with psycopg.connect(process.catalog_url) as catalog:
        return catalog.execute(_LEFT.replace("{schema}", schema).encode()).fetchall()


def _at_work(session: Session, table: str) -> tuple[object, ...]:
    """The one change of that table: its number, step, state, and whether it is paused."""
    deadline = time.monotonic() + _SECONDS_MAX
    while not (found := session.connection.execute(_AT_WORK, [table]).fetchall()):
        assert time.monotonic() < deadline, "no change is at work"
        time.sleep(0.02)
    [change] = found
    return change


def test_paused_and_resumed(gateway_process: GatewayProcess, schema: str, session: Session, second: Session) -> None:
    with stopping(gateway_process):
        held = Held(gateway_process, session, "ALTER TABLE t ADD CONSTRAINT once UNIQUE (n)")
        held.get_to(State.DELETE)
    change, *_ = _at_work(second, f"{schema}.t")
    with psycopg.connect(gateway_process.catalog_url) as holder:
        holder.execute("LOCK TABLE pg_sluice.element IN SHARE MODE")  # so that its next step has to wait
        assert second.execute(f"SELECT pg_sluice.resume({change})") == "(None,)"
        assert _at_work(second, f"{schema}.t")[2:] == (State.DELETE, False)
        assert second.execute(f"SELECT pg_sluice.pause({change})") == "(None,)"
    time.sleep(1)
    assert not held.answer.done()
    _, _, state, paused = _at_work(second, f"{schema}.t")
    assert (state in {State.DELETE, State.WRITE}, paused) == (True, True)
    assert second.execute("INSERT INTO t VALUES (3, 30)") == "INSERT 0 1"
    assert second.execute(f"SELECT pg_sluice.resume({change})") == "(None,)"
    assert held.answer.result(_SECONDS_MAX) == "ALTER TABLE"
    assert second.execute(f"SELECT pg_sluice.resume({change})").startswith("ERROR 42704")


def test_canceled_while_it_is_paused(
    gateway_process: GatewayProcess, schema: str, session: Session, second: Session
) -> None:
    with stopping(gateway_process):
        held = Held(gateway_process, session, "CREATE INDEX by_n ON t (n)")
        held.get_to(State.WRITE)
        change, *_ = _at_work(second, f"{schema}.t")
        assert second.execute(f"SELECT pg_sluice.cancel({change})") == "(None,)"
        assert held.answer.result(_SECONDS_MAX) == "ERROR 57014 canceling statement due to user request"
    assert _left(gateway_process, schema) == []
    assert session.execute("CREATE INDEX by_n ON t (n)") == "CREATE INDEX"


def test_only_ones_own(gateway_process: GatewayProcess, schema: str, session: Session, second: Session) -> None:
    """And whoever is in the role that began it. Others do not see it either."""
    stranger = f"{schema}_stranger"
    with psycopg.connect(gateway_process.catalog_url, autocommit=True) as catalog:
        catalog.execute(f"CREATE ROLE {stranger} LOGIN; GRANT ALL ON SCHEMA {schema} TO {stranger}".encode())
        url = gateway_process.server.url.replace("sluice@", f"{stranger}@")
        with psycopg.connect(url, autocommit=True) as gone:
            gone.execute(f"CREATE TABLE {schema}.gone (n integer); INSERT INTO {schema}.gone VALUES (1)".encode())
            gone.execute(f"ALTER TABLE {schema}.gone ADD CHECK (n > 0)".encode())
        catalog.execute(f"DROP OWNED BY {stranger}; DROP ROLE {stranger}; CREATE ROLE {schema}_other LOGIN".encode())
        stranger = f"{schema}_other"
        try:
            with stopping(gateway_process):
                held = Held(gateway_process, session, "ALTER TABLE t ADD CONSTRAINT positive CHECK (n > 0)")
                held.get_to(State.CHECK)
                change, *_ = _at_work(second, f"{schema}.t")
                url = gateway_process.server.url.replace("sluice@", f"{stranger}@")
                with psycopg.connect(url, autocommit=True) as other:
                    assert other.execute("SELECT count(*) FROM pg_sluice.schema_changes").fetchone() == (0,)
                    assert other.execute("SELECT count(*) FROM pg_stat_progress_create_index").fetchone() == (0,)
                    for what in ("pause", "resume", "cancel"):
                        with pytest.raises(psycopg.errors.UndefinedObject, match="of yours at work"):
                            other.execute(f"SELECT pg_sluice.{what}({change})".encode())
                assert held.finish() == "ALTER TABLE"
        finally:
            catalog.execute(f"DROP ROLE {stranger}".encode())


def test_in_turn_and_side_by_side(
    gateway_process: GatewayProcess, schema: str, session: Session, second: Session
) -> None:
    third = Session(gateway_process.server, schema, messages=True)
    third.execute("CREATE TABLE u (n integer)")
    third.execute("INSERT INTO u VALUES (1)")
    with stopping(gateway_process):
        held = Held(gateway_process, session, "ALTER TABLE t ADD CONSTRAINT first UNIQUE (n)")
        held.get_to(State.WRITE)
    change, *_ = _at_work(third, f"{schema}.t")
    later = second.begin("ALTER TABLE t ADD CONSTRAINT later CHECK (n > 0)")
    assert third.execute("ALTER TABLE u ADD CONSTRAINT beside UNIQUE (n)") == "ALTER TABLE"
    assert third.execute("ALTER TABLE u ADD CONSTRAINT more CHECK (n > 0)") == "ALTER TABLE"
    assert not later.done()
    assert third.execute(f"SELECT pg_sluice.resume({change})") == "(None,)"
    assert held.answer.result(_SECONDS_MAX) == "ALTER TABLE"
    assert later.result(_SECONDS_MAX) == "ALTER TABLE"
    told = third.connection.execute(
        "SELECT statement, a.started >= lag(a.finished) OVER (ORDER BY change_id) FROM pg_sluice.schema_changes a"
        " WHERE relation = %s ORDER BY change_id",
        [f"{schema}.t"],
    ).fetchall()
    assert [(statement.split()[5], after) for statement, after in told] == [("first", None), ("later", True)]
    third.connection.close()


def test_ctrl_c_in_psql(gateway_process: GatewayProcess, gateway: Server, schema: str, session: Session) -> None:
    assert session.execute("SELECT count(*) FROM t") == "(2,)"
    command = [str(PSQL_18), "--no-psqlrc", "--quiet", gateway.url]
    with stopping(gateway_process):
        psql = subprocess.Popen(
            [*command, "-c", f"ALTER TABLE {schema}.t ADD CONSTRAINT once UNIQUE (n)"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        change, _, _, paused = _at_work(session, f"{schema}.t")
        assert change
        assert paused
        psql.send_signal(signal.SIGINT)
        said, _ = psql.communicate(timeout=_SECONDS_MAX)
    assert "ERROR:  canceling statement due to user request" in said
    assert _left(gateway_process, schema) == []
