"""Changes that fail or are cancelled, in every state: the former objects are there afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import psycopg
import pytest

from catalog.postgres.embedded import binaries
from catalog.schema.states import PATHS, Direction, State, Work
from tests.changes.stages import Held, failing, stopping
from tests.isolation.schedule import Session
from tests.servers import GatewayProcess, Server

_CHANGES = {
    Work.VALIDATION: "ALTER TABLE t ADD CONSTRAINT positive CHECK (n > 0)",
    Work.REORGANISATION: "ALTER TABLE t ADD CONSTRAINT once UNIQUE (n)",
}
_STEPS = [
    pytest.param((work, before, after), id=f"{before}-{after}")
    for work in _CHANGES
    for before, after in pairwise(PATHS[work, Direction.ADDING][:-1])
]


def _schema_of(server: Server, schema: str) -> str:
    """What pg_dump says of it, but for the random word that it puts into its output."""
    dumped = server.run(binaries() / "pg_dump", "--schema-only", "--schema", schema).stdout
    return "\n".join(line for line in dumped.splitlines() if "restrict" not in line)


def _unfinished(process: GatewayProcess) -> list[tuple[object, ...]]:
    with psycopg.connect(process.catalog_url) as catalog:
        return catalog.execute(
            "SELECT change_id FROM pg_sluice.schema_change WHERE finished IS NULL"
            " UNION ALL SELECT change_id FROM pg_sluice.element"
        ).fetchall()


@contextmanager
def _session(server: Server, schema: str) -> Iterator[Session]:
    session = Session(server, schema, messages=True)
    try:
        yield session
    finally:
        session.connection.close()


@pytest.fixture
def session(gateway_process: GatewayProcess, schema: str) -> Iterator[Session]:
    """A session with a table of two rows."""
    with _session(gateway_process.server, schema) as session:
        session.execute("CREATE TABLE t (id integer, n integer)")
        session.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
        yield session


@pytest.mark.parametrize("failed", _STEPS)
def test_a_step_that_fails_leaves_nothing(
    gateway_process: GatewayProcess, schema: str, session: Session, failed: tuple[Work, State, State]
) -> None:
    server = gateway_process.server
    work, before, after = failed
    there = _schema_of(server, schema)
    with failing(gateway_process, before, after):
        assert session.execute(_CHANGES[work]) == f"ERROR P0001 no {after} today"
    assert _schema_of(server, schema) == there
    assert _unfinished(gateway_process) == []
    assert session.execute("INSERT INTO t VALUES (3, -10), (4, -10)") == "INSERT 0 2"
    assert session.execute("DELETE FROM t WHERE n < 0") == "DELETE 2"
    assert session.execute(_CHANGES[work]) == "ALTER TABLE"


@pytest.mark.parametrize(
    ("work", "before", "after"),
    [
        (Work.VALIDATION, State.CHECK, State.ABSENT),
        (Work.REORGANISATION, State.REORG, State.WRITE),
        (Work.REORGANISATION, State.DELETE, State.ABSENT),
    ],
)
def test_what_could_not_be_undone_is_undone_by_the_next_change(
    gateway_process: GatewayProcess, session: Session, work: Work, before: State, after: State
) -> None:
    session.execute("UPDATE t SET n = -10")
    with failing(gateway_process, before, after):
        assert session.execute(_CHANGES[work]) == f"ERROR P0001 no {after} today"
    assert _unfinished(gateway_process) != []
    session.execute("UPDATE t SET n = id")
    assert session.execute(_CHANGES[work]) == "ALTER TABLE"
    assert _unfinished(gateway_process) == []


@pytest.mark.parametrize("how", ["cancel request", "statement_timeout"])
def test_canceled_while_it_waits(gateway_process: GatewayProcess, schema: str, session: Session, how: str) -> None:
    server = gateway_process.server
    there = _schema_of(server, schema)
    if how == "statement_timeout":
        session.execute("SET statement_timeout = '3s'")
    with stopping(gateway_process):
        held = Held(gateway_process, session, _CHANGES[Work.REORGANISATION])
        held.get_to(State.REORG)
        if how == "cancel request":
            session.connection.cancel_safe()
        assert held.answer.result(30).startswith("ERROR 57014")
    assert _schema_of(server, schema) == there
    assert _unfinished(gateway_process) == []


def test_canceled_while_others_hold_the_shadow(gateway_process: GatewayProcess, schema: str, session: Session) -> None:
    with stopping(gateway_process), psycopg.connect(gateway_process.catalog_url) as holder:
        held = Held(gateway_process, session, _CHANGES[Work.VALIDATION])
        held.get_to(State.ABSENT)
        holder.execute(f"LOCK TABLE {schema}.t IN ACCESS SHARE MODE".encode())
        held.resume()
        with pytest.raises(TimeoutError):
            held.answer.result(1)
        session.connection.cancel_safe()
        assert held.answer.result(30).startswith("ERROR 57014")
    assert _unfinished(gateway_process) == []


def test_the_last_step_fails(gateway_process: GatewayProcess, schema: str, session: Session) -> None:
    """The client's own statement cannot be carried out any more: somebody has renamed what it names."""
    with _session(gateway_process.server, schema) as other:
        with stopping(gateway_process):
            held = Held(gateway_process, session, "ALTER TABLE t ADD UNIQUE (n), ALTER id SET DEFAULT 5")
            held.get_to(State.REORG)
            assert other.execute("ALTER TABLE t RENAME id TO number") == "ALTER TABLE"
            assert held.finish().startswith("ERROR 42703")
        assert _unfinished(gateway_process) == []
        assert session.execute("INSERT INTO t VALUES (3, 10)") == "INSERT 0 1"


def test_the_table_is_dropped_meanwhile(gateway_process: GatewayProcess, schema: str, session: Session) -> None:
    with _session(gateway_process.server, schema) as other:
        with stopping(gateway_process):
            held = Held(gateway_process, session, _CHANGES[Work.VALIDATION])
            held.get_to(State.CHECK)
            assert other.execute("DROP TABLE t") == "DROP TABLE"
            assert held.finish().startswith("ERROR 42P01")
        assert _unfinished(gateway_process) == []
