"""The kinds of simple changes: the part of a table that each is about, its direction, and whether it passes states.

One table, checked when it is imported. The kinds are those of `catalog.schema.compatibility`, without the steps that an
element takes on its way (`catalog.schema.states`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from catalog.schema.compatibility import RULES
from catalog.schema.states import STEPS, Direction, Element


class Part(StrEnum):
    """What a simple change is about."""

    TABLE = "table"
    COLUMN = "column"
    CONSTRAINT = "constraint"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """A kind of change. `direction` is None if it alters what is there, and what it alters stays.

    `element` is set if it passes states that others see, where it is carried out step by step. `writes`: existing rows
    are written anew.
    """

    kind: str
    part: Part
    direction: Direction | None = None
    element: Element | None = None
    writes: bool = False


_ADDING, _REMOVING = Direction.ADDING, Direction.REMOVING

CHANGE_KINDS: Final = (
    ChangeKind("create table", Part.TABLE, _ADDING),
    ChangeKind("drop table", Part.TABLE, _REMOVING),
    ChangeKind("rename table", Part.TABLE),
    ChangeKind("move table", Part.TABLE),
    ChangeKind("change policies", Part.TABLE),
    ChangeKind("change triggers", Part.TABLE),
    ChangeKind("replace view", Part.TABLE),
    ChangeKind("add column", Part.COLUMN, _ADDING),
    ChangeKind("add required column", Part.COLUMN, _ADDING),
    ChangeKind("add computed column", Part.COLUMN, _ADDING, writes=True),
    ChangeKind("rewrite column", Part.COLUMN, writes=True),
    ChangeKind("drop column", Part.COLUMN, _REMOVING),
    ChangeKind("rename column", Part.COLUMN),
    ChangeKind("drop not null", Part.COLUMN),
    ChangeKind("set not null", Part.COLUMN, element=Element.CONSTRAINT),
    ChangeKind("set default", Part.COLUMN),
    ChangeKind("change default", Part.COLUMN),
    ChangeKind("drop default", Part.COLUMN),
    ChangeKind("widen type", Part.COLUMN),
    ChangeKind("add label", Part.COLUMN),
    ChangeKind("change type", Part.COLUMN),
    ChangeKind("add constraint", Part.CONSTRAINT, _ADDING, Element.CONSTRAINT),
    ChangeKind("check constraint", Part.CONSTRAINT, _ADDING),
    ChangeKind("publish constraint", Part.CONSTRAINT, element=Element.CONSTRAINT),
    ChangeKind("rename constraint", Part.CONSTRAINT),
    ChangeKind("drop constraint", Part.CONSTRAINT, _REMOVING),
    ChangeKind("add index", Part.INDEX, _ADDING, Element.INDEX),
    ChangeKind("drop index", Part.INDEX, _REMOVING),
)
KIND_OF: Final[Mapping[str, ChangeKind]] = {each.kind: each for each in CHANGE_KINDS}

# What else may come along with a change of a kind: on the table itself, or on those that depend on it.
CONSEQUENCES: Final[Mapping[str, frozenset[str]]] = {
    "drop table": frozenset({"drop table", "drop constraint", "drop column", "drop default", "drop index"}),
    "drop column": frozenset({"drop table", "drop constraint", "drop column", "drop index", "change policies"}),
    "drop constraint": frozenset({"drop constraint", "drop index", "drop not null"}),
    "drop index": frozenset({"drop constraint"}),
    "change type": frozenset(
        {"drop constraint", "check constraint", "add constraint", "change default", "rewrite column", "add index"}
    ),
    "add index": frozenset({"set not null", "add constraint", "publish constraint"}),
}


def _check() -> None:
    """Check that the tables are complete and agree."""
    passed = {step.kind for step in STEPS} - set(KIND_OF)
    assert len(KIND_OF) == len(CHANGE_KINDS), "a kind is listed twice"
    assert set(KIND_OF) | passed == set(RULES), "a kind of change is missing, or unknown"
    for kind, others in CONSEQUENCES.items():
        assert {kind, *others} <= set(KIND_OF), f"the consequences of {kind} name an unknown kind"


_check()
