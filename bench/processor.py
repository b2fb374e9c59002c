"""What making indexes and keys costs: processor time of all processes, and the clock, in turns with PostgreSQL.

On a machine with other load the clock tells little, and processor time tells most.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from bench.indexes import INDEXES
from bench.report import Figure, Report
from tests.servers import Server, descendants

_TICKS: Final = os.sysconf("SC_CLK_TCK")
# What it is, the statement, and what takes it back.
CHANGES: Final = (
    *((name, sql, f"DROP INDEX {sql.split()[2]}") for name, sql in INDEXES),
    (
        "ADD UNIQUE, two columns",
        "ALTER TABLE {table} ADD CONSTRAINT c UNIQUE (l_orderkey, l_linenumber)",
        "ALTER TABLE {table} DROP CONSTRAINT c",
    ),
)


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds by the clock, and of the processor by the command of the process."""

    passed: float
    processor: Mapping[str, float]

    @property
    def whole(self) -> float:
        """Processor seconds of all processes."""
        return sum(self.processor.values())


def run(report: Report, ours: tuple[Server, int], other: tuple[Server, int], table: str, repeat: int) -> None:
    """Each server with the process that all of its others descend from."""
    for name, sql, back in CHANGES:
        taken: tuple[list[Spent], list[Spent]] = ([], [])
        for _ in range(repeat):
            for (server, process_id), spent in zip((ours, other), taken, strict=True):
                spent.append(_spent(server, process_id, sql.format(table=table), back.format(table=table)))
        mine, theirs = (_median(each) for each in taken)
        report.add(Figure(f"{name}, processor", mine.whole, theirs.whole, "s", "PostgreSQL"))
        for command, seconds in sorted(mine.processor.items(), key=lambda item: -item[1])[:3]:
            report.add(Figure(f"  of it {command}", seconds, None, "s"))
        report.add(Figure(f"{name}, clock", mine.passed, theirs.passed, "s", "PostgreSQL"))


def _spent(server: Server, process_id: int, sql: str, back: str) -> Spent:
    with psycopg.connect(server.url, autocommit=True) as connection:
        before, begin = _processor_seconds(process_id), time.perf_counter()
        connection.execute(sql.encode())
        passed, after = time.perf_counter() - begin, _processor_seconds(process_id)
        connection.execute(back.encode())
    return Spent(passed, {command: seconds - before.get(command, 0.0) for command, seconds in after.items()})


def _median(spent: Iterable[Spent]) -> Spent:
    """The one in the middle by processor time."""
    middle = statistics.median_low(each.whole for each in spent)
    return next(each for each in spent if each.whole == middle)


def _processor_seconds(process_id: int) -> dict[str, float]:
    """By the command of that process and of those below it: seconds, with those of children that have ended."""
    found: dict[str, float] = {}
    for each in (process_id, *descendants(process_id)):
        try:
            head, _, rest = (Path("/proc") / str(each) / "stat").read_text().rpartition(")")
        except OSError:  # it ended meanwhile
            continue
        command = head.partition("(")[2]
        found[command] = found.get(command, 0.0) + sum(map(int, rest.split()[11:15])) / _TICKS
    return found
