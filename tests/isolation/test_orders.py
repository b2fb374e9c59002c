"""Orders of statements: each gives the same transcript on PostgreSQL and on the gateway.

At SERIALIZABLE, which fails more often than PostgreSQL's, the committed state is that of some serial order.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.isolation.orders import Orders, Step, read
from tests.isolation.schedule import OrderImpossibleError, Schedule, own_schema, run
from tests.servers import Server

_GOLDEN = Path(__file__).parent.parent / "golden"
_FAST_EVERY = 4  # the others are of the soak tier


def _files(folder: str) -> list[ParameterSet]:
    paths = sorted((_GOLDEN / folder).glob("*.txt"))
    marks = [[] if number % _FAST_EVERY == 0 else [pytest.mark.soak] for number in range(len(paths))]
    return [pytest.param(path, marks=own, id=path.stem) for path, own in zip(paths, marks, strict=True)]


_SCHEMA = "orders_of_statements"


def _on_postgresql(oracle: Server, orders: Orders, schedule: Schedule) -> list[str] | None:
    """The transcript there; None for an order that is impossible."""
    with own_schema(oracle, _SCHEMA) as schema:
        try:
            return run(oracle, schema, schedule)
        except OrderImpossibleError:
            assert orders.every, schedule
            return None


# PostgreSQL carries out the next orders while the gateway is at one: one after the other, for they have one schema.


@pytest.mark.parametrize("path", _files("orders"))
def test_same_transcripts(oracle: Server, gateway: Server, path: Path) -> None:
    orders = read(path)
    schedules = orders.schedules()
    with ThreadPoolExecutor(1) as ahead:
        expected = ahead.map(lambda schedule: _on_postgresql(oracle, orders, schedule), schedules.values())
        for (name, schedule), transcript in zip(schedules.items(), expected, strict=True):
            if transcript is not None:
                with own_schema(gateway, _SCHEMA) as schema:
                    assert run(gateway, schema, schedule) == transcript, name


@pytest.mark.parametrize("path", _files("serial_orders"))
def test_what_is_committed_has_a_serial_order(oracle: Server, gateway: Server, path: Path) -> None:
    orders, known = read(path), dict[frozenset[Step], list[_Outcome]]()
    schedules = orders.schedules()

    def serial_outcomes(schedule: Schedule) -> list[_Outcome] | None:
        if _on_postgresql(oracle, orders, schedule) is None:
            return None
        chosen = frozenset(schedule.steps)
        if chosen not in known:
            known[chosen] = _serial_outcomes(oracle, orders, schedule)
        return known[chosen]

    with ThreadPoolExecutor(1) as ahead:
        for (name, schedule), serial in zip(
            schedules.items(), ahead.map(serial_outcomes, schedules.values()), strict=True
        ):
            if serial is not None:
                with own_schema(gateway, _SCHEMA) as schema:
                    outcome = _outcome(orders, run(gateway, schema, schedule))
                assert outcome.committed, name
                assert outcome in serial, name


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
            with own_schema(oracle, _SCHEMA) as schema:
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
