"""Orders: named statements of several sessions, and the orders in which they are executed, each from the beginning.

A file of orders has three paragraphs, after lines `-- …` that are comments. The first sets up, a statement a line. The
second has the statements: `session name: statement`, or `session: statement` for a statement before every order, and
the name `finally` for one after each. The third has an order a line, by names; or `every order`, which are all those
that keep each session's own one, except the impossible ones, in which a waiting session would go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.isolation.schedule import Schedule

_EVERY = "every order"
_FINALLY = "finally"

Step = tuple[str, str]


@dataclass(frozen=True)
class Orders:
    """`listed` are what the file lists; `every` stands for all orders in their place, some of which are impossible."""

    setup: tuple[str, ...]
    before: tuple[Step, ...]
    steps: dict[str, Step]
    after: tuple[Step, ...]
    listed: tuple[tuple[str, ...], ...]
    every: bool

    def schedules(self) -> dict[str, Schedule]:
        """By the names in their order."""
        orders = tuple(_interleaved(self.sessions())) if self.every else self.listed
        return {" ".join(order): self.schedule(order) for order in orders}

    def schedule(self, order: Sequence[str]) -> Schedule:
        """One order."""
        return Schedule(self.setup, (*self.before, *(self.steps[name] for name in order), *self.after))

    def sessions(self) -> tuple[tuple[str, ...], ...]:
        """The names of each session's statements."""
        sessions: dict[str, list[str]] = {}
        for name, (session, _) in self.steps.items():
            sessions.setdefault(session, []).append(name)
        return tuple(map(tuple, sessions.values()))


def _interleaved(sessions: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """All orders that keep the order within each session."""
    if not any(sessions):
        yield ()
    for number, (first, *rest) in ((number, steps) for number, steps in enumerate(sessions) if steps):
        for order in _interleaved([*sessions[:number], rest, *sessions[number + 1 :]]):
            yield first, *order


def read(path: Path) -> Orders:
    """The orders in a file."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("--"))
    setup, statements, orders = (paragraph.splitlines() for paragraph in text.strip().split("\n\n"))
    before, after, steps = list[Step](), list[Step](), dict[str, Step]()
    for line in statements:
        head, statement = line.split(": ", 1)
        session, _, name = head.partition(" ")
        if name in {"", _FINALLY}:
            (after if name else before).append((session, statement))
        else:
            assert name not in steps, line
            steps[name] = (session, statement)
    every = orders == [_EVERY]
    listed = () if every else tuple(tuple(line.split()) for line in orders)
    assert every or set(steps) == {name for order in listed for name in order}, (
        f"{path.stem} has statements in no order"
    )
    return Orders(tuple(setup), tuple(before), steps, tuple(after), listed, every)
