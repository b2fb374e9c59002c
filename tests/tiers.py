"""The tiers of the tests: the tests of a run, their order, and the part of the soak tier that runs with a commit.

A test is of the tier that it is marked with: `soak` or `suites`. Any other is of the tier `fast`, and of `unit` too if
it starts no server. One that is marked `turns` is of `fast` with every fifth commit, and of `soak` with the others.
`seconds.txt` has the duration of each file: `tests/run --tier all --write-seconds` writes it.
"""

from __future__ import annotations

import datetime
import hashlib
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TIERS: Final = ("unit", "fast", "soak", "suites", "all")
ROOT: Final = Path(__file__).parents[1]
SECONDS: Final = Path(__file__).with_name("seconds.txt")
_UNKNOWN_SECONDS: Final = 10.0  # of a file that is new
_OWN_TIERS: Final = ("soak", "suites")
_TURNS: Final = 5  # commits, of which one has a test that is marked `turns`, unless the mark says otherwise
_RECENT: Final = 10  # commits: what they changed has its turn
_CHANGED_SECONDS: Final = 120.0  # of tests of files that changed: a commit may change them all
# What modules have at hand only to start a server or another process.
_STARTERS: Final = frozenset(
    {
        "EmbeddedPostgres",
        "GatewayProcess",
        "SparkEngine",
        "ask_sluice",
        "run_sluice",
        "spark_session",
        "start_oracle",
        "subprocess",
    }
)
_REFUSAL: Final = "_no_process"  # the fixture that keeps the tier `unit` from starting any
_TARGET: Final = "target"  # the fixture that asks for one of two others while it runs


def read_seconds() -> Mapping[str, float]:
    """File → how long its tests took, on two cores."""
    lines = SECONDS.read_text().splitlines() if SECONDS.exists() else []
    return {path: float(seconds) for seconds, path in (line.split() for line in lines)}


def write_seconds(taken: Mapping[str, float]) -> None:
    """Write down the files of this run; what others took stays as it is."""
    known = {path: seconds for path, seconds in {**read_seconds(), **taken}.items() if (ROOT / path).exists()}
    SECONDS.write_text("".join(f"{known[path]:.1f} {path}\n" for path in sorted(known)))


def part_of(tests: Mapping[str, float], seed: str, budget: float) -> set[str]:
    """Tests or files that together take no longer than the budget, by their seconds: in another order for each seed.

    One that exceeds the budget by itself is taken where it comes first. Each of pytest's processes asks by itself
    and must choose the same: the sum is of whole milliseconds, which no order of adding changes.
    """
    chosen: set[str] = set()
    left = round(budget * 1000)
    for name in sorted(tests, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest()):
        taken = round(tests[name] * 1000)
        if not chosen or taken <= left:
            chosen.add(name)
            left -= taken
    return chosen


def file_of(item: pytest.Item) -> str:
    """The path of its file, as seconds.txt has it."""
    return item.path.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Turn:
    """Whose turn it is: by a commit's name, and by the files that the last commits and the working tree changed."""

    name: str
    changed: Set[str] = frozenset()

    @classmethod
    def now(cls) -> Turn:
        """The checkout's. Without Git it is the day's."""
        name = _git("rev-parse", "HEAD") or [datetime.date.today().isoformat()]
        # As many as there are: a clone may have few.
        back = min(_RECENT, len(_git("rev-list", "--first-parent", f"--max-count={_RECENT + 1}", "HEAD")) - 1)
        changed = {*_git("diff", "--name-only", f"HEAD~{back}"), *_git("ls-files", "--others", "--exclude-standard")}
        return cls(name[0], frozenset(changed))

    def has(self, item: pytest.Item) -> bool:
        """Whether it is the turn of a test.

        The mark may name other files that it reads, which give it a turn if they changed. `every` says of how many
        commits one has it; with `together`, the tests of its file have their turn at once.
        """
        mark = item.get_closest_marker("turns")
        if mark is None:
            return True
        drawn = f"{self.name} {file_of(item) if mark.kwargs.get('together') else item.nodeid}"
        number = int.from_bytes(hashlib.sha256(drawn.encode()).digest())
        return number % mark.kwargs.get("every", _TURNS) == 0 or not self.changed.isdisjoint(mark.args)

    def changed_too(self, tests: Mapping[str, float]) -> set[str]:
        """Those of the tests, with their seconds, whose own file changed: as many as there is time for."""
        own = {test: seconds for test, seconds in tests.items() if test.partition("::")[0] in self.changed}
        return part_of(own, self.name, _CHANGED_SECONDS)


def _git(*arguments: str) -> list[str]:
    """The lines of what Git says; none where it cannot."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def tier_of(item: pytest.Item, turn: Turn) -> str:
    """The one that it is counted to: what is of `unit` is of `fast` too."""
    for tier in _OWN_TIERS:
        if item.get_closest_marker(tier):
            return tier
    if not turn.has(item):
        return "soak"
    return "fast" if _starts_a_server(item) else "unit"


def _starts_a_server(item: pytest.Item) -> bool:
    """Whether its module, or one that this imports from the tests, or a fixture of its, can start one."""
    if not isinstance(item, pytest.Function):
        return True
    fixtures: Mapping[str, Sequence[pytest.FixtureDef[object]]] = item._fixtureinfo.name2fixturedefs
    functions = [fixture.func for name, of_name in fixtures.items() if name != _REFUSAL for fixture in of_name]
    return (
        _TARGET in fixtures
        or _has_starters(item.module.__name__)
        or any(_STARTERS & set(function.__code__.co_names) for function in functions if hasattr(function, "__code__"))
    )


@cache
def _has_starters(name: str) -> bool:
    members = vars(sys.modules[name])
    others = {getattr(member, "__module__", None) or getattr(member, "__name__", "") for member in members.values()}
    below = {other for other in others if str(other).startswith("tests.") and other != name and other in sys.modules}
    return bool(_STARTERS & members.keys()) or any(map(_has_starters, below))


def selected(items: Iterable[pytest.Item], tier: str, turn: Turn, seed: str | None, budget: float) -> list[pytest.Item]:
    """Those of a tier, and with a seed the part of the soak tier that goes with it."""
    kept = {"unit": {"unit"}, "fast": {"unit", "fast"}, "all": {"unit", "fast", *_OWN_TIERS}}.get(tier, {tier})
    tiers = _by_turns([(item, tier_of(item, turn)) for item in items], turn)
    part: set[str] = set()
    if seed is not None:
        part = part_of(_seconds_of_soak(tiers), seed, budget)
    return [item for item, its in tiers if its in kept or (its == "soak" and {item.nodeid, file_of(item)} & part)]


def _by_turns(tiers: Sequence[tuple[pytest.Item, str]], turn: Turn) -> list[tuple[pytest.Item, str]]:
    """Tests whose file changed are of `fast`, too, though it is not their turn."""
    seconds, counts = read_seconds(), Counter(file_of(item) for item, _ in tiers)
    waiting = {item.nodeid for item, its in tiers if its == "soak" and not item.get_closest_marker("soak")}
    each = {
        item.nodeid: seconds.get(file_of(item), _UNKNOWN_SECONDS) / counts[file_of(item)]
        for item, _ in tiers
        if item.nodeid in waiting
    }
    also = turn.changed_too(each)
    return [(item, "fast" if item.nodeid in also else its) for item, its in tiers]


def _seconds_of_soak(tiers: Sequence[tuple[pytest.Item, str]]) -> Mapping[str, float]:
    """Test → seconds. A file that is all of soak is taken whole: its tests share what is prepared for them."""
    seconds, counts = read_seconds(), Counter(file_of(item) for item, _ in tiers)
    mixed = {file_of(item) for item, its in tiers if its != "soak"}
    found: dict[str, float] = {}
    for item, its in tiers:
        path = file_of(item)
        taken = seconds.get(path, _UNKNOWN_SECONDS)
        if its == "soak":
            found |= {item.nodeid: taken / counts[path]} if path in mixed else {path: taken}
    return found


def longest_first(items: list[pytest.Item]) -> None:
    """Files that take long begin early, so that no process is left alone with one at the end."""
    seconds = read_seconds()
    items.sort(key=lambda item: -seconds.get(file_of(item), _UNKNOWN_SECONDS))


class Stopwatch:
    """How long each file's tests take."""

    def __init__(self) -> None:
        self._taken: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._taken[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        write_seconds(self._taken)
