"""A schema change as a compound change, from its text alone: sqlglot parses it. Pure.

It knows no catalog. So it assumes a table with rows, outside of a block; `or_kinds` says what the catalog may make of a
change instead. PostgreSQL's trial decides (`trial_outcome`). Statements other than ALTER and CREATE TABLE, CREATE INDEX
and DROP TABLE, and clauses that sqlglot cannot parse, are left to the trial alone. Source: PostgreSQL documentation,
"ALTER TABLE".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from catalog.schema.compatibility import SchemaStep
from catalog.schema.states import State
from planner.schema.change_kinds import KIND_OF
from planner.schema.simple_change import NOTHING, CompoundChange, SimpleChange

_DIALECT: Final = "postgres"
# sqlglot's parser lets no other thread run, and some expressions take it twice the time for each level of brackets. So
# it is given no longer texts, and no deeper levels: what stands there is in expressions, which are not looked at.
_TEXT_MAX: Final = 2**11
_DEPTH_MAX: Final = 3
# What it is given has no queries: it also takes long for joins of joins.
_BEGINNINGS: Final = re.compile(
    r"\s*(alter\s+table|create\s+(unlogged\s+)?table|create\s+(unique\s+)?index|drop\s+table)\b", re.IGNORECASE
)
# The name that a constraint without one gets here, so that sqlglot parses more forms of it.
_UNNAMED: Final = "sluice_unnamed"
_RETYPED: Final = frozenset({"widen type", "rewrite column", NOTHING})
# What a key may be besides: it comes at once with a new column, or in place of another one.
_KEYS: Final = ("add constraint",)
# What a dropped constraint may be besides.
_DROPPED: Final = {"drop constraint": ("drop not null",)}
# The state before a change of a kind, where the element is there already.
_ORIGINS: Final = {"publish constraint": State.CHECK}
# Clauses of ALTER TABLE that sqlglot does not parse, by their first words: the kind of change, and the place of the
# element's name among the words (None: the table's).
_BY_WORDS: Final[Mapping[tuple[str, ...], tuple[str, int | None]]] = {
    ("VALIDATE", "CONSTRAINT"): ("publish constraint", 2),
    ("RENAME", "CONSTRAINT"): ("rename constraint", 2),
    ("SET", "SCHEMA"): ("move table", None),
    ("ENABLE", "ROW"): ("change policies", None),
    ("DISABLE", "ROW"): ("change policies", None),
    ("FORCE", "ROW"): ("change policies", None),
    ("ENABLE", "TRIGGER"): ("change triggers", None),
    ("DISABLE", "TRIGGER"): ("change triggers", None),
}
_OPENING, _CLOSING = (
    frozenset({TokenType.L_PAREN, TokenType.L_BRACKET}),
    frozenset({TokenType.R_PAREN, TokenType.R_BRACKET}),
)
_SERIALS: Final = frozenset({exp.DataType.Type.SERIAL, exp.DataType.Type.BIGSERIAL, exp.DataType.Type.SMALLSERIAL})


def parsed_change(statement: str) -> CompoundChange:
    """Return what a statement that PostgreSQL accepts changes in tables, as far as its text tells."""
    try:
        shallow = _shallow(statement) if len(statement) <= _TEXT_MAX and _BEGINNINGS.match(statement) else None
    except SqlglotError:
        shallow = None
    return CompoundChange((), (statement,)) if shallow is None else _of_shallow(shallow)


def _shallow(statement: str) -> str:
    """Return the statement with a constant in place of what is in square brackets, or in too many others."""
    kept, depth, start, left_at = list[str](), 0, 0, None
    for token in sqlglot.tokenize(statement, dialect=_DIALECT):
        if token.token_type in _OPENING:
            depth += 1
            if left_at is None and (depth == _DEPTH_MAX or token.token_type is TokenType.L_BRACKET):
                kept.append(statement[start : token.end + 1])
                left_at = depth
        elif token.token_type in _CLOSING:
            if depth == left_at:
                kept.append("1")
                start, left_at = token.start, None
            depth -= 1
    return "".join([*kept, statement[start:]])


def _of_shallow(statement: str) -> CompoundChange:
    tree = _parsed(statement)
    match tree:
        case exp.Alter() if len(tree.args["actions"]) == 1:
            return _compound(_of_actions(tree))
        case exp.Create():
            return _compound(_of_create(tree))
        case exp.Drop():
            return _compound(_of_drop(tree))
    return _by_clauses(statement)


def _compound(changes: Iterable[SimpleChange | str]) -> CompoundChange:
    found = list(changes)
    return CompoundChange(
        tuple(each for each in found if isinstance(each, SimpleChange)),
        tuple(each for each in found if isinstance(each, str)),
    )


def _parsed(statement: str) -> exp.Expr | None:
    """Return sqlglot's tree; None for what it refuses, or nests too deeply for it."""
    try:
        tree = sqlglot.parse_one(statement, dialect=_DIALECT)
    except (SqlglotError, RecursionError):
        return None
    return None if isinstance(tree, exp.Command) else tree


def _by_clauses(statement: str) -> CompoundChange:
    """Return the changes of an ALTER TABLE whose clauses sqlglot parses one by one, or some of them."""
    items = sqlglot.tokenize(statement, dialect=_DIALECT)
    start = _head(items)
    if start is None:
        return CompoundChange((), (statement,))
    head = statement[: items[start].start]
    some = _parsed(f"{head}DROP COLUMN {_UNNAMED}")
    if some is None:
        return CompoundChange((), (statement,))
    table = _Table(some.this, may_lack=bool(some.args.get("exists")))
    changes: list[SimpleChange | str] = []
    for clause in _clauses(items[start:]):
        text = statement[clause[0].start : clause[-1].end + 1]
        tree = _parsed(head + _named(statement, clause))
        if isinstance(tree, exp.Alter):
            changes += _of_actions(tree)
        else:
            changes.append(table.by_words(clause) or text)
    return _compound(changes)


def _head(items: Sequence[Token]) -> int | None:
    """Return the place of the first clause of an ALTER TABLE; None for another statement."""
    words = [item.text.upper() for item in items]
    if words[:2] != ["ALTER", "TABLE"]:
        return None
    place = 4 if words[2:4] == ["IF", "EXISTS"] else 2
    place += words[place : place + 1] == ["ONLY"]
    while words[place + 1 : place + 2] == ["."]:
        place += 2
    return place + 1 if place + 1 < len(items) else None


def _clauses(items: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the clauses between commas."""
    depth, start = 0, 0
    for place, item in enumerate(items):
        depth += (item.token_type in _OPENING) - (item.token_type in _CLOSING)
        if item.token_type is TokenType.COMMA and depth == 0:
            yield items[start:place]
            start = place + 1
    if start < len(items):
        yield items[start:]


def _named(statement: str, clause: Sequence[Token]) -> str:
    """Return a clause; `ADD CHECK …` as `ADD CONSTRAINT name CHECK …`, which sqlglot parses."""
    words = [token.text.upper() for token in clause[:2]]
    start = clause[0].start
    if words in (["ADD", "CHECK"], ["ADD", "EXCLUDE"]):
        start = clause[1].start
        return f"ADD CONSTRAINT {_UNNAMED} {statement[start : clause[-1].end + 1]}"
    return statement[start : clause[-1].end + 1]


def _of_actions(tree: exp.Alter) -> Iterator[SimpleChange | str]:
    """Yield the changes of an ALTER TABLE's clauses."""
    table = _Table(tree.this, may_lack=bool(tree.args.get("exists")))
    for action in tree.args.get("actions") or ():
        match action:
            case exp.ColumnDef():
                yield from table.added(action)
            case exp.Drop(kind="COLUMN" | "CONSTRAINT" as kind):
                dropped = f"drop {kind.lower()}"
                others = _DROPPED.get(dropped, ())
                yield table.change(dropped, action.args["tables"][0], *others, optional=bool(action.args["exists"]))
            case exp.RenameColumn():
                yield table.change("rename column", action.this, optional=bool(action.args["exists"]))
            case exp.AlterRename():
                target = tree.args.get("options")  # RENAME column TO name
                yield table.change("rename column", action.this) if target else table.change("rename table", tree.this)
            case exp.AlterColumn():
                yield table.altered(action)
            case exp.AddConstraint():
                for constraint in action.expressions:
                    yield table.constrained(constraint, is_valid=not tree.args.get("not_valid"))
            case exp.AlterSet():
                pass
            case _:
                yield action.sql(_DIALECT)


class _Table:
    """Makes changes of one table, as the statement names it."""

    def __init__(self, table: exp.Expr, *, may_lack: bool = False) -> None:
        self._schema, self._name = _text(table.args.get("db")), _text(table.this)
        self._may_lack = may_lack

    def change(self, kind: str, subject: exp.Expr | str, *others: str, optional: bool = False) -> SimpleChange:
        """Return a change of an element; it may find nothing to do if it is `optional`."""
        name = subject if isinstance(subject, str) else _text(subject.this)
        origin = None if KIND_OF[kind].element is None else _ORIGINS.get(kind, State.ABSENT)
        or_kinds = frozenset(others) | ({NOTHING} if optional or self._may_lack else set())
        return SimpleChange(self._schema, self._name, SchemaStep(0, kind, name), origin=origin, or_kinds=or_kinds)

    def added(self, column: exp.ColumnDef) -> Iterator[SimpleChange | str]:
        """Yield a new column and its constraints."""
        optional = bool(column.args.get("exists"))
        kinds = [each.kind for each in column.constraints]
        required = any(
            isinstance(each, exp.PrimaryKeyColumnConstraint)
            or (isinstance(each, exp.NotNullColumnConstraint) and not each.args.get("allow_null"))
            for each in kinds
        )
        default = next((each.this for each in kinds if isinstance(each, exp.DefaultColumnConstraint)), None)
        kind, others = ("add required column" if required else "add column"), []
        if default is not None:
            kind = "add column"
        if default is not None or required:
            others = ["add computed column"]  # of a volatile default, or where other columns are written anew
        computed = (exp.ComputedColumnConstraint, exp.GeneratedAsIdentityColumnConstraint)
        if any(isinstance(each, computed) for each in kinds) or (column.kind and column.kind.this in _SERIALS):
            kind, others = "add computed column", ["add column"]  # over no rows, and VIRTUAL ones
        if column.kind is None or column.kind.this is exp.DataType.Type.USERDEFINED:
            others += ["add computed column", "add required column"]  # a domain's
        yield self.change(kind, column, *others, optional=optional)
        for each in kinds:
            if isinstance(each, exp.CheckColumnConstraint | exp.Reference):
                yield self.change("add constraint", "", optional=optional)
            elif isinstance(each, exp.UniqueColumnConstraint | exp.PrimaryKeyColumnConstraint):
                yield self.change("add index", "", *_KEYS, optional=optional)

    def altered(self, action: exp.AlterColumn) -> SimpleChange:
        """Return a change of a column that stays."""
        arguments = action.args
        if arguments.get("dtype") is not None:
            return self.change("change type", action, *_RETYPED)
        if arguments.get("default") is not None:
            return self.change("set default", action, "change default", optional=True)
        if "allow_null" in arguments:
            return self.change("drop not null" if arguments["allow_null"] else "set not null", action, optional=True)
        return self.change("drop default", action, optional=True)

    def constrained(self, constraint: exp.Expr, *, is_valid: bool) -> SimpleChange:
        """Return a new constraint."""
        name, definition = "", constraint
        if isinstance(constraint, exp.Constraint):
            name, [definition, *_] = _text(constraint.this), constraint.expressions
        name = "" if name == _UNNAMED else name
        keys = (exp.PrimaryKey, exp.UniqueColumnConstraint, exp.PrimaryKeyColumnConstraint, exp.ExcludeColumnConstraint)
        if isinstance(definition, keys):
            return self.change("add index", name, *_KEYS)
        return self.change("add constraint" if is_valid else "check constraint", name)

    def by_words(self, clause: Sequence[Token]) -> SimpleChange | None:
        """Return the change of a clause that its first words tell; None for another clause."""
        words = [token.text for token in clause]
        kind, place = _BY_WORDS.get(tuple(word.upper() for word in words[:2]), ("", None))
        if not kind:
            return None
        token = None if place is None or place >= len(clause) else clause[place]
        if token is None:
            return self.change(kind, self._name, optional=True)
        quoted = token.token_type is TokenType.IDENTIFIER
        return self.change(kind, token.text if quoted else _folded(token.text), optional=kind == "publish constraint")


def _of_create(tree: exp.Create) -> Iterator[SimpleChange | str]:
    """Yield what CREATE TABLE or CREATE INDEX makes."""
    optional = bool(tree.args.get("exists"))
    if tree.args["kind"] == "INDEX":
        yield _Table(tree.this.args["table"]).change("add index", _text(tree.this.this), optional=optional)
    elif isinstance(tree.this, exp.Schema):
        table = tree.this.this
        yield _Table(table).change("create table", table, optional=optional)
    else:
        yield tree.sql(_DIALECT)


def _of_drop(tree: exp.Drop) -> Iterator[SimpleChange]:
    """Yield the tables that DROP TABLE drops."""
    for table in tree.args["tables"]:
        yield _Table(table).change("drop table", table, optional=bool(tree.args.get("exists")))


def _text(name: exp.Expr | None) -> str:
    """Return the name that PostgreSQL makes of an identifier; of a column, that of its identifier."""
    if name is None:
        return ""
    if isinstance(name, exp.Identifier):
        return str(name.this) if name.args.get("quoted") else _folded(str(name.this))
    return _text(name.this)


def _folded(name: str) -> str:
    """Return a name that is not quoted as PostgreSQL folds it in UTF-8: of ASCII letters alone."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)
