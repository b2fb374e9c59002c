"""A random script: a schema, and statements over it. The same for the same seed and number."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from tests.security.identities.objects import World, make_world
from tests.security.identities.statements import Statements
from tests.security.identities.step import Step

_TRICKS_SHARE: Final = 0.5


@dataclass(frozen=True)
class Script:
    """`python -m tests.security.identities --seed SEED --first NUMBER --scripts 1` runs it again."""

    seed: str
    number: int
    world: World
    steps: tuple[Step, ...]

    @property
    def replay(self) -> str:
        return f"python -m tests.security.identities --seed {self.seed} --first {self.number} --scripts 1"


def script_of(seed: str, number: int, steps: int = 24) -> Script:
    chance = random.Random(f"{seed} {number}")
    world = make_world(chance, f"fz_{number}", tricks=chance.random() < _TRICKS_SHARE)
    statements = Statements(chance, world)
    return Script(seed, number, world, (*(statements.step() for _ in range(steps)), *statements.of_each_path()))
