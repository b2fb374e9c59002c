"""Orders of statements: each gives the same transcript on PostgreSQL and on the gateway. At SERIALIZABLE, which fails
more often than PostgreSQL's, what is committed is what some serial order gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.isolation.orders import Orders, Step, read
from tests.isolation.schedule import OrderImpossibleError, Schedule, run
from tests.servers import Server

_GOLDEN = Path(__file__).parent.parent / "golden"
_ALIKE = sorted((_GOLDEN / "orders").glob("*.txt"))
_SERIAL = sorted((_GOLDEN / "serial_orders").glob("*.txt"))
_SCHEMA = "orders_of_statements"


@contextmanager
def _schema(server: Server) -> Iterator[str]:
    server.psql("-qc", f"CREATE SCHEMA {_SCHEMA}")
    try:
        yield _SCHEMA
    finally:
        server.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {_SCHEMA} CASCADE")


def _possible(oracle: Server, orders: Orders) -> dict[str, tuple[Schedule, list[str]]]:
    """The orders that are possible on PostgreSQL, and their transcripts there."""
    found = {}
    for name, schedule in orders.schedules().items():
        with _schema(oracle) as schema:
            try:
                found[name] = (schedule, run(oracle, schema, schedule))
            except OrderImpossibleError:
                assert orders.every, name
    return found


@pytest.mark.parametrize("path", _ALIKE, ids=lambda path: path.stem)
def test_same_transcripts(oracle: Server, gateway: Server, path: Path) -> None:
    possible = _possible(oracle, read(path))
    for name, (schedule, expected) in possible.items():
        with _schema(gateway) as schema:
            assert run(gateway, schema, schedule) == expected, name


@pytest.mark.parametrize("path", _SERIAL, ids=lambda path: path.stem)
def test_what_is_committed_has_a_serial_order(oracle: Server, gateway: Server, path: Path) -> None:
    orders, serial = read(path), dict[frozenset[Step], list[_Outcome]]()
    for name, (schedule, _) in _possible(oracle, orders).items():
        chosen = frozenset(schedule.steps)
        if chosen not in serial:
            serial[chosen] = _serial_outcomes(oracle, orders, schedule)
        with _schema(gateway) as schema:
            outcome = _outcome(orders, run(gateway, schema, schedule))
        assert outcome.committed, name
        assert outcome in serial[chosen], name


@dataclass(frozen=True)
class _Outcome:
    """What each session was answered that has committed, and what was there in the end."""

    committed: dict[str, list[str]]
    left: list[str]


def _serial_outcomes(oracle: Server, orders: Orders, schedule: Schedule) -> list[_Outcome]:
    """Of all ways to carry out one or more of its sessions, one after the other."""
    found = []
    steps = schedule.steps[: len(schedule.steps) - len(orders.after)]
    sessions = list(dict.fromkeys(session for session, _ in steps))
    for count in range(1, len(sessions) + 1):
        for chosen in itertools.permutations(sessions, count):
            serial = [step for session in chosen for step in steps if step[0] == session]
            with _schema(oracle) as schema:
                transcript = run(oracle, schema, Schedule(orders.setup, (*serial, *orders.after)))
                found.append(_outcome(orders, transcript))
    return found


def _outcome(orders: Orders, transcript: list[str]) -> _Outcome:
    until = len(transcript) - len(orders.after)
    answers: dict[str, list[str]] = {}
    for line in transcript[:until]:
        if not line.endswith(" -> waits"):
            answers.setdefault(line.split(": ", 1)[0], []).append(line)
    committed = {session: lines for session, lines in answers.items() if lines[-1].endswith("-> COMMIT")}
    return _Outcome(committed, transcript[until:])
