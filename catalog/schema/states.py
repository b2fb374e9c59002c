"""The states of a schema element while it is added or removed: one table, checked at import.

Pure. A schema change is a sequence of simple changes, each of one element. Each element goes from state to state, and
every step is a commit of its own, so that at most two neighbouring states are in use at any moment. The rights of
readers and writers in a state are such that operations in neighbouring states do each other no harm:

- what one of them stores, the other removes when the row goes (no orphan data);
- what one of them relies on, the other keeps (no anomaly of integrity).

A failing change goes back through the states that it has passed.

Source: "Online, Asynchronous Schema Change in F1"; YugabyteDB, "Online schema migrations", Definitions 1 to 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from catalog.schema.compatibility import RULES, forbidding_step
from catalog.schema.compatibility import SchemaStep as CompatibleStep


class State(StrEnum):
    """How far an element is."""

    ABSENT = "absent"
    CREATED = "created"
    CHECK = "check"
    VALIDATE = "validate"
    DELETE = "delete"
    WRITE = "write"
    REORG = "reorg"
    PUBLIC = "public"


class Work(StrEnum):
    """The work that existing rows need."""

    SCHEMA_ONLY = "schema only"
    VALIDATION = "data validation"
    REORGANISATION = "data reorganisation"


class Direction(StrEnum):
    """Whether the element is added or removed."""

    ADDING = "adding"
    REMOVING = "removing"


@dataclass(frozen=True, slots=True)
class Rule:
    """The rights of operations on an element in a state.

    Readers `rely` on it. Writers `keep` it (check new rows, supply its data), and `remove` its data with deleted rows.
    `works`: meanwhile, existing rows are processed.
    """

    state: State
    rely: bool
    keep: bool
    remove: bool
    works: bool = False


STATES: Final = (
    Rule(State.ABSENT, rely=False, keep=False, remove=False),
    Rule(State.CREATED, rely=False, keep=False, remove=False),
    Rule(State.CHECK, rely=False, keep=True, remove=True),
    Rule(State.VALIDATE, rely=False, keep=True, remove=True, works=True),
    Rule(State.DELETE, rely=False, keep=False, remove=True),
    Rule(State.WRITE, rely=False, keep=True, remove=True),
    Rule(State.REORG, rely=False, keep=True, remove=True, works=True),
    Rule(State.PUBLIC, rely=True, keep=True, remove=True),
)
RULE_OF: Final[Mapping[State, Rule]] = {rule.state: rule for rule in STATES}

PATHS: Final[Mapping[tuple[Work, Direction], tuple[State, ...]]] = {
    (Work.SCHEMA_ONLY, Direction.ADDING): (State.ABSENT, State.CREATED, State.PUBLIC),
    (Work.SCHEMA_ONLY, Direction.REMOVING): (State.PUBLIC, State.CREATED, State.ABSENT),
    (Work.VALIDATION, Direction.ADDING): (State.ABSENT, State.CHECK, State.VALIDATE, State.PUBLIC),
    (Work.VALIDATION, Direction.REMOVING): (State.PUBLIC, State.CHECK, State.ABSENT),
    (Work.REORGANISATION, Direction.ADDING): (State.ABSENT, State.DELETE, State.WRITE, State.REORG, State.PUBLIC),
    (Work.REORGANISATION, Direction.REMOVING): (State.PUBLIC, State.WRITE, State.DELETE, State.ABSENT),
}


class Element(StrEnum):
    """Elements with states that others see. Tables, columns and views come and go in one commit, CREATED within it."""

    CONSTRAINT = "constraint"  # CHECK, NOT NULL, FOREIGN KEY
    INDEX = "index"  # of UNIQUE and PRIMARY KEY too


WORK_OF: Final[Mapping[Element, Work]] = {
    Element.CONSTRAINT: Work.VALIDATION,
    Element.INDEX: Work.REORGANISATION,
}


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an element to a neighbouring state.

    `kind` is the change that transactions see (compatibility.py). `statement` makes the shadow show it, as the owner,
    over {table}, {schema}, {name} and {definition} (quoted). `ready`: whether writers keep the index from then on; None
    if that does not change.
    """

    element: Element
    before: State
    after: State
    kind: str
    statement: str = ""
    ready: bool | None = None


_ADD: Final = "ALTER TABLE {table} ADD {definition} NOT VALID"
_DROP: Final = "ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}"
_DROP_INDEX: Final = "DROP INDEX IF EXISTS {schema}.{name}"

# The last step to PUBLIC is the client's own statement, whose commit makes everything appear at once.
STEPS: Final = (
    Step(Element.CONSTRAINT, State.ABSENT, State.CHECK, "check constraint", _ADD),
    Step(Element.CONSTRAINT, State.CHECK, State.VALIDATE, "validate constraint"),
    Step(Element.CONSTRAINT, State.VALIDATE, State.PUBLIC, "publish constraint"),
    Step(Element.CONSTRAINT, State.VALIDATE, State.CHECK, "suspend constraint"),
    Step(Element.CONSTRAINT, State.PUBLIC, State.CHECK, "suspend constraint"),
    Step(Element.CONSTRAINT, State.CHECK, State.ABSENT, "drop constraint", _DROP),
    Step(Element.INDEX, State.ABSENT, State.DELETE, "index deletes", "{definition}", ready=False),
    Step(Element.INDEX, State.DELETE, State.WRITE, "index writes", ready=True),
    Step(Element.INDEX, State.WRITE, State.REORG, "fill index"),
    Step(Element.INDEX, State.REORG, State.PUBLIC, "publish index"),
    Step(Element.INDEX, State.REORG, State.WRITE, "index unread"),
    Step(Element.INDEX, State.PUBLIC, State.WRITE, "index unread"),
    Step(Element.INDEX, State.WRITE, State.DELETE, "index unwritten", ready=False),
    Step(Element.INDEX, State.DELETE, State.ABSENT, "drop index", _DROP_INDEX),
)
_STEP_OF: Final[Mapping[tuple[Element, State, State], Step]] = {
    (step.element, step.before, step.after): step for step in STEPS
}


def step(element: Element, before: State, after: State) -> Step:
    """Return the row of the table; KeyError for states that are no neighbours."""
    return _STEP_OF[element, before, after]


def path(element: Element, start: State) -> tuple[State, ...]:
    """Return the states through which an element in state `start` is added, that one first."""
    states = PATHS[WORK_OF[element], Direction.ADDING]
    return states[states.index(start) :]


def undo_path(element: Element, reached: State, origin: State) -> tuple[State, ...]:
    """Return the states through which a change from `origin` that reached `reached` goes back, the latter first."""
    came = PATHS[WORK_OF[element], Direction.ADDING]
    return tuple(reversed(came[came.index(origin) : came.index(reached) + 1]))


def diagram() -> str:
    """Return the table as a Mermaid state diagram: adding downwards, and the ways back."""
    lines = ["stateDiagram-v2"]
    for work in Work:
        name = work.value.replace(" ", "_")
        lines.append(f'    state "{work.value}" as {name} {{')
        lines += [f'        state "{state.upper()}" as {name}_{state}' for state in PATHS[work, Direction.ADDING]]
        edges: dict[tuple[State, State], list[str]] = {}
        for direction in Direction:
            for edge in pairwise(PATHS[work, direction]):
                edges.setdefault(edge, []).append(direction.value)
        for before, after in pairwise(reversed(PATHS[work, Direction.ADDING][:-1])):
            edges.setdefault((before, after), []).append("undoing")
        lines += [
            f"        {name}_{before} --> {name}_{after} : {', '.join(why)}" for (before, after), why in edges.items()
        ]
        lines.append("    }")
    return "\n".join(lines)


def _check() -> None:
    """Check the table's invariants."""
    assert set(RULE_OF) == set(State), "a state has no rule"
    assert len(RULE_OF) == len(STATES), "a state has two rules"
    assert len(_STEP_OF) == len(STEPS), "a step is listed twice"
    for work in Work:
        adding, removing = PATHS[work, Direction.ADDING], PATHS[work, Direction.REMOVING]
        assert (adding[0], adding[-1]) == (State.ABSENT, State.PUBLIC), f"{work}: adding goes from ABSENT to PUBLIC"
        idle = [state for state in adding if not RULE_OF[state].works]
        assert list(removing) == idle[::-1], f"{work}: removing goes back the way that adding came, without its work"
        for before, after in pairwise(adding):
            _check_neighbours(work, RULE_OF[before], RULE_OF[after])
    for each in STEPS:
        assert each.kind in RULES, f"{each.kind} is no kind of change"
    for element, work in WORK_OF.items():
        adding = PATHS[work, Direction.ADDING]
        pairs = {*pairwise(adding), *pairwise(PATHS[work, Direction.REMOVING]), *pairwise(reversed(adding[:-1]))}
        assert {(each.before, each.after) for each in STEPS if each.element is element} == pairs, f"{element}: steps"
        kinds = [_STEP_OF[element, *pair].kind for pair in pairwise(adding)]
        for kind in kinds:
            assert _straddles([kind]), f"a transaction may straddle one step: {kind}"
        # A state that readers rely on follows states in which all writers kept the element, before existing rows were
        # processed.
        working = next(number for number, state in enumerate(adding) if RULE_OF[state].works)
        assert not _straddles(kinds[:working]), f"{element}: who does not keep it must not commit once it is validated"


def _check_neighbours(work: Work, one: Rule, other: Rule) -> None:
    for first, second in ((one, other), (other, one)):
        if work is Work.REORGANISATION:
            assert not first.keep or second.remove, f"{first.state} stores what {second.state} would leave behind"
        if work is not Work.SCHEMA_ONLY:
            assert not first.rely or second.keep, f"{first.state} relies on what {second.state} does not keep"


def _straddles(kinds: list[str]) -> bool:
    return forbidding_step([CompatibleStep(0, kind, "element") for kind in kinds]) is None


_check()
