"""Catching up takes a lock when little work is left under it."""

from __future__ import annotations

import pytest

from gateway.execution.schema.catch_up import until_little_is_left


class Clock:
    """Time that goes by while work is done, as `work` says of each round."""

    def __init__(self, work: list[float]) -> None:
        self._now = 0.0
        self._work = work
        self.rounds = 0

    def monotonic(self) -> float:
        return self._now

    async def catch_up(self) -> None:
        self._now += self._work[min(self.rounds, len(self._work) - 1)]
        self.rounds += 1


@pytest.mark.parametrize(
    ("work", "rounds"),
    [
        ([0.0], 1),
        ([30.0, 5.0, 0.8, 0.1, 0.1], 4),
        ([30.0, 5.0, 0.8, 0.9, 0.7, 0.1], 6),  # one took longer by chance
        ([30.0, 5.0, 0.5, 0.6, 0.5, 0.4, 0.1], 5),  # it gets no shorter
        ([5.0], 3),  # others add as much as is done
        ([100.0 - number for number in range(90)], 20),  # nearly as much
    ],
)
async def test_rounds(monkeypatch: pytest.MonkeyPatch, work: list[float], rounds: int) -> None:
    clock = Clock(work)
    monkeypatch.setattr("gateway.execution.schema.catch_up.time", clock)
    await until_little_is_left(clock.catch_up)
    assert clock.rounds == rounds
