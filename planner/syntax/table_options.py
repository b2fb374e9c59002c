"""The options of a table that are Sluice's own, `sluice.…` in WITH, SET and RESET: found, and taken out of the text.

PostgreSQL parses them, but refuses the namespace when it executes the statement. Pure. Source: PostgreSQL
documentation, "CREATE TABLE", "ALTER TABLE".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from catalog.errors import SluiceError, SqlState
from catalog.partitions import UNITS
from planner.syntax.lexer import Kind, Token, tokens
from planner.tree.nodes import Node, text, walk

_NAMESPACE: Final = "sluice"
_SORT_BY: Final = "sort_by"
_PARTITION_BY: Final = "partition_by"
# DuckDB is told all buckets of a file that is not divided by them (catalog/sql/partitions.sql).
_BUCKETS_MAX: Final = 4_096
_NAME_BYTES_MAX: Final = 63  # NAMEDATALEN
_Key = TypeVar("_Key", "SortBy", "PartitionBy")


@dataclass(frozen=True, slots=True)
class SortBy:
    """A column of `sluice.sort_by`: its name, and its place among others and among NULLs."""

    name: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """A column of `sluice.partition_by`: its name, and DuckLake's name of what is made of its values."""

    name: str
    transform: str = "identity"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """What a statement says about the layout of a table's files. Empty: there is no such key any more; None: the
    statement does not say."""

    sort_by: tuple[SortBy, ...] | None = None
    partition_by: tuple[PartitionBy, ...] | None = None

    def __bool__(self) -> bool:
        return self.sort_by is not None or self.partition_by is not None

    def then(self, later: TableLayout) -> TableLayout:
        """Return what both say; `later` decides where both say something."""
        return TableLayout(
            self.sort_by if later.sort_by is None else later.sort_by,
            self.partition_by if later.partition_by is None else later.partition_by,
        )


def table_layout(options: Any) -> TableLayout:
    """Return what a list of options (DefElem) says about the layout.

    22023 for an option of the namespace that is unknown, and for a value that is no list of columns. An option without
    a value, such as RESET names, sets an empty one.
    """
    found = TableLayout()
    for option in options or ():
        if not isinstance(option, Node) or text(option.fields.get("defnamespace")) != _NAMESPACE:
            continue
        name = str(text(option.defname))
        if name not in (_SORT_BY, _PARTITION_BY):
            raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f'unrecognized parameter "{name}"')
        if getattr(found, name) is not None:
            raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f'parameter "{name}" specified more than once')
        value = _value(option)
        if name == _SORT_BY:
            found = replace(found, sort_by=parsed_sort_key(value))
        else:
            found = replace(found, partition_by=parsed_partition_key(value))
    return found


def is_laid_out(create_table: Node) -> bool:
    """Whether a CREATE TABLE, other than of a temporary table, has an option of the namespace."""
    return create_table.relation.relpersistence != "t" and bool(table_layout(create_table.fields.get("options")))


def refuse_own_options(options: Any) -> None:
    """Raise PostgreSQL's error if one of the options is of the namespace: those of temporary tables are not."""
    if table_layout(options):
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f'unrecognized parameter namespace "{_NAMESPACE}"')


def altered_layout(utility: Node) -> TableLayout:
    """Return what ALTER TABLE says about the layout; the last one counts if it sets an option several times."""
    found = TableLayout()
    for command in utility.fields.get("cmds") or ():
        options = command.fields.get("def") if isinstance(command, Node) else None
        if isinstance(options, tuple) and not command.fields.get("name"):  # ALTER COLUMN has options of its own
            found = found.then(table_layout(options))
    return found


def told_layout(utility: Node) -> TableLayout:
    """Return what CREATE TABLE or ALTER TABLE says about the layout; any other statement says nothing."""
    if utility.type == "CREATESTMT":
        return table_layout(utility.fields.get("options")) if is_laid_out(utility) else TableLayout()
    return altered_layout(utility)


def _value(option: Node) -> str:
    argument = option.fields.get("arg")
    if argument is None:
        return ""
    for node in walk(argument):
        for field in ("sval", "fval", "ival", "names"):
            if field in node.fields:
                value = node.fields[field]
                return str(text(value[-1] if isinstance(value, tuple) else value) or "")
    return str(text(argument) or "")


def parsed_sort_key(value: str) -> tuple[SortBy, ...]:
    """Return the columns of `a, b DESC NULLS LAST`; 22023 for another syntax."""
    return _parsed(
        value,
        _SORT_BY,
        _sorted,
        "It takes columns, each with ASC or DESC and NULLS FIRST or NULLS LAST, separated by commas.",
    )


def parsed_partition_key(value: str) -> tuple[PartitionBy, ...]:
    """Return the columns of `a, month(b), bucket(16, c)`; 22023 for another syntax."""
    return _parsed(
        value,
        _PARTITION_BY,
        _divided,
        "It takes columns, year, month, day or hour of a column, and bucket(number, column), separated by commas.",
    )


def _parsed(
    value: str, option: str, read: Callable[[Sequence[Token], str], _Key | None], detail: str
) -> tuple[_Key, ...]:
    items = list(tokens(value))
    found = [read(part, value) for part in _parts(items)] if items else []
    known = tuple(each for each in found if each is not None)
    if len(known) < len(found) or any(token.unterminated for token in items):
        raise SluiceError(
            SqlState.INVALID_PARAMETER_VALUE,
            f'invalid value for parameter "{_NAMESPACE}.{option}": "{value}"',
            detail=detail,
        )
    return known


def _sorted(part: Sequence[Token], value: str) -> SortBy | None:
    if not part or not _is_name(part[0]):
        return None
    rest = [token.text if token.kind is Kind.WORD else "" for token in part[1:]]
    descending = rest[:1] == ["desc"]
    if rest[:1] in (["asc"], ["desc"]):
        rest = rest[1:]
    if rest and rest not in (["nulls", "first"], ["nulls", "last"]):
        return None
    return SortBy(_identifier(part[0], value), descending, rest[1] == "first" if rest else descending)


def _divided(part: Sequence[Token], value: str) -> PartitionBy | None:
    if len(part) == 1 and _is_name(part[0]):
        return PartitionBy(_identifier(part[0], value))
    if len(part) < 4 or part[0].kind is not Kind.WORD or part[1].text != "(" or part[-1].text != ")":
        return None
    inside, called = part[2:-1], part[0].text
    if called in UNITS and len(inside) == 1 and _is_name(inside[0]):
        return PartitionBy(_identifier(inside[0], value), called)
    if called == "bucket" and len(inside) == 3 and inside[1].text == "," and _is_name(inside[2]):
        number = value[inside[0].start : inside[0].end]
        if number.isascii() and number.isdigit() and 0 < int(number) <= _BUCKETS_MAX:
            return PartitionBy(_identifier(inside[2], value), f"bucket({int(number)})")
    return None


def _is_name(token: Token) -> bool:
    return token.kind in (Kind.WORD, Kind.NAME)


def _identifier(token: Token, value: str) -> str:
    """Return the name that PostgreSQL makes of it: of what is not quoted, ASCII letters are small; others stay."""
    name = token.text
    if token.kind is Kind.WORD:
        name = "".join(letter.lower() if letter.isascii() else letter for letter in value[token.start : token.end])
    return name.encode()[:_NAME_BYTES_MAX].decode(errors="ignore")


def _parts(items: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield what stands between commas, except those within parentheses that open here."""
    part: list[Token] = []
    depth = 0
    for token in items:
        symbol = token.text if token.kind is Kind.SYMBOL else ""
        depth += (symbol == "(") - (symbol == ")")
        if symbol == "," and not depth:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def without_own_options(statement: str) -> str:
    """Return CREATE TABLE, CREATE MATERIALIZED VIEW or ALTER TABLE without such options, all else in its place.

    `SET` that sets nothing else becomes a `RESET` of what PostgreSQL does not have, which only asks for the table's
    owner, as SET does.
    """
    if _NAMESPACE not in statement.lower():
        return statement
    items = list(tokens(statement))
    pieces, place = list[str](), 0
    for opening, closing in _lists(items):
        options = list(_parts(items[opening + 1 : closing]))
        own = [option for option in options if _is_own(option)]
        if not own:
            continue
        before, first, end = items[opening - 1], items[opening - 1].start, items[closing].end
        kept = [statement[option[0].start : option[-1].end] for option in options if not _is_own(option)]
        if kept:
            instead = f"{before.text} ({', '.join(kept)})"
        elif before.text == "set":
            instead = f"RESET ({_NAMESPACE}.{_SORT_BY})"
        else:
            instead = ""
        pieces += [statement[place:first], instead.ljust(end - first)]
        place = end
    return "".join([*pieces, statement[place:]])


def _lists(items: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield where the parentheses of `WITH (…)` and `SET (…)` are, those outside of other parentheses."""
    for index, token in enumerate(items):
        if token.kind is Kind.SYMBOL and token.text == "(" and token.depth == 0 and index:
            before = items[index - 1]
            if before.kind is Kind.WORD and before.text in {"with", "set"}:
                closing = next(
                    (
                        place
                        for place in range(index, len(items))
                        if items[place].text == ")" and items[place].kind is Kind.SYMBOL and items[place].depth == 0
                    ),
                    None,
                )
                if closing is not None:
                    yield index, closing


def _is_own(option: Sequence[Token]) -> bool:
    return (
        len(option) > 2
        and option[0].kind in (Kind.WORD, Kind.NAME)
        and option[0].text == _NAMESPACE
        and option[1].text == "."
    )
