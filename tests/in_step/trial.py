"""One sequence, sent to both servers; a difference is minimised by leaving messages out."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.wire.messages import frontend
from gateway.wire.messages.backend import ErrorResponse
from gateway.wire.messages.layout import Message
from tests.in_step.conversation import Answers, Cut, converse, reset
from tests.in_step.sequences import Maker, Step
from tests.in_step.vocabulary import KINDS
from tests.servers import Server

# What Sluice does not do: what comes behind it may differ.
_REFUSED: Final = "0A000"
_FAULT: Final = "XX000"
# Sequences in which one of these words occurs may leave other tables than they found.
_CHANGING: Final = tuple(
    {each.sql.split()[0] for kind in ("writing", "schema") for each in KINDS[kind][1]} - {"SELECT"} | {"COPY t"}
)


@dataclass(frozen=True)
class Difference:
    """What was sent, how it was cut, and what each said."""

    seed: str
    cut: Cut
    steps: Sequence[Step]
    wanted: Answers
    found: Answers

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, sent {self.cut}:"]
        lines += [f"  > {step}" for step in self.steps]
        same = 0
        while same < min(len(self.wanted), len(self.found)) and self.wanted[same] == self.found[same]:
            same += 1
        lines += [f"  = {each}" for each in self.wanted[:same]]
        lines += [f"  PostgreSQL: {each}" for each in self.wanted[same : same + 6]]
        lines += [f"  gateway:    {each}" for each in self.found[same : same + 6]]
        return "\n".join(lines)


@dataclass
class Trial:
    """Both servers, PostgreSQL first."""

    oracle: Server
    gateway: Server
    shrink_seconds: float = 20.0
    asked: int = 0
    messages: int = 0
    refused: int = 0
    differences: list[Difference] = field(default_factory=list)
    _clean: bool = False

    def ask(self, seed: str) -> Difference | None:
        """The sequence of this seed; what differs, made small."""
        steps = Maker(seed).sequence()
        cut = random.Random(f"cut {seed}").choice(tuple(Cut))
        self.asked += 1
        self.messages += len(steps)
        difference = self.compare(seed, steps, cut)
        if difference is not None:
            difference = self._shrunk(difference)
            self.differences.append(difference)
        return difference

    def compare(self, seed: str, steps: Sequence[Step], cut: Cut) -> Difference | None:
        """What the servers say to these messages, where that differs."""
        if not self._clean:
            reset(self.oracle)
            reset(self.gateway)
        self._clean = not any(word in _text(step) for step in steps for word in _CHANGING)
        wanted = converse(self.oracle, steps, Cut.AT_ONCE, seed)
        if _says(wanted, _FAULT):
            self._clean = False
            return None  # PostgreSQL has lost its way itself
        found = converse(self.gateway, steps, cut, seed)
        if _says(found, _REFUSED):
            self.refused += 1
            self._clean = False
            return None
        if wanted == found:
            return None
        self._clean = False
        return Difference(seed, cut, steps, wanted, found)

    def _shrunk(self, difference: Difference) -> Difference:
        """Leave out as many messages as can be, half of them first."""
        deadline = time.monotonic() + self.shrink_seconds
        size = len(difference.steps) // 2
        while size:
            place = 0
            while place < len(difference.steps) and time.monotonic() < deadline:
                left = [*difference.steps[:place], *difference.steps[place + size :]]
                smaller = self.compare(difference.seed, left, difference.cut)
                if smaller is None:
                    place += size
                else:
                    difference = smaller
            size //= 2
        return difference


def _says(answers: Answers, sqlstate: str) -> bool:
    return any(isinstance(each, ErrorResponse) and ("C", sqlstate) in each.fields for each in answers)


def _text(step: Step) -> str:
    if isinstance(step, frontend.Query | frontend.Parse):
        return step.query
    return "" if isinstance(step, Message) else "cancel"
