"""Long runs that continue after an interruption: a file with a line for each batch, and their sum."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Self

from tests.answers.asking import Asker, Counts

BATCH: Final = {"queries": 300, "scans": 300, "changes": 100, "partitions": 5}
Ask = Callable[[int, int], None]  # the first number, and how many


@dataclass(frozen=True)
class Run:
    """What is asked of whom: lines of the same run are one sum."""

    what: str
    seed: str
    stage: str
    shuffled: int | None = None


@dataclass
class Tally:
    """What came of a batch of consecutive numbers."""

    first: int
    count: int
    seconds: float = 0.0
    same: int = 0
    slow: int = 0
    alike: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, first: int, count: int, seconds: float, counts: Counts) -> Self:
        return cls(
            first, count, round(seconds, 1), counts.same, counts.slow, dict(counts.alike), dict(counts.refused),
            [str(each) for each in counts.differences],
        )  # fmt: skip


class Tallies:
    """The file's lines. Each is written once its batch is over, so that what was stopped is asked again."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.found: list[tuple[Run, Tally]] = []
        if file is not None and file.exists():
            self.found = [_read(line) for line in file.read_text().splitlines()]

    def of(self, run: Run) -> list[Tally]:
        return [tally for each, tally in self.found if each == run]

    def ask(self, run: Run, first: int, count: int, asker: Asker, ask: Ask) -> None:
        """Ask in batches what no line of the run has."""
        known = {number for tally in self.of(run) for number in range(tally.first, tally.first + tally.count)}
        for start, length in _batches([each for each in range(first, first + count) if each not in known], run.what):
            asker.start_anew()
            began = time.monotonic()
            ask(start, length)
            self._keep(run, Tally.of(start, length, time.monotonic() - began, asker.counts))
            asker.show()
            print(
                f"{run.what} {start} to {start + length - 1} of seed {run.seed}: {asker.counts.summary()}", flush=True
            )

    def _keep(self, run: Run, tally: Tally) -> None:
        self.found.append((run, tally))
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(json.dumps(asdict(run) | asdict(tally)) + "\n")

    def sum(self, run: Run) -> tuple[Counts, int]:
        """The counts of all that was ever asked of the run, and how many answers were wrong."""
        counts, wrong = Counts(), 0
        for tally in self.of(run):
            counts.same += tally.same
            counts.slow += tally.slow
            counts.alike.update(tally.alike)
            counts.refused.update(tally.refused)
            wrong += len(tally.different)
        return counts, wrong


def _batches(numbers: list[int], what: str) -> list[tuple[int, int]]:
    """First number and length of each stretch without a gap, none across a multiple of the batch's size."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == sum(found[-1]) and number % BATCH[what]:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found


def _read(line: str) -> tuple[Run, Tally]:
    values = json.loads(line)
    run = Run(*(values.pop(name) for name in ("what", "seed", "stage", "shuffled")))
    return run, Tally(**values)
