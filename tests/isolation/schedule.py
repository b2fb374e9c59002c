"""Schedules: statements of several sessions in a given order, and the answer or wait of each.

A schedule is a text file. Lines before the first blank one set up; then each line is `session: statement`. A line `--
…` is a comment. `{level}` stands for the isolation level under test. The transcript of `run` repeats each line with its
answer: the rows, the command's tag, the SQLSTATE of an error, or `waits` if the statement waits for another session,
and its answer once it comes. A golden schedule has the answers in it, `session: statement -> answer`, errors with their
messages. A line `session: until answered` is no statement: there the schedule waits for the answer to the session's
waiting statement, which comes by itself (a deadlock, a timeout).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.servers import Server

_STEP_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.02
_UNTIL_ANSWERED = "until answered"
# A statement waits if the session that blocks it has nothing to do, or waits itself. A session at work, and the
# gateway's own steps, block it for a moment only.
_BLOCKED = """
SELECT pg_blocking_pids({0}) || pg_safe_snapshot_blocking_pids({0}) && ARRAY(
    SELECT other FROM unnest(ARRAY[{1}]) other
    WHERE other NOT IN ({2}) OR pg_blocking_pids(other) || pg_safe_snapshot_blocking_pids(other) && ARRAY[{1}])
"""


@dataclass(frozen=True)
class Schedule:
    """`steps` are (session, statement), in the order in which they are to begin."""

    setup: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]


def read(path: Path, level: str) -> Schedule:
    """The schedule in a file, for one isolation level."""
    lines = [line for line in path.read_text().replace("{level}", level).splitlines() if not line.startswith("--")]
    blank = lines.index("")
    steps = [line.split(" -> ", 1)[0].split(": ", 1) for line in lines[blank:] if line]
    return Schedule(tuple(lines[:blank]), tuple((session, statement) for session, statement in steps))


def answers(path: Path) -> list[str]:
    """The transcript that a golden schedule is to have."""
    return [line for line in path.read_text().splitlines() if " -> " in line]


class OrderImpossibleError(Exception):
    """A session that waits for another was to go on."""


class Session:
    """One connection, whose statements run in threads. An answer is a tag, rows, or an error, with `messages` whole;
    and what has been notified by then."""

    def __init__(self, server: Server, search_path: str, *, messages: bool) -> None:
        self.messages = messages
        self.connection = psycopg.connect(server.url, autocommit=True, options=f"-c search_path={search_path}")
        self.process_id = self.connection.info.backend_pid
        self.running: tuple[str, Future[str]] | None = None
        self._notified: list[str] = []
        self.connection.add_notify_handler(lambda each: self._notified.append(f"{each.channel} {each.payload!r}"))

    @property
    def is_at_work(self) -> bool:
        """Whether a statement of it is under way."""
        return self.running is not None and not self.running[1].done()

    def begin(self, statement: str) -> Future[str]:
        answer: Future[str] = Future()
        self.running = (statement, answer)
        threading.Thread(target=lambda: answer.set_result(self.execute(statement)), daemon=True).start()
        return answer

    def execute(self, statement: str) -> str:
        """The answer."""
        answer = self._execute(statement)
        notified, self._notified[:] = list(self._notified), []
        return ", notified of ".join([answer, *notified])

    def _execute(self, statement: str) -> str:
        try:
            cursor = self.connection.execute(statement.encode())
        except psycopg.Error as error:
            said = ": ".join(filter(None, (error.diag.message_primary, error.diag.message_detail)))
            return f"ERROR {error.sqlstate}" + (f" {said}" if self.messages else "")
        if cursor.description is None:
            return cursor.statusmessage or ""
        return " ".join(str(row) for row in cursor.fetchall()) or "no rows"

    def until_answered(self) -> None:
        """Returns when what it waits with is answered, be it that it has been told already."""
        if self.running is not None:
            self.running[1].result(_STEP_SECONDS_MAX)

    def close(self) -> None:
        """End the session, and first what still runs."""
        if self.running is not None:
            self.connection.cancel()
            self.running[1].result(_STEP_SECONDS_MAX)
        self.connection.close()


@contextmanager
def own_schema(server: Server, name: str) -> Iterator[str]:
    """An empty schema of that name, for as long."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
        try:
            yield name
        finally:
            connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


def run_on_all(servers: Sequence[Server], name: str, schedule: Schedule) -> list[list[str]]:
    """The transcript of each, in a schema of that name. At the same time, for much of a schedule is waiting."""

    def transcript(server: Server) -> list[str]:
        with own_schema(server, name) as schema:
            return run(server, schema, schedule)

    with ThreadPoolExecutor(len(servers)) as threads:
        return list(threads.map(transcript, servers))


def run(server: Server, schema: str, schedule: Schedule, *, messages: bool = False) -> list[str]:
    """The transcript. Fails where a statement neither answers nor waits for another session, or the order is
    impossible."""
    with psycopg.connect(server.url, autocommit=True, options=f"-c search_path={schema}") as control:
        for statement in schedule.setup:
            control.execute(statement.encode())
        sessions = {
            name: Session(server, schema, messages=messages)
            for name in dict.fromkeys(name for name, _ in schedule.steps)
        }
        transcript: list[str] = []
        try:
            for name, statement in schedule.steps:
                session = sessions[name]
                if statement == _UNTIL_ANSWERED:
                    session.until_answered()
                elif session.running is not None:
                    raise OrderImpossibleError(f"{name} still waits")
                else:
                    answer = session.begin(statement)
                    if _waits(control, session, answer, sessions):
                        transcript.append(f"{name}: {statement} -> waits")
                    else:
                        transcript.append(f"{name}: {statement} -> {answer.result()}")
                        session.running = None
                transcript += _released(control, sessions)
        finally:
            for session in sessions.values():
                session.close()
    return transcript


def _waits(control: psycopg.Connection, session: Session, answer: Future[str], sessions: Mapping[str, Session]) -> bool:
    """Whether the statement waits for one of the schedule's sessions; returns when it does, or when it is answered."""
    deadline = time.monotonic() + _STEP_SECONDS_MAX
    others = ", ".join(str(each.process_id) for each in sessions.values())
    while not wait([answer], _POLL_SECONDS).done:
        assert time.monotonic() < deadline, f"{session.running} neither answers nor waits"
        at_work = ", ".join(["0", *(str(each.process_id) for each in sessions.values() if each.is_at_work)])
        # The numbers stand in the text: with parameters, the statement would be prepared.
        row = control.execute(_BLOCKED.format(session.process_id, others, at_work).encode()).fetchone()
        if row == (True,) and not answer.done():
            return True
    return False


def _released(control: psycopg.Connection, sessions: Mapping[str, Session]) -> list[str]:
    """The answers of statements that waited and do so no longer."""
    found = []
    for name, session in sessions.items():
        if session.running is not None and not _waits(control, session, session.running[1], sessions):
            statement, answer = session.running
            found.append(f"{name}: {statement} -> {answer.result()}")
            session.running = None
    return found
