"""Long runs that continue after an interruption: a file with a line for each batch, and their sum."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final, Self

from tests.answers.asking import Asker, Counts

_ROOT: Final = Path(__file__).parents[2]
# A set of tables each: what an interruption costs, at most.
BATCH: Final = {"queries": 60, "scans": 60, "changes": 20, "partitions": 1}
Ask = Callable[[int, int], None]  # the first number, and how many


@dataclass(frozen=True)
class Run:
    """What is asked of whom: lines of the same run are one sum."""

    what: str
    seed: str
    stage: str
    shuffled: int | None = None


@dataclass(frozen=True)
class Session:
    """Who asks, and by what: `ask` belongs to the asker."""

    asker: Asker
    ask: Ask


@dataclass
class Tally:
    """What came of a batch of consecutive numbers, and of which build: its commit."""

    first: int
    count: int
    seconds: float = 0.0
    same: int = 0
    slow: int = 0
    alike: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)
    build: str = ""

    @classmethod
    def of(cls, first: int, count: int, seconds: float, counts: Counts) -> Self:
        return cls(
            first, count, round(seconds, 1), counts.same, counts.slow, dict(counts.alike), dict(counts.refused),
            [str(each) for each in counts.differences], build(),
        )  # fmt: skip


@cache
def build() -> str:
    """The checkout's commit; with a plus if files of it differ."""
    answer = subprocess.run(
        ["git", "-C", str(_ROOT), "describe", "--always", "--dirty=+", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip()


class Tallies:
    """The file's lines. Each is written once its batch is over, so that what was stopped is asked again."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.found: list[tuple[Run, Tally]] = []
        if file is not None and file.exists():
            self.found = [_read(line) for line in file.read_text().splitlines()]

    def of(self, run: Run) -> list[Tally]:
        return [tally for each, tally in self.found if each == run]

    def ask(self, run: Run, first: int, count: int, sessions: Sequence[Session]) -> None:
        """Ask in batches what no line of the run has; each session takes the next batch."""
        known = {number for tally in self.of(run) for number in range(tally.first, tally.first + tally.count)}
        batches = iter(_batches([each for each in range(first, first + count) if each not in known], run.what))

        def work(session: Session) -> None:
            try:
                while (batch := self._next(batches)) is not None:
                    self._batch(run, *batch, session)
            except BaseException:
                halt()
                raise

        def halt() -> None:
            for session in sessions:
                session.asker.halted = True

        if len(sessions) == 1:  # not in a thread, so that an interruption reaches it
            work(sessions[0])
            return
        with ThreadPoolExecutor(len(sessions)) as threads:
            try:
                running = [threads.submit(work, session) for session in sessions]
                for each in wait(running, return_when=FIRST_EXCEPTION).done:
                    each.result()
            finally:
                halt()

    def _next(self, batches: Iterator[tuple[int, int]]) -> tuple[int, int] | None:
        with self._lock:
            return next(batches, None)

    def _batch(self, run: Run, start: int, length: int, session: Session) -> None:
        session.asker.start_anew()
        began = time.monotonic()
        session.ask(start, length)
        tally = Tally.of(start, length, time.monotonic() - began, session.asker.counts)
        with self._lock:
            self._keep(run, tally)
            session.asker.show()
            summary = session.asker.counts.summary()
            print(f"{run.what} {start} to {start + length - 1} of seed {run.seed}: {summary}", flush=True)

    def _keep(self, run: Run, tally: Tally) -> None:
        self.found.append((run, tally))
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(_line(run, tally))

    def join(self) -> None:
        """Rewrite the file: one line for each stretch of consecutive numbers that one build was asked."""
        joined: list[tuple[Run, Tally]] = []
        for run, tally in sorted(self.found, key=lambda each: (str(each[0]), each[1].first)):
            last_run, last = joined[-1] if joined else (None, None)
            if last is None or last_run != run or (last.first + last.count, last.build) != (tally.first, tally.build):
                joined.append((run, replace(tally)))
                continue
            last.count, last.seconds = last.count + tally.count, round(last.seconds + tally.seconds, 1)
            last.same, last.slow = last.same + tally.same, last.slow + tally.slow
            last.alike = dict(Counter(last.alike) + Counter(tally.alike))
            last.refused = dict(Counter(last.refused) + Counter(tally.refused))
            last.different = last.different + tally.different
        self.found = joined
        if self._file is not None:
            self._file.write_text("".join(_line(run, tally) for run, tally in joined))

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


def _line(run: Run, tally: Tally) -> str:
    return json.dumps(asdict(run) | asdict(tally)) + "\n"


def _read(line: str) -> tuple[Run, Tally]:
    values = json.loads(line)
    run = Run(*(values.pop(name) for name in ("what", "seed", "stage", "shuffled")))
    return run, Tally(**values)
