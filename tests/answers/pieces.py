"""A piece of a run: so many queries, changes or sets of tables of a seed, asked of a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.answers.asking import Asker
from tests.answers.changing import Changer
from tests.answers.partitions import Partitions
from tests.answers.stages import Stage
from tests.answers.tallies import Ask, Run, Session, Tallies

PARTITIONS_PER_WORLD: Final = 6


@dataclass(frozen=True)
class Piece:
    """`what` is a key of ASKED, `first` the first number."""

    stage: Stage
    what: str
    seed: str
    count: int
    first: int = 0

    @property
    def run(self) -> Run:
        return Run(self.what, self.seed, self.stage.name, self.stage.shuffled)

    def ask(self, tallies: Tallies, askers: Sequence[Asker]) -> None:
        """Ask what the tallies do not have yet."""
        asked = ASKED[self.what]
        sessions = [Session(asker, asked(asker, self.seed)) for asker in askers]
        tallies.ask(self.run, self.first, self.count, sessions)


def _partitions(asker: Asker, seed: str) -> Ask:
    def ask(first: int, count: int) -> None:
        checks = Partitions(asker.sluice, asker.counts.differences, asker.shrink_seconds)
        for place in range(first, first + count):
            checks.check(seed, place, PARTITIONS_PER_WORLD)
        asker.counts.same += checks.checked - checks.refused
        if checks.refused:
            asker.counts.refused["a partition"] += checks.refused

    return ask


ASKED: Final[Mapping[str, Callable[[Asker, str], Ask]]] = {
    "queries": lambda asker, seed: lambda first, count: asker.queries(seed, first, count),
    "scans": lambda asker, seed: lambda first, count: asker.scans(seed, first, count),
    "changes": lambda asker, seed: lambda first, count: Changer(asker).changes(seed, first, count),
    "partitions": _partitions,
}
