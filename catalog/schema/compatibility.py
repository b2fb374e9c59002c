"""Forward compatibility: the schema changes that a transaction may straddle, as a table with its judgement.

Pure. A transaction that used a table in one version of its schema may commit under a later version only if each step
between is forward-compatible. Then its rows may exist under the new schema and lose nothing there, and no reader can
tell that they were written under the old one. Steps are recorded as they are published (catalog/sql/enlistment.sql).

Source: IEP-110, "Schema compatibility" and "Basic schema changes"; for constraints and indexes, which pass states,
"Online, Asynchronous Schema Change in F1": two neighbouring states may be in use at once, more may not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from catalog.datatypes import (
    BOOL,
    BPCHAR,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    numeric_precision_scale,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of change, and whether a transaction may straddle it.

    `unless_after` names kinds: if the same element went through one of them before, during the same transaction, it was
    more than one state away. `phrase` says what happened to the `{subject}`. The effect of an `unseen` change does not
    show in what statements read and write: a transaction goes on beside it, and COMMIT judges.
    """

    kind: str
    forward_compatible: bool
    phrase: str
    unless_after: tuple[str, ...] = ()
    unseen: bool = False


COMPATIBILITY: Final = (
    # tables
    Rule("create table", True, 'table "{subject}" was created'),
    Rule("drop table", False, 'table "{subject}" was dropped'),
    Rule("rename table", False, 'table "{subject}" was renamed'),
    Rule("move table", False, 'table "{subject}" was moved to another schema'),
    # earlier reads and writes count as done before the change
    Rule("change policies", True, 'the row-level security of table "{subject}" was changed'),
    Rule("change triggers", True, 'the triggers of table "{subject}" were changed'),
    # views go by the rules of tables; a replaced view holds no rows that could be lost
    Rule("replace view", True, 'view "{subject}" was replaced'),
    # columns; an added one is nullable or has a default, unless it is called required
    Rule("add column", True, 'column "{subject}" was added'),
    Rule("add required column", False, 'column "{subject}" was added, which is NOT NULL and has no default'),
    Rule("add computed column", False, 'column "{subject}" was added, with values of its own for rows that were there'),
    Rule("rewrite column", False, 'column "{subject}" was written anew'),
    Rule("drop column", False, 'column "{subject}" was dropped'),
    Rule("rename column", True, 'column "{subject}" was renamed'),
    Rule("drop not null", True, 'column "{subject}" was made nullable'),
    Rule("set not null", False, 'column "{subject}" was made NOT NULL'),
    Rule("set default", False, 'column "{subject}" was given a default'),
    Rule("change default", False, 'the default of column "{subject}" was changed'),
    Rule("drop default", False, 'the default of column "{subject}" was dropped'),
    Rule("widen type", True, 'the type of column "{subject}" was widened'),
    Rule("add label", True, 'the type of column "{subject}" was given a label'),
    Rule("change type", False, 'the type of column "{subject}" was changed'),
    # constraints: at once, or in the states ABSENT → CHECK → VALIDATE → PUBLIC
    Rule("add constraint", False, 'constraint "{subject}" was added'),
    Rule("rename constraint", True, 'constraint "{subject}" was renamed'),
    Rule("drop constraint", True, 'constraint "{subject}" was dropped'),
    Rule("check constraint", True, 'constraint "{subject}" began to be checked', unseen=True),
    Rule(
        "validate constraint", True, 'constraint "{subject}" began to be validated', ("check constraint",), unseen=True
    ),
    Rule("publish constraint", True, 'constraint "{subject}" was validated', ("check constraint",), unseen=True),
    Rule("suspend constraint", True, 'constraint "{subject}" is about to be dropped', unseen=True),
    # indexes: UNIQUE ones at once, or all: ABSENT → DELETE → WRITE → REORG → PUBLIC, and back PUBLIC → WRITE → DELETE
    # → ABSENT
    Rule("add index", False, 'index "{subject}" was made'),
    Rule("index deletes", True, 'deletes began to be written to index "{subject}"', unseen=True),
    Rule("index writes", True, 'rows began to be written to index "{subject}"', ("index deletes",), unseen=True),
    Rule("fill index", True, 'index "{subject}" began to be filled', ("index deletes", "index writes"), unseen=True),
    Rule("publish index", True, 'index "{subject}" was made', ("index deletes", "index writes"), unseen=True),
    Rule("index unread", True, 'index "{subject}" is about to be dropped', unseen=True),
    Rule("index unwritten", True, 'index "{subject}" is about to be dropped', ("index unread",), unseen=True),
    Rule("drop index", True, 'index "{subject}" was dropped', ("index unread", "index unwritten"), unseen=True),
)

RULES: Final[Mapping[str, Rule]] = {rule.kind: rule for rule in COMPATIBILITY}

# Types all of whose values another type holds too.
WIDER_TYPES: Final[Mapping[int, frozenset[int]]] = {
    INT2: frozenset({INT4, INT8}),
    INT4: frozenset({INT8}),
    FLOAT4: frozenset({FLOAT8}),
}

# The length of a type's longest value as text, under any settings of the session.
TEXT_LENGTHS: Final[Mapping[int, int]] = {BOOL: 5, INT2: 6, INT4: 11, INT8: 20, FLOAT4: 15, FLOAT8: 24, UUID: 36}

# The excess of a typmod over the length or precision that it declares; a typmod below 0 declares the maximum.
_TYPMOD_HEADERS: Final[Mapping[int, int]] = {VARCHAR: 4, BPCHAR: 4, TIME: 0, TIMESTAMP: 0, TIMESTAMPTZ: 0}
# A longer char(n) pads every value anew, so it does not widen.
_LENGTHENED: Final = frozenset({VARCHAR, TIME, TIMESTAMP, TIMESTAMPTZ})

assert len(RULES) == len(COMPATIBILITY), "a kind of change is listed twice"
assert all(after in RULES for rule in COMPATIBILITY for after in rule.unless_after), "a rule names an unknown kind"
assert all("{subject}" in rule.phrase for rule in COMPATIBILITY), "a phrase does not say what it is about"


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """One published step of one table. `detail` of a type change: `from` and `to`, each (type OID, typmod).

    Of a step that is planned from a statement's text alone, the types are unknown: there is no detail.
    """

    step_id: int
    kind: str
    subject: str
    detail: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def rule(self) -> Rule:
        """The row of the table that applies to the step."""
        if self.kind == "change type" and self.detail and widens(tuple(self.detail["from"]), tuple(self.detail["to"])):
            return RULES["widen type"]
        return RULES[self.kind]

    @property
    def description(self) -> str:
        """What happened, in a clause."""
        return self.rule.phrase.format(subject=self.subject)


def forbidding_step(steps: Sequence[SchemaStep]) -> SchemaStep | None:
    """Return the first step over which a transaction from before all of them may not commit; None if there is none."""
    seen: set[tuple[str, str]] = set()
    for step in steps:
        rule = step.rule
        if not rule.forward_compatible or any((kind, step.subject) in seen for kind in rule.unless_after):
            return step
        seen.add((step.kind, step.subject))
    return None


def widens(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Whether every value of one type is exactly one of another; types are (OID, typmod)."""
    (old_type, old_typmod), (new_type, new_typmod) = old, new
    if new_type == TEXT or (new_type == VARCHAR and new_typmod < 0):
        return old_type in TEXT_LENGTHS or old_type in {TEXT, VARCHAR, BPCHAR, NUMERIC}
    if new_type == VARCHAR:
        longest = _text_length(old_type, old_typmod)
        return longest is not None and longest <= new_typmod - _TYPMOD_HEADERS[VARCHAR]
    if old_type == new_type == NUMERIC:
        return _numeric_widens(old_typmod, new_typmod)
    if old_type == new_type and new_type in _LENGTHENED:
        return new_typmod < 0 or 0 <= old_typmod <= new_typmod
    return new_type in WIDER_TYPES.get(old_type, frozenset())


def _text_length(type_oid: int, typmod: int) -> int | None:
    """Return the length of the longest value as text; None if it has no bound."""
    if type_oid in {VARCHAR, BPCHAR} and typmod >= 0:
        return typmod - _TYPMOD_HEADERS[type_oid]
    if type_oid == NUMERIC:
        declared = numeric_precision_scale(typmod)
        if declared is None:
            return None
        precision, scale = declared
        # A sign, a zero before the point, the point; NaN is shorter than "-0.1", but not than "-1".
        return max(3, 1 + max(precision - min(scale, 0), scale + 1) + (scale > 0))
    return TEXT_LENGTHS.get(type_oid)


def _numeric_widens(old_typmod: int, new_typmod: int) -> bool:
    """Whether no digits before the point and no places after it are lost, and no value shows other places."""
    old, new = numeric_precision_scale(old_typmod), numeric_precision_scale(new_typmod)
    if new is None or old is None:
        return new is None
    return new[1] >= old[1] and new[0] - new[1] >= old[0] - old[1]
