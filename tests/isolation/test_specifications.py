"""PostgreSQL's own isolation specifications: the table of those covered here, and the schedules at SERIALIZABLE.

A schedule says in its first lines which specifications it follows, a file of orders by its name, and
`specifications.txt` says the same of each of those. test_isolation.py runs those at the lower levels, test_orders.py
orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.isolation.schedule import read, run_on_all
from tests.servers import Server

_GOLDEN = Path(__file__).parent.parent / "golden"
_CLAIM = "-- specification: "
# How many columns an entry has, and whether the third names schedules.
_STATUSES = {
    "covered": (3, True),
    "in part": (4, True),
    "stricter": (3, True),
    "open": (3, False),
    "not applicable": (3, False),
}


@dataclass(frozen=True)
class Entry:
    """What there is of one specification; `schedules` are names below tests/golden, without their ending."""

    name: str
    status: str
    schedules: tuple[str, ...]


def entries() -> list[Entry]:
    """The table, each of whose entries has the columns that its status asks for."""
    found = []
    for line in (Path(__file__).parent / "specifications.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split(" | ")]
        name, status = columns[:2]
        count, names_schedules = _STATUSES[status]
        assert len(columns) == count, line
        assert all(columns), line
        found.append(Entry(name, status, tuple(columns[2].split(", ")) if names_schedules else ()))
    return found


def claims() -> set[tuple[str, str]]:
    """(specification, schedule) as the schedules themselves say."""
    by_name = {(path.stem, f"{path.parent.name}/{path.stem}") for path in _GOLDEN.glob("*orders/*.txt")}
    return by_name | {
        (specification, f"{path.parent.name}/{path.stem}")
        for path in _GOLDEN.glob("*/*.txt")
        if path.parent.name in {"isolation", "serializable"}
        for line in path.read_text().splitlines()
        if line.startswith(_CLAIM)
        for specification in line.removeprefix(_CLAIM).split(", ")
    }


_SERIALIZABLE = sorted({name for _, name in claims() if name.startswith("serializable/")})


def test_each_specification_is_there_once_in_order() -> None:
    names = [entry.name for entry in entries()]
    assert names == sorted(set(names))


def test_table_and_schedules_say_the_same() -> None:
    said = {(entry.name, schedule) for entry in entries() for schedule in entry.schedules}
    assert said == claims()


@pytest.mark.parametrize("name", _SERIALIZABLE)
def test_same_transcript_at_serializable(oracle: Server, gateway: Server, name: str) -> None:
    schema = f"serializable_{name.partition('/')[2].replace('-', '_')}"
    transcripts = run_on_all((oracle, gateway), schema, read(_GOLDEN / f"{name}.txt", "SERIALIZABLE"))
    assert transcripts[1] == transcripts[0]
