"""The plan of a schema change as a value: a compound change is a sequence of simple ones, each of one element.

Source: "Online, Asynchronous Schema Change in F1", IEP-110 ("Basic schema changes").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from catalog.schema.compatibility import SchemaStep, forbidding_step
from catalog.schema.states import PATHS, Direction, State, Work, path
from planner.schema.change_kinds import KIND_OF, ChangeKind

# In place of a kind: the statement may find that there is nothing to do.
NOTHING: Final = "nothing"


@dataclass(frozen=True, slots=True)
class SimpleChange:
    """One element of one table comes, goes or changes.

    `step` has the kind, and the name of the element, empty where PostgreSQL chooses it. `schema` is empty where the
    search path decides, and `relid` 0 where it is unknown. `origin` is the state in which the element is before, if it
    passes its states one commit after another; None if one commit makes it. `reads` are the tables whose existing rows
    are checked. `or_kinds` are the kinds that the catalog may make of it instead. If it is not `is_logged`, it is in no
    schema log: no transaction depends on it.
    """

    schema: str
    table: str
    step: SchemaStep
    relid: int = 0
    origin: State | None = None
    reads: tuple[int, ...] = ()
    or_kinds: frozenset[str] = frozenset()
    is_logged: bool = True

    @property
    def kind(self) -> ChangeKind:
        """Its row in the table of kinds."""
        return KIND_OF[self.step.rule.kind]

    @property
    def subject(self) -> str:
        """The element's name, as it was before the change."""
        return self.step.subject

    @property
    def states(self) -> tuple[State, ...]:
        """The states that the element passes, the first one included; none if it stays as an element."""
        kind = self.kind
        if self.origin is not None and kind.element is not None:
            return path(kind.element, self.origin)
        return () if kind.direction is None else PATHS[Work.SCHEMA_ONLY, kind.direction]

    @property
    def is_stepwise(self) -> bool:
        """Whether others see it in states between, one commit each."""
        return self.origin is not None

    @property
    def is_forward_compatible(self) -> bool:
        """Whether a transaction that used the table before may commit after it, if one commit makes it."""
        return not self.is_logged or forbidding_step([self.step]) is None

    @property
    def removes(self) -> bool:
        """Whether the element goes."""
        return self.kind.direction is Direction.REMOVING


@dataclass(frozen=True, slots=True)
class CompoundChange:
    """All that one statement changes, in order.

    `unparsed` are clauses of which only PostgreSQL's trial tells what they change. `notices` are PostgreSQL's.
    """

    changes: tuple[SimpleChange, ...]
    unparsed: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def is_stepwise(self) -> bool:
        """Whether it is committed step by step, in place of at once."""
        return any(each.is_stepwise for each in self.changes)
