"""An interrupted run continues after its file, and its sum is that of the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.answers.asking import Asker, Difference
from tests.answers.evidence import PIECES, summed
from tests.answers.sides import Side
from tests.answers.tables import World
from tests.answers.tallies import BATCH, Run, Session, Tallies
from tests.planner.differential import Answer

RUN = Run("queries", "7", "here")
SIZE = BATCH["queries"]


class _Mute(Side):
    def build(self, world: World) -> Answer | None:
        raise NotImplementedError

    def ask(self, sql: str) -> Answer:
        raise NotImplementedError


class _Asked:
    """Counts what it is asked; every 100th is refused, number 450 is wrong, and at `stop` it is killed."""

    def __init__(self, stop: int | None = None) -> None:
        self.asker = Asker(_Mute(), _Mute())
        self.numbers: list[int] = []
        self._stop = stop

    def __call__(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            if number == self._stop:
                raise KeyboardInterrupt
            self.numbers.append(number)
            if number == 450:
                self.asker.counts.differences.append(Difference("450", "SELECT", Answer(), Answer()))
            elif number % 100 == 0:
                self.asker.counts.refused["of a kind"] += 1
            else:
                self.asker.counts.same += 1

    @property
    def session(self) -> Session:
        return Session(self.asker, self)


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "tallies"
    first = _Asked(stop=2 * SIZE + 10)
    with pytest.raises(KeyboardInterrupt):
        Tallies(file).ask(RUN, 0, 1000, [first.session])
    second = _Asked()
    tallies = Tallies(file)
    tallies.ask(RUN, 0, 1000, [second.session])
    assert second.numbers == list(range(2 * SIZE, 1000))
    for each in (tallies, Tallies(file)):
        counts, wrong = each.sum(RUN)
        assert (counts.same, counts.refused, wrong) == (989, {"of a kind": 10}, 1)
    third = _Asked()
    Tallies(file).ask(RUN, 0, 1100, [third.session])
    assert third.numbers == list(range(1000, 1100))


def test_joined_lines_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "tallies"
    tallies, first = Tallies(file), _Asked()
    for start, count in ((2 * SIZE, SIZE), (0, 2 * SIZE), (5 * SIZE, SIZE)):
        tallies.ask(RUN, start, count, [first.session])
    before = tallies.sum(RUN)
    tallies.join()
    joined, second = Tallies(file), _Asked()
    assert [(tally.first, tally.count) for tally in joined.of(RUN)] == [(0, 3 * SIZE), (5 * SIZE, SIZE)]
    assert joined.sum(RUN) == tallies.sum(RUN) == before
    joined.ask(RUN, 0, 6 * SIZE, [second.session])
    assert second.numbers == list(range(3 * SIZE, 5 * SIZE))


@pytest.mark.parametrize("other", [Run("queries", "8", "here"), Run("queries", "7", "here", 3)])
def test_runs_are_apart(tmp_path: Path, other: Run) -> None:
    tallies = Tallies(tmp_path / "tallies")
    asked = _Asked()
    tallies.ask(RUN, 0, 10, [asked.session])
    tallies.ask(other, 0, 10, [asked.session])
    assert asked.numbers == [*range(10), *range(10)]
    assert tallies.sum(other)[0].same == 9


def test_sessions_share_the_batches(tmp_path: Path) -> None:
    several = [_Asked() for _ in range(3)]
    tallies = Tallies(tmp_path / "tallies")
    tallies.ask(RUN, 0, 1000, [each.session for each in several])
    assert sorted(number for each in several for number in each.numbers) == list(range(1000))
    counts, wrong = Tallies(tmp_path / "tallies").sum(RUN)
    assert (counts.same, counts.refused, wrong) == (989, {"of a kind": 10}, 1)


def test_a_session_that_fails_ends_the_run(tmp_path: Path) -> None:
    """The others, too, which may be in the middle of a batch."""
    failing, other = _Asked(stop=7), _Asked(stop=7)
    with pytest.raises(KeyboardInterrupt):
        Tallies(tmp_path / "tallies").ask(RUN, 0, 9 * SIZE, [failing.session, other.session])
    assert failing.asker.halted
    assert other.asker.halted
    with pytest.raises(InterruptedError):
        other.asker.go_on()


def test_evidence_names_what_no_list_has(tmp_path: Path) -> None:
    tallies = Tallies(tmp_path / "tallies")
    asked = _Asked()
    piece = PIECES["queries"]
    tallies.ask(piece.run, 0, SIZE, [asked.session])
    text, wrong = summed([piece], tallies)
    assert f"{SIZE} | {piece.count} | queries | evidence | gateway | {SIZE - 1} | 0 | 1 | 0 | 0 |" in text
    assert "not in docs/refusals.md: of a kind" in text
    assert wrong == 0


def test_evidence_is_what_the_claim_says() -> None:
    """100,000 queries, of them 10,000 shuffled and 2,000 on two workers, and 10,000 changes."""
    counts = {name: piece.count for name, piece in PIECES.items()}
    assert sum(counts[name] for name, piece in PIECES.items() if piece.what == "queries") == 100_000
    assert sum(counts[name] for name, piece in PIECES.items() if piece.what == "changes") == 10_000
    assert (counts["shuffled"], counts["workers"]) == (10_000, 2_000)
    assert len({piece.run for piece in PIECES.values()}) == len(PIECES)
