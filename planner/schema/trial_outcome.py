"""The outcome of a trial of a schema change in the shadows, as a compound change. Pure.

PostgreSQL has executed the statement in a savepoint. The catalog compares the tables before and after, and says which
elements pass states, and which rows must be checked (catalog/sql/explain.sql).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from catalog.schema.changing_elements import ChangingElement, element_from_json, passing_elements
from catalog.schema.compatibility import SchemaStep
from catalog.schema.states import Element, State
from planner.schema.change_kinds import Part
from planner.schema.simple_change import CompoundChange, SimpleChange

_ADD_INDEX: Final = "add index"
# The table; whether it is a column, in place of a constraint or an index; and its name.
_Of: TypeAlias = tuple[int, bool, str]


@dataclass(frozen=True, slots=True)
class ShadowIndex:
    """An index of a table; one that a constraint `owned` comes and goes with the constraint."""

    oid: int
    relid: int
    schema: str
    table: str
    name: str
    owned: bool


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What a trial found.

    `steps` are those of the schema log. `elements` are new, and need work over existing rows. `looked` has, by what it
    is of, the tables whose rows are checked. `rewritten` are tables with columns that are written anew.
    """

    steps: tuple[SimpleChange, ...]
    elements: tuple[ChangingElement, ...]
    looked: Mapping[_Of, tuple[int, ...]]
    rewritten: frozenset[int]
    notices: tuple[str, ...]

    @property
    def touched(self) -> frozenset[int]:
        """The tables whose rows are read or written."""
        read = {oid for oids in self.looked.values() for oid in oids}
        return frozenset(read | self.rewritten | {each.relid for each in self.elements})


def trial_outcome(found: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], notices: Sequence[str]) -> TrialOutcome:
    """Read what `pg_sluice.explained` and `pg_sluice.explained_steps` returned."""
    changes = tuple(
        SimpleChange(
            each["schema"],
            each["table"],
            SchemaStep(0, each["kind"], each["subject"], each["detail"]),
            each["relid"],
        )
        for each in steps
    )
    elements = tuple(element_from_json(each) for each in found["elements"])
    looked = {
        of: tuple(oid for oid in (each["relid"], each["parent_relid"]) if oid)
        for each in found["obligations"]
        for of in _of_obligation(each)
    }
    rewritten = frozenset(each["relid"] for each in found["columns"])
    return TrialOutcome(changes, elements, looked, rewritten, tuple(notices))


def _of_obligation(obligation: Mapping[str, Any]) -> list[_Of]:
    """What the obligation is of: a new NOT NULL is of its column, too."""
    found = [(obligation["relid"], False, obligation["name"])]
    return [*found, (obligation["relid"], True, obligation["columns"][0])] if obligation["kind"] == "n" else found


def _of_element(element: ChangingElement) -> _Of:
    """What the step is of that adds the element: for a new NOT NULL, its column."""
    if element.of_column is not None and element.origin is State.ABSENT:
        return element.relid, True, element.of_column
    return element.relid, False, element.name


def _of_change(change: SimpleChange) -> _Of:
    return change.relid, change.kind.part is Part.COLUMN, change.subject


def compound_change(
    outcome: TrialOutcome, before: Sequence[ShadowIndex], after: Sequence[ShadowIndex], *, alone: bool
) -> CompoundChange:
    """Return the compound change that a trial made of a statement; `alone`: it is outside of a block.

    `before` and `after` are the indexes of the changed tables: those that are no constraints are in no step.
    """
    gone, made = _dropped_and_made(before, after)
    in_log = {(each.relid, each.subject) for each in outcome.steps if each.step.kind == _ADD_INDEX}
    passed = passing_elements(outcome.elements, {each.name for each in before})
    left = {_of_element(each): each for each in passed}
    changes = []
    for each in (*gone, *outcome.steps, *(each for each in made if (each.relid, each.subject) not in in_log)):
        passing = left.pop(_of_change(each), None)
        reads = () if each.removes else outcome.looked.get(_of_change(each), ())
        if not each.is_logged and passing is not None:
            reads = (each.relid,)
        if passing is None or not alone:
            changes.append(replace(each, reads=reads))
            continue
        is_key = passing.kind is Element.INDEX  # in the schema log, a key that comes at once is a constraint
        step = SchemaStep(0, _ADD_INDEX, each.subject) if is_key else each.step
        changes.append(replace(each, step=step, origin=passing.origin, reads=reads))
    return CompoundChange(tuple(changes), notices=outcome.notices)


def _dropped_and_made(
    before: Sequence[ShadowIndex], after: Sequence[ShadowIndex]
) -> tuple[list[SimpleChange], list[SimpleChange]]:
    """Return the indexes that a change removes, and those that it adds.

    One of the same name was created anew; one of the same OID was renamed, or became a constraint.
    """
    old, new = ({each.oid for each in some} | {(each.relid, each.name) for each in some} for some in (before, after))
    gone = [each for each in before if not {each.oid, (each.relid, each.name)} & new and not each.owned]
    made = [each for each in after if not {each.oid, (each.relid, each.name)} & old and not each.owned]
    return [_of_index("drop index", each) for each in gone], [_of_index(_ADD_INDEX, each) for each in made]


def _of_index(kind: str, index: ShadowIndex) -> SimpleChange:
    step = SchemaStep(0, kind, index.name)
    return SimpleChange(index.schema, index.table, step, index.relid, is_logged=False)
