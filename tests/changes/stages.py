"""Hold a schema change in each of its states, so that the test sees other sessions work beside it.

Triggers in the catalog, created by the superuser, pause changes before their first step and after each, or fail them.

A golden file has the expected answers: lines that set up, a blank one, `change: statement -> answer`, a blank one, and
`state session: statement -> answer` for each state in turn, `after` when the change is over. `{schema}` is the test's.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.isolation.schedule import Session
from tests.servers import GatewayProcess, Server

_WAIT_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.02
AFTER, WAITS = "after", "waits"
# Where a change can stop: as it begins, and at each of its steps.
STOP_TRIGGERS = """
CREATE TRIGGER test_stop BEFORE INSERT ON pg_sluice.schema_change FOR EACH ROW EXECUTE FUNCTION pg_sluice.test_stop();
CREATE TRIGGER test_stop AFTER UPDATE OF state ON pg_sluice.element
    FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION pg_sluice.test_stop();
"""
_STOP = (
    """
CREATE FUNCTION pg_sluice.test_stop() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'schema_change' THEN
        NEW.paused := true;
        RETURN NEW;
    END IF;
    IF {when} THEN
        UPDATE pg_sluice.schema_change SET paused = true WHERE change_id = NEW.change_id AND finished IS NULL;
    END IF;
    RETURN NULL;
END $$;
"""
    + STOP_TRIGGERS
)
_ON_THE_WAY = """array_position(ARRAY['absent', 'delete', 'write', 'reorg', 'check', 'validate'], OLD.state)
        < array_position(ARRAY['absent', 'delete', 'write', 'reorg', 'check', 'validate'], NEW.state)"""
_ON_BOTH_WAYS = "NEW.state <> NEW.origin"
# A step that cannot have its lock is tried again.
_STOP_BACK = """
CREATE FUNCTION pg_sluice.test_stop_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT paused FROM pg_sluice.schema_change c WHERE c.change_id = NEW.change_id) THEN
        RAISE EXCEPTION 'not yet' USING ERRCODE = 'lock_not_available';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER test_stop_back BEFORE UPDATE OF state ON pg_sluice.element
    FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION pg_sluice.test_stop_back();
"""
_FAIL = """
CREATE FUNCTION pg_sluice.test_stop() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'no % today', NEW.state;
END $$;
CREATE TRIGGER test_stop AFTER UPDATE OF state ON pg_sluice.element FOR EACH ROW
    WHEN (OLD.state = '{before}' AND NEW.state = '{after}') EXECUTE FUNCTION pg_sluice.test_stop();
"""
_REMOVE = "DROP FUNCTION IF EXISTS pg_sluice.test_stop(), pg_sluice.test_stop_back() CASCADE"
_BLOCKING = "SELECT pg_blocking_pids(%s)"
_NOW = """
SELECT coalesce((SELECT state FROM pg_sluice.element e WHERE e.change_id = c.change_id AND e.state <> 'public'
                 ORDER BY e.state <> e.origin DESC, element_id DESC LIMIT 1), 'none'), paused
FROM pg_sluice.schema_change c WHERE finished IS NULL ORDER BY change_id DESC LIMIT 1
"""


@contextmanager
def trigger(process: GatewayProcess, making: str, removing: str = _REMOVE) -> Iterator[None]:
    """Meanwhile, there is in the catalog what this makes."""
    with psycopg.connect(process.catalog_url, autocommit=True) as catalog:
        catalog.execute("SET event_triggers = off")  # clients may not have what this makes
        catalog.execute(making.encode())
    try:
        yield
    finally:
        with psycopg.connect(process.catalog_url, autocommit=True) as catalog:  # it may be another by now
            catalog.execute(removing.encode())


def stopping(process: GatewayProcess, *, back: bool = False) -> AbstractContextManager[None]:
    """Meanwhile, changes stop in each state, and with `back` also in each through which they are undone."""
    stop = _STOP.replace("{when}", _ON_BOTH_WAYS if back else _ON_THE_WAY)
    return trigger(process, stop + _STOP_BACK if back else stop)


def failing(process: GatewayProcess, before: str, after: str) -> AbstractContextManager[None]:
    """Meanwhile, no element gets from one state into the other."""
    return trigger(process, _FAIL.replace("{before}", before).replace("{after}", after))


class Held:
    """A change under way that stops in each state. `answer` is that of its statement."""

    def __init__(self, process: GatewayProcess, session: Session, statement: str) -> None:
        # One for all that is asked: a backend that is new has nothing in its caches.
        self._catalog = psycopg.connect(process.catalog_url, autocommit=True)
        weakref.finalize(self, self._catalog.close)
        self._process_id = session.process_id
        self.answer: Future[str] = session.begin(statement)

    def wait(self, others: Collection[int] = ()) -> str | None:
        """The state in which it stops; None when it is over. `waits` where it waits for one of these processes."""
        deadline = time.monotonic() + _WAIT_SECONDS_MAX
        while not self.answer.done():
            assert time.monotonic() < deadline, "the change neither stops nor ends"
            found = self._catalog.execute(_NOW).fetchone()
            [blocking] = self._catalog.execute(_BLOCKING, [self._process_id]).fetchone() or ([],)
            if found is not None and found[1]:
                return str(found[0])
            if set(blocking) & set(others):
                return WAITS
            time.sleep(_POLL_SECONDS)
        return None

    def get_to(self, state: str) -> None:
        """Let it take its steps up to a state, in which it stops."""
        while (reached := self.wait()) != state:
            assert reached is not None, f"it was over before {state}: {self.answer.result()}"
            self.resume()

    def resume(self) -> None:
        """Let it take its next step."""
        self._catalog.execute("UPDATE pg_sluice.schema_change SET paused = false WHERE finished IS NULL")

    def finish(self) -> str:
        """Let it take all its steps; what became of it."""
        while self.wait() is not None:
            self.resume()
        return self.answer.result()


@dataclass(frozen=True)
class Script:
    """A golden file: `lines` are (state, session, statement), in the order in which they are to happen."""

    setup: tuple[str, ...]
    change: str
    lines: tuple[tuple[str, str, str], ...]


def read(path: Path, schema: str) -> Script:
    """The script in a golden file."""
    text = path.read_text().replace("{schema}", schema)
    parts = [[line for line in part.splitlines() if not line.startswith("--")] for part in text.split("\n\n")]
    setup, [change], *rest = [part for part in parts if part]
    lines = []
    for line in (line for part in rest for line in part):
        place, statement = line.split(" -> ", 1)[0].split(": ", 1)
        state, session = place.split(" ")
        lines.append((state, session, statement))
    return Script(tuple(setup), change.removeprefix("change: ").split(" -> ", 1)[0], tuple(lines))


def expected(path: Path, schema: str) -> list[str]:
    """The transcript that a golden file has."""
    return [line for line in path.read_text().replace("{schema}", schema).splitlines() if " -> " in line]


def run(process: GatewayProcess, server: Server, schema: str, script: Script) -> list[str]:
    """The transcript of a script."""
    names = dict.fromkeys(["change", *(name for _, name, _ in script.lines)])
    sessions = {name: Session(server, schema, messages=True) for name in names}
    transcript: list[str] = []
    try:
        for statement in script.setup:
            sessions["change"].connection.execute(statement.encode())
        with stopping(process, back=True):
            held = Held(process, sessions["change"], script.change)
            for state, name, statement in script.lines:
                if state != AFTER:
                    held.get_to(state)
                    transcript.append(f"{state} {name}: {statement} -> {sessions[name].execute(statement)}")
            transcript.insert(0, f"change: {script.change} -> {held.finish()}")
        for state, name, statement in script.lines:
            if state == AFTER:
                transcript.append(f"{state} {name}: {statement} -> {sessions[name].execute(statement)}")
    finally:
        for session in sessions.values():
            session.connection.close()
    return transcript
