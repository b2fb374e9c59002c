"""Random sequences of messages: the gateway answers each as PostgreSQL does. `python -m tests.in_step` sends more."""

from __future__ import annotations

import datetime
import os

import pytest

from tests.in_step.sequences import Maker
from tests.in_step.trial import Trial
from tests.servers import Server

# So many of each seed; any number by hand.
_SEQUENCES = int(os.environ.get("SLUICE_SEQUENCES", "25"))
# The second is another one each day.
_SEEDS = ("in step", f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}")


@pytest.mark.parametrize("seed", _SEEDS)
def test_sequences(oracle: Server, gateway: Server, seed: str) -> None:
    trial = Trial(oracle, gateway)
    for number in range(_SEQUENCES):
        trial.ask(f"{seed}/{number}")
    assert not trial.differences, "\n\n".join(map(str, trial.differences))
    # That much was asked, and answered.
    assert trial.messages > 10 * _SEQUENCES
    assert trial.refused <= _SEQUENCES // 5


def test_a_seed_always_makes_the_same() -> None:
    assert Maker("a/1").sequence() == Maker("a/1").sequence()
    assert Maker("a/1").sequence() != Maker("a/2").sequence()
