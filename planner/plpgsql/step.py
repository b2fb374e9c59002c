"""The text of a step: a DO block that executes a part of a body, with the variables around it.

The block declares the variables of all blocks around the part, gives them their values, executes the part, and opens
cursors over the new values. The part stands on its own lines, so that errors name them. Whatever PostgreSQL does with
names, types and errors in the body, it does in the step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from planner.plpgsql.nodes import Block, Body, Diagnosing, Kind, Leaving, Span, Statement, Variable
from planner.plpgsql.opening import CODES, Opened, about_caught, outward
from planner.plpgsql.records import field_types, fields
from planner.syntax.lexer import quoted

# How many values a record has in the row of values.
OF_RECORD: Final = 3
# What GET STACKED DIAGNOSTICS tells of a caught error, and the field of the protocol that it comes from.
CAUGHT: Final[Mapping[str, str]] = {
    "returned_sqlstate": "C",
    "message_text": "M",
    "pg_exception_detail": "D",
    "pg_exception_hint": "H",
    "pg_exception_context": "W",
    "schema_name": "s",
    "table_name": "t",
    "column_name": "c",
    "pg_datatype_name": "d",
    "constraint_name": "n",
}
_ANSWERS: Final = ("branch", "found", "count", "lower", "upper", "by", "slices", "rows", *CAUGHT)
FIXED: Final = len(_ANSWERS)
ROWS: Final = _ANSWERS.index("rows")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a record: its name, its type as SQL takes it, and its value as text."""

    name: str
    type: str
    text: str | None


# The values that a step has left.
Row = Sequence[str | None]
# The text of a value, or a record's columns; None for NULL, or a record that is not assigned.
Value = str | tuple[Column, ...] | None


@dataclass(slots=True)
class Scope:
    """The variables of a block, and their values by name. It is `fresh` until a step has declared them.

    `label` qualifies their names; `line` is that of the declarations.
    """

    label: str
    variables: list[Variable]
    line: int = 0
    fresh: bool = True
    values: dict[str, Value] = field(default_factory=dict)

    def named(self, variable: Variable) -> str:
        return f"{quoted(self.label)}.{quoted(variable.name)}"

    @property
    def size(self) -> int:
        """The characters of its values."""
        texts = (
            each if isinstance(each, str) else "".join(column.text or "" for column in each or ())
            for each in self.values.values()
        )
        return sum(map(len, texts))

    def of(self, *kinds: Kind) -> list[Variable]:
        return [each for each in self.variables if each.kind in kinds]


@dataclass(slots=True)
class Part:
    """A part of a body to execute: its text, the line on which it begins, and what it may leave by.

    `renamed` says how contexts of errors name what stands in place of other statements: by line and name. `refused` are
    the lines of endings that are refused, `changing` those of calls in loops over changed rows.
    """

    text: str
    line: int
    leaving: list[Leaving] = field(default_factory=list)
    renamed: dict[tuple[int, str], str] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    changing: set[int] = field(default_factory=set)


@dataclass(slots=True)
class State:
    """What a body has besides its variables: FOUND and ROW_COUNT, and assignments for the next step."""

    found: bool = False
    count: int = 0
    assignments: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a step's own variables, labels and cursors. `prefix` begins all of them, and no code has it."""

    prefix: str

    def __call__(self, purpose: str) -> str:
        return f"{self.prefix}_{purpose}"

    def do(self, code: str) -> str:
        """DO with this code."""
        return f"DO ${self.prefix}${code}${self.prefix}$"


def line_at(text: str, place: int) -> int:
    """The number of a line, as PL/pgSQL counts them."""
    return text.count("\n", 0, place) + 1


def text_of(value: Value) -> str | None:
    """The text of a value; None for NULL, and for a record."""
    return value if isinstance(value, str) else None


def literal(value: str | None) -> str:
    """A value as SQL takes it, whatever standard_conforming_strings is."""
    if value is None:
        return "NULL"
    return " E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def selected(columns: Iterable[Column]) -> str:
    """SELECT of these values, without INTO."""
    listed = (f"{literal(each.text)}::{each.type} AS {quoted(each.name)}" for each in columns)
    return f"SELECT {', '.join(listed)}"


def spliced(text: str, span: Span, replacements: Iterable[tuple[Span, str]]) -> str:
    """A part of the text with other texts in some places; lines keep their numbers."""
    parts, place = list[str](), span.start
    for each, new in sorted(replacements, key=lambda pair: pair[0].start):
        parts += [text[place : each.start], new, "\n" * (text.count("\n", each.start, each.end) - new.count("\n"))]
        place = each.end
    return "".join(parts) + text[place : span.end]


def part_of(
    body: Body, names: Names, statements: Sequence[Statement], opened: Opened, *, handles: bool = False
) -> Part:
    """Statements that PostgreSQL executes as they are, but for what leaves them, and endings that are forbidden.

    `handles`: they are in an opened handler, whose error RAISE and GET STACKED DIAGNOSTICS mean.
    """
    if not statements:
        return Part("", 0)
    span = Span(statements[0].start, statements[-1].end)
    caught = list(about_caught(statements)) if handles else []
    leaving = [*outward(statements), *(each for each in caught if isinstance(each, Leaving))]
    replacements: list[tuple[Span, str]] = [
        (each, leave(body, names, each, -number)) for number, each in enumerate(leaving, 1)
    ]
    replacements += [(each, _told(body, names, each)) for each in caught if isinstance(each, Diagnosing)]
    refused = [(each, why) for each, why in opened.forbidden if span.start <= each.start < span.end]
    replacements += [(each, _refused(why)) for each, why in refused]
    lines = {line_at(body.text, each.start): "COMMIT" if each.commits else "ROLLBACK" for each, _ in refused}
    text = spliced(body.text, span, replacements)
    calls = {line_at(body.text, each.start) for each in opened.calls_within_changes}
    return Part(text, line_at(body.text, span.start), leaving, refused=lines, changing=calls)


def _refused(why: str) -> str:
    return f"RAISE EXCEPTION USING ERRCODE = '{CODES[why]}', MESSAGE = {literal(why)};"


def leave(body: Body, names: Names, leaving: Leaving, number: int) -> str:
    """What stands in place of EXIT, CONTINUE or RETURN."""
    jump = f"{names('branch')} := {number}; EXIT {names('step')};"
    if leaving.condition is None:
        return jump
    return f"IF {leaving.condition.of(body.text)} THEN {jump} END IF;"


def _told(body: Body, names: Names, diagnosing: Diagnosing) -> str:
    """What stands in place of GET STACKED DIAGNOSTICS."""
    given = ((target.of(body.text), names(f"caught_{item}")) for target, item in diagnosing.items)
    return " ".join(f"{target} := {value};" for target, value in given)


def slicing(names: Names, target: str) -> str:
    """What stands in place of a FOREACH loop's statements: a note of the slice."""
    text = f"coalesce(pg_catalog.to_json(pg_catalog.format('%s', {target}))::pg_catalog.text, 'null')"
    return f" {names('slices')} := pg_catalog.concat_ws(',', {names('slices')}, {text});"


def catch(names: Names, number: int) -> str:
    """What stands in place of a handler's statements: a note of its number, and what there is to tell."""
    told = ", ".join(f"{names(each)} = {each.upper()}" for each in CAUGHT)
    return f" {names('branch')} := {number}; GET STACKED DIAGNOSTICS {told};"


def caught_scope(names: Names, label: str, caught: Mapping[str, str | None]) -> Scope:
    """What a handler's statements know of the error that it has caught."""
    values: dict[str, Value] = {names(f"caught_{name}"): text for name, text in caught.items()}
    values |= {"sqlstate": caught["returned_sqlstate"], "sqlerrm": caught["message_text"]}
    return Scope(
        label, [Variable(name, Kind.VALUE, f"{name} pg_catalog.text") for name in values], fresh=False, values=values
    )


def scope_of(body: Body, block: Block, label: str) -> Scope:
    """The variables of a block."""
    return Scope(label, block.variables, line_at(body.text, block.start))


def step_text(body: Body, names: Names, scopes: Sequence[Scope], state: State, part: Part) -> str:
    """The code of the step, for DO. `scopes` are those around the part, from the outermost one."""
    lines = _Lines(body.options)
    own = [
        f"{names('branch')} pg_catalog.int4 := 0; {names('found')} pg_catalog.bool; {names('count')} pg_catalog.int8;",
        *(f"{names(each)} pg_catalog.int4;" for each in ("lower", "upper", "by")),
        *(f"{names(each)} pg_catalog.text;" for each in ("slices", *CAUGHT)),
        *(f"{names(each)} pg_catalog.refcursor := '{names(each)}';" for each in ("rows", "values")),
    ]
    for number, scope in enumerate(scopes):
        lines.add(f"<<{quoted(scope.label)}>> DECLARE {' '.join(own) if not number else ''}")
        _declare(lines, scope)
        lines.add(" BEGIN ")
        lines.add("" if scope.fresh else " ".join(_restored(scope)))
    if "row_count" in part.text.lower():
        lines.add(f" PERFORM FROM pg_catalog.generate_series(1, {state.count});")
    lines.add(f" {' '.join(state.assignments)} FOUND := {'true' if state.found else 'false'};")
    lines.add(f" <<{names('step')}>> BEGIN ")
    if part.text:
        lines.go(part.line)
        lines.add(part.text)
    lines.add(f" END; {names('found')} := FOUND; GET DIAGNOSTICS {names('count')} = ROW_COUNT;")
    listed = [
        *(names(each) for each in _ANSWERS),
        *(_record(scope.named(each)) for scope, each in records_of(scopes)),
        *(scope.named(each) for scope, each in values_of(scopes)),
    ]
    lines.add(f" OPEN {names('values')} NO SCROLL FOR SELECT {', '.join(listed)};")
    lines.add(" END;" * len(scopes))
    return lines.text


def _record(name: str) -> str:
    """A record's text, its binary form, which has the types of its fields, and their names."""
    names = f"ARRAY(SELECT pg_catalog.json_object_keys(pg_catalog.row_to_json({name})))"
    return f"{name}, pg_catalog.encode(pg_catalog.record_send({name}), 'hex'), pg_catalog.array_to_json({names})"


def records_of(scopes: Iterable[Scope]) -> list[tuple[Scope, Variable]]:
    """The variables that are records."""
    return [(scope, each) for scope in scopes for each in scope.of(Kind.RECORD)]


def values_of(scopes: Iterable[Scope]) -> list[tuple[Scope, Variable]]:
    """The variables that have one value."""
    return [(scope, each) for scope in scopes for each in scope.of(Kind.VALUE, Kind.CURSOR)]


def field_oids(scopes: Sequence[Scope], row: Row) -> set[int]:
    """The OIDs of the types of all records' fields, in the row of values that a step has left."""
    sent = [row[FIXED + OF_RECORD * number + 1] for number in range(len(records_of(scopes)))]
    return {oid for each in sent if each is not None for oid in field_types(bytes.fromhex(each))}


def take_values(scopes: Sequence[Scope], row: Row, types: Mapping[int, str]) -> None:
    """Keep the values that a step has left. `types` are the types by OID, as SQL takes them."""
    place = FIXED
    for scope, variable in records_of(scopes):
        text, sent, names = row[place : place + OF_RECORD]
        place += OF_RECORD
        scope.values[variable.name] = text and _columns(text, sent or "", names or "[]", types)
    for scope, variable in values_of(scopes):
        scope.values[variable.name] = row[place]
        place += 1
    for scope in scopes:
        scope.fresh = False


def _columns(text: str, sent: str, names: str, types: Mapping[int, str]) -> tuple[Column, ...]:
    oids = field_types(bytes.fromhex(sent))
    found = zip(json.loads(names), oids, fields(text) if oids else (), strict=True)
    return tuple(Column(name, types[oid], value) for name, oid, value in found)


def _declare(lines: _Lines, scope: Scope) -> None:
    if scope.fresh and scope.line:
        lines.go(scope.line)
    for each in scope.variables:
        given = each.given if scope.fresh else ""
        if not scope.fresh and each.is_fixed:
            value = scope.values.get(each.name)
            given = f":={literal(text_of(value))}"
        lines.add(f"{each.declared} {given};")


def _restored(scope: Scope) -> Iterable[str]:
    for each in scope.variables:
        value = scope.values.get(each.name)
        if isinstance(value, tuple):
            yield f"{selected(value)} INTO {scope.named(each)};"
        elif value is not None and not each.is_fixed:
            yield f"{scope.named(each)} :={literal(value)};"


class _Lines:
    """A text that grows, with its number of lines."""

    def __init__(self, text: str) -> None:
        self._parts = [text]
        self._line = text.count("\n") + 1

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def add(self, text: str) -> None:
        self._parts.append(text)
        self._line += text.count("\n")

    def go(self, line: int) -> None:
        """Begin the line of that number, unless it has passed."""
        self.add("\n" * max(0, line - self._line))
