"""Histories of transactions on one table of keys and values, and the isolation levels that permit them.

A transaction is a list of its operations and their answers. `after` repeats it on a state of the table, and tells
whether the answers would be the same. So an order of the transactions is tried by executing them one after another
(SERIALIZABLE), or each on the state at its beginning (REPEATABLE READ: snapshots, and of two at once that change a row,
one fails).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

State = Mapping[int, int]


@dataclass(frozen=True)
class Step:
    """One statement over the keys from `low` to `high`, which has given `told`: the rows that are read by `rows`, their
    number and sum by `sum`, and how many rows the others have changed. `value` is what they write, or add."""

    kind: str
    low: int
    high: int
    value: int
    told: object

    def sql(self, table: str) -> str:
        """The statement."""
        return _SQL[self.kind].format(table=table, low=self.low, high=self.high, value=self.value)


# Of each kind: the statement, and what it does to the rows that it meets, by the step.
_SQL: Final = {
    "rows": "SELECT k, v FROM {table} WHERE k BETWEEN {low} AND {high} ORDER BY k",
    "sum": "SELECT count(*), coalesce(sum(v), 0) FROM {table} WHERE k BETWEEN {low} AND {high}",
    "write": "UPDATE {table} SET v = {value} WHERE k BETWEEN {low} AND {high}",
    "add": "UPDATE {table} SET v = v + {value} WHERE k BETWEEN {low} AND {high}",
    "insert": "INSERT INTO {table} VALUES ({low}, {value})",
    "delete": "DELETE FROM {table} WHERE k BETWEEN {low} AND {high}",
}
_EFFECTS: Final[dict[str, Callable[[Step, State], Mapping[int, int | None]]]] = {
    "rows": lambda _step, _met: {},
    "sum": lambda _step, _met: {},
    "write": lambda step, met: dict.fromkeys(met, step.value),
    "add": lambda step, met: {key: value + step.value for key, value in met.items()},
    "insert": lambda step, _met: {step.low: step.value},
    "delete": lambda _step, met: dict.fromkeys(met),
}


@dataclass
class Transaction:
    """A committed transaction; it was told of its commit at `committed`, and had not begun before `begun`."""

    steps: list[Step] = field(default_factory=list)
    begun: float = 0.0
    committed: float = 0.0

    def changes(self, state: State) -> dict[int, int | None] | None:
        """What it does to the state: values by key, None for a row that is gone; None where it would be told
        otherwise."""
        rows, changed = dict(state), dict[int, int | None]()
        for step in self.steps:
            met = {key: value for key, value in rows.items() if step.low <= key <= step.high}
            if step.told != _told(step, met):
                return None
            effects = _EFFECTS[step.kind](step, met)
            changed.update(effects)
            rows = _with(rows, effects)
        return changed


def _told(step: Step, met: State) -> object:
    match step.kind:
        case "rows":
            return sorted(met.items())
        case "sum":
            return [(len(met), sum(met.values()))]
        case "insert":
            return -1 if met else 1  # a key that is there cannot be inserted
        case _:
            return len(met)


def _with(state: State, changes: Mapping[int, int | None]) -> dict[int, int]:
    return {key: value for key, value in {**state, **changes}.items() if value is not None}


def serial_order(history: Sequence[Transaction], before: State, after: State) -> bool:
    """Whether some order of the transactions, one after another, gives all that they were told and what is there at
    last."""
    return any(_is_serial(order, before, after) for order in itertools.permutations(history))


def _is_serial(order: Sequence[Transaction], state: State, after: State) -> bool:
    for transaction in order:
        changes = transaction.changes(state)
        if changes is None:
            return False
        state = _with(state, changes)
    return state == after


def snapshot_order(history: Sequence[Transaction], before: State, after: State) -> bool:
    """Whether some order of commits, and for each transaction a moment in it when its snapshot was taken, gives all
    that they were told and what is there at last. A snapshot has all that was committed before its transaction began,
    and nobody changes a row that another has changed since his snapshot."""
    return _committing(list(history), [(dict(before), frozenset())], [], after)


def _committing(
    left: list[Transaction],
    states: list[tuple[dict[int, int], frozenset[int]]],
    done: list[Transaction],
    after: State,
) -> bool:
    """`states` are what was there after each commit, with the keys that it changed; `done` are those who committed."""
    if not left:
        return states[-1][0] == after
    for transaction in left:
        if any(other.committed < transaction.begun for other in left):
            continue  # that one had committed before
        earliest = max((place for place, other in enumerate(done, 1) if other.committed < transaction.begun), default=0)
        for place in range(earliest, len(states)):
            changes = transaction.changes(states[place][0])
            if changes is None or any(not changed.isdisjoint(changes) for _, changed in states[place + 1 :]):
                continue
            rest = [other for other in left if other is not transaction]
            state = (_with(states[-1][0], changes), frozenset(changes))
            if _committing(rest, [*states, state], [*done, transaction], after):
                return True
    return False
