"""Every schema operation, in text tables (tests/golden/operations), with everything that stops or fails it.

A file is of one area. Its first part sets up, for each operation in a schema of its own. The second part has the
statements of other sessions: `before session: statement` before it begins, `each` in each state in which it stops, or
waits for them (`{n}` is another number each time), and `after`. Then come the operations: `== name`, further lines that
set up, the statement as `change: statement -> answer`, below it its EXPLAIN, and the sessions' answers. `also: query`
is asked besides when it is over. `{schema}` is the operation's own. `python -m tests.changes.operations AREA…` writes
files anew.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from pathlib import Path

import psycopg

from catalog.postgres.embedded import SUPERUSER, binaries
from tests.changes.stages import AFTER, STOP_TRIGGERS, WAITS, Held, stopping, trigger
from tests.isolation.schedule import Session
from tests.servers import GatewayProcess, Server, open_directory

GOLDEN = Path(__file__).parent.parent / "golden" / "operations"
_BEFORE, _EACH, _ALSO, _CHANGE = "before", "each", "also: ", "change: "
_FREE = "1"  # the session that is in no block
_WAIT_SECONDS_MAX = 120.0
_POLL_SECONDS = 0.05
_HELD = 4711  # the advisory lock for which commits wait

# Deferred triggers at the client's own COMMIT, of DDL and of staged rows. Their name says whether they come before or
# after Sluice's own, which publishes.
_AT_COMMIT = """
CREATE TABLE pg_sluice.test_commit (n integer);
CREATE FUNCTION pg_sluice.test_note() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO pg_sluice.test_commit SELECT 1 WHERE session_user NOT IN ('{superuser}', 'sluice_gateway');
END $$;
CREATE FUNCTION pg_sluice.test_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF session_user NOT IN ('{superuser}', 'sluice_gateway') THEN  -- whose commits are those of steps
        {what};
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER {name} AFTER INSERT ON pg_sluice.test_commit DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_sluice.test_commit();
CREATE CONSTRAINT TRIGGER {name} AFTER INSERT ON pg_sluice.dirty DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_sluice.test_commit();
CREATE CONSTRAINT TRIGGER {name} AFTER INSERT ON pg_sluice.staged DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_sluice.test_commit();
CREATE EVENT TRIGGER {name} ON ddl_command_end EXECUTE FUNCTION pg_sluice.test_note();
"""
_FAIL_AT_COMMIT = _AT_COMMIT.replace("{name}", "test_stop").replace("{what}", "RAISE EXCEPTION 'no commit today'")
# A change stops at the {stop}th place where it can, or else in its commit.
_HALT = (
    _AT_COMMIT.replace("{name}", "a_test_stop").replace("{what}", f"PERFORM pg_advisory_xact_lock_shared({_HELD})")
    + """
CREATE TABLE pg_sluice.test_taken (change_id bigint);
CREATE FUNCTION pg_sluice.test_stop() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_TABLE_NAME = 'schema_change' THEN
        NEW.paused := {stop} = 0;
        RETURN NEW;
    END IF;
    INSERT INTO pg_sluice.test_taken VALUES (NEW.change_id);
    IF (SELECT count(*) FROM pg_sluice.test_taken t WHERE t.change_id = NEW.change_id) = {stop} THEN
        UPDATE pg_sluice.schema_change SET paused = true WHERE change_id = NEW.change_id AND finished IS NULL;
    END IF;
    RETURN NULL;
END $$;
"""
    + STOP_TRIGGERS
)
_REMOVE_AT_COMMIT = """
DROP FUNCTION IF EXISTS pg_sluice.test_stop() CASCADE;
DROP TABLE IF EXISTS pg_sluice.test_taken;
DROP FUNCTION pg_sluice.test_note() CASCADE;
DROP FUNCTION pg_sluice.test_commit() CASCADE;
DROP TABLE pg_sluice.test_commit;
"""
_STOPPED = f"""
SELECT (SELECT count(*) FROM pg_sluice.schema_change WHERE finished IS NULL AND paused)
    + (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = {_HELD})
"""

# A change that fails at once is held, too, until it may go on. What its own transaction has paused cannot go on.
_ERRORS_WAIT = """
CREATE FUNCTION pg_sluice.test_errors_wait() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    WHILE EXISTS (
        SELECT FROM pg_sluice.schema_change WHERE finished IS NULL AND paused AND NOT canceled
            AND xmin IS DISTINCT FROM pg_current_xact_id_if_assigned()::xid
    ) LOOP
        PERFORM pg_sleep(0.02);
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER test_errors_wait BEFORE DELETE ON pg_sluice.element FOR EACH STATEMENT
    EXECUTE FUNCTION pg_sluice.test_errors_wait();
"""
_REMOVE_ERRORS_WAIT = "DROP FUNCTION pg_sluice.test_errors_wait() CASCADE"

# Of what EXPLAIN says: how large a file is depends on who has written it, what PostgreSQL estimates on its version, and
# Spark counts its expressions.
_PASSING = ((" +[(]cost=.*[)]$", ""), ("[0-9]+ bytes", "… bytes"), ("#[0-9]+", "#…"))
_SCHEMAS = r"SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname LIKE 'op\_{area}\_%'"


@dataclass(frozen=True)
class Operation:
    """One row. `states` are those in which it stops, in order; `explained` is what EXPLAIN says."""

    name: str
    schema: str
    setup: tuple[str, ...]
    statement: str
    answer: str
    also: tuple[str, ...]
    states: tuple[str, ...]
    explained: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """PostgreSQL refuses it, or Sluice does."""
        return self.answer.startswith("ERROR")

    @property
    def is_refused(self) -> bool:
        """Sluice alone does."""
        return self.answer.startswith("ERROR 0A000")


@dataclass(frozen=True)
class Area:
    """A file: its first two parts as they stand, what these say, and the operations."""

    name: str
    text: str
    parts: tuple[str, str]
    setup: tuple[str, ...]
    beside: tuple[tuple[str, str, str], ...]
    operations: tuple[Operation, ...]


def areas() -> list[Area]:
    """All of them."""
    return [_read(path) for path in sorted(GOLDEN.glob("*.txt"))]


def _read(path: Path) -> Area:
    text = path.read_text()
    head, beside, *rest = text.rstrip("\n").split("\n\n")
    places = [line.split(": ", 1) for line in beside.splitlines()]
    return Area(
        path.stem,
        text,
        (head, beside),
        tuple(line for line in head.splitlines() if not line.startswith("--")),
        tuple((place.split(" ")[0], place.split(" ")[1], statement) for place, statement in places),
        tuple(_operation(f"op_{path.stem}_{number}", part.splitlines()) for number, part in enumerate(rest, 1)),
    )


def _operation(schema: str, lines: Sequence[str]) -> Operation:
    change = next(place for place, line in enumerate(lines) if line.startswith(_CHANGE))
    statement, _, answer = lines[change].removeprefix(_CHANGE).partition(" -> ")
    told = [line.split(" ", 1)[0] for line in lines[change + 1 :] if not line.startswith(" ")]
    return Operation(
        name=lines[0].removeprefix("== "),
        schema=schema,
        setup=tuple(line for line in lines[1:change] if not line.startswith(_ALSO)),
        statement=statement,
        answer=answer,
        also=tuple(line.removeprefix(_ALSO) for line in lines[1:change] if line.startswith(_ALSO)),
        states=tuple(state for state, _ in groupby(told) if state not in {_BEFORE, AFTER, WAITS}),
        explained=tuple(line.strip() for line in lines[change + 1 :] if line.startswith(" ")),
    )


def of_schema(text: str, operation: Operation) -> str:
    """A text with the operation's own schema."""
    return text.replace("{schema}", operation.schema)


def prepare(server: Server, area: Area) -> None:
    """Make the schemas of the operations, with what these are about."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        for each in area.operations:
            making = f"CREATE SCHEMA {each.schema}", f"SET search_path = {each.schema}"
            connection.execute(of_schema("; ".join([*making, *area.setup, *each.setup]), each).encode())


def drop(server: Server, area: Area) -> None:
    """All schemas whose names begin as those of the area do."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        for (name,) in connection.execute(_SCHEMAS.replace("{area}", area.name).encode()).fetchall():
            connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


def dump(server: Server, area: Area) -> list[str]:
    """What pg_dump says of these schemas, but for the random word that it puts into its output."""
    dumped = server.run(binaries() / "pg_dump", "--schema-only", "--schema", f"op_{area.name}_*").stdout
    return [line for line in dumped.splitlines() if "restrict" not in line]


def execute(server: Server, operation: Operation) -> str:
    """Carry it out, by itself."""
    session = Session(server, operation.schema, messages=True)
    try:
        return _one_line(session.execute(of_schema(operation.statement, operation)))
    finally:
        session.connection.close()


def _one_line(answer: str) -> str:
    return answer.replace("\n", "; ")


def carry_out(process: GatewayProcess, area: Area) -> str:
    """Each operation of an area, with everything beside it: the file as it has to be."""
    with stopping(process), trigger(process, _ERRORS_WAIT, _REMOVE_ERRORS_WAIT):
        told = ["\n".join(_carried_out(process, area, each)) for each in area.operations]
    return "\n\n".join([*area.parts, *told]) + "\n"


def _carried_out(process: GatewayProcess, area: Area, operation: Operation) -> Iterator[str]:
    names = dict.fromkeys(["change", *(name for _, name, _ in area.beside)])
    sessions = {name: Session(process.server, operation.schema, messages=True) for name in names}
    change, statement = sessions["change"], of_schema(operation.statement, operation)
    numbers = iter(range(100, 1000))
    told: list[str] = []

    def answered(session: Session, text: str) -> str:
        return _one_line(session.execute(of_schema(text, operation)))

    def tell(now: str, place: str) -> None:
        for when, name, text in area.beside:
            if when == place:
                if now == AFTER and name == _FREE:
                    held.answer.result(_WAIT_SECONDS_MAX)
                asked = text.replace("{n}", str(next(numbers))) if "{n}" in text else text
                told.append(f"{now} {name}: {asked} -> {answered(sessions[name], asked)}")

    try:
        explained = _explained(change.connection, statement)
        tell(_BEFORE, _BEFORE)
        held = Held(process, change, statement)
        others = {each.process_id for each in sessions.values()}
        while (state := held.wait(others)) is not None and state != WAITS:
            tell(state, _EACH)
            held.resume()
        if state == WAITS:
            tell(WAITS, _EACH)
        tell(AFTER, AFTER)
        told += [f"{AFTER} {_FREE}: {each} -> {answered(sessions[_FREE], each)}" for each in operation.also]
    finally:
        for session in sessions.values():
            session.connection.close()
    yield from (f"== {operation.name}", *operation.setup, *(f"{_ALSO}{query}" for query in operation.also))
    yield f"{_CHANGE}{operation.statement} -> {_one_line(held.answer.result())}".replace(operation.schema, "{schema}")
    yield from (line.replace(operation.schema, "{schema}") for line in [*explained, *told])


def _explained(connection: psycopg.Connection, statement: str) -> list[str]:
    try:
        lines = [row[0] for row in connection.execute(f"EXPLAIN {statement}".encode()).fetchall()]
    except psycopg.Error as error:
        lines = [f"ERROR {error.sqlstate} {error.diag.message_primary}"]
    return [f"  {reduce(lambda told, each: re.sub(each[0], each[1], told), _PASSING, line)}" for line in lines]


@contextmanager
def failing_at_commit(process: GatewayProcess) -> Iterator[None]:
    """Meanwhile, no client commits a change."""
    with trigger(process, _FAIL_AT_COMMIT.replace("{superuser}", SUPERUSER), _REMOVE_AT_COMMIT):
        yield


@contextmanager
def all_halted(
    process: GatewayProcess, operations: Sequence[Operation], stop: int, *, in_blocks: bool = False
) -> Iterator[list[Future[str]]]:
    """All of them under way at once, each at the place of that number where it stops, or in its commit: where they are
    `in_blocks`, in that of a block."""
    sessions = [Session(process.server, each.schema, messages=True) for each in operations]
    making = _HALT.replace("{superuser}", SUPERUSER).replace("{stop}", str(stop))
    try:
        with (
            trigger(process, making, _REMOVE_AT_COMMIT),
            psycopg.connect(process.catalog_url, autocommit=True) as holder,  # who lets go first
        ):
            holder.execute(f"SELECT pg_advisory_lock({_HELD})")
            answers = []
            for session, each in zip(sessions, operations, strict=True):
                statement = of_schema(each.statement, each)
                if in_blocks:
                    session.execute("BEGIN")
                    assert _one_line(session.execute(statement)) == of_schema(each.answer, each), each.name
                answers.append(session.begin("COMMIT" if in_blocks else statement))
            _wait_until_halted(holder, operations, answers)
            yield answers
    finally:
        for session in sessions:
            session.connection.close()


def _wait_until_halted(
    holder: psycopg.Connection, operations: Sequence[Operation], answers: Sequence[Future[str]]
) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while holder.execute(_STOPPED.encode()).fetchone() != (len(operations),):
        for each, answer in zip(operations, answers, strict=True):
            assert not answer.done(), f"{each.statement} was over: {answer.result()}"
        assert time.monotonic() < deadline, "not all changes stop"
        time.sleep(_POLL_SECONDS)


def main(names: Sequence[str]) -> None:
    """Write the files of these areas anew, by what a gateway of its own does."""
    with open_directory("operations") as directory, GatewayProcess(directory / "data") as process:
        for area in areas():
            if area.name in names:
                prepare(process.server, area)
                (GOLDEN / f"{area.name}.txt").write_text(carry_out(process, area))
                drop(process.server, area)


if __name__ == "__main__":
    main(sys.argv[1:])
