"""The options of a table that are Sluice's own, `sluice.…` in WITH, SET and RESET: found, and taken out of the text.

PostgreSQL parses them, but refuses the namespace when it executes the statement. Pure. Source: PostgreSQL
documentation, "CREATE TABLE", "ALTER TABLE".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog.errors import SluiceError, SqlState
from planner.syntax.lexer import Kind, Token, tokens
from planner.tree.nodes import Node, text, walk

_NAMESPACE: Final = "sluice"
_SORT_BY: Final = "sort_by"
_NAME_BYTES_MAX: Final = 63  # NAMEDATALEN


@dataclass(frozen=True, slots=True)
class SortBy:
    """A column of `sluice.sort_by`: its name, and its place among others and among NULLs."""

    name: str
    descending: bool
    nulls_first: bool


def sort_by(options: Any) -> tuple[SortBy, ...] | None:
    """Return the sort key that a list of options (DefElem) sets, empty for none; None if it sets no such.

    22023 for an option of the namespace that is unknown, and for a value that is no list of columns. An option without
    a value, such as RESET names, sets none.
    """
    found: tuple[SortBy, ...] | None = None
    for option in options or ():
        if not isinstance(option, Node) or text(option.fields.get("defnamespace")) != _NAMESPACE:
            continue
        name = text(option.defname)
        if name != _SORT_BY:
            raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f'unrecognized parameter "{name}"')
        if found is not None:
            raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f'parameter "{name}" specified more than once')
        found = parsed_sort_key(_value(option))
    return found


def is_laid_out(create_table: Node) -> bool:
    """Whether a CREATE TABLE, other than of a temporary table, has an option of the namespace."""
    return create_table.relation.relpersistence != "t" and sort_by(create_table.fields.get("options")) is not None


def refuse_own_options(options: Any) -> None:
    """Raise PostgreSQL's error if one of the options is of the namespace: those of temporary tables are not."""
    if sort_by(options) is not None:
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f'unrecognized parameter namespace "{_NAMESPACE}"')


def altered_sort_by(utility: Node) -> tuple[SortBy, ...] | None:
    """Return the sort key that ALTER TABLE sets, the last one if it sets several; None if it sets none."""
    found: tuple[SortBy, ...] | None = None
    for command in utility.fields.get("cmds") or ():
        options = command.fields.get("def") if isinstance(command, Node) else None
        if isinstance(options, tuple) and not command.fields.get("name"):  # ALTER COLUMN has options of its own
            found = found if (key := sort_by(options)) is None else key
    return found


def told_sort_by(utility: Node) -> tuple[SortBy, ...] | None:
    """Return the sort key that CREATE TABLE or ALTER TABLE sets; None if it sets none, as any other statement."""
    if utility.type == "CREATESTMT":
        return sort_by(utility.fields.get("options")) if is_laid_out(utility) else None
    return altered_sort_by(utility)


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
    items = list(tokens(value))
    if not items:
        return ()
    return tuple(_column(part, value) for part in _parts(items))


def _column(part: Sequence[Token], value: str) -> SortBy:
    words = [token.text if token.kind is Kind.WORD else "" for token in part]
    name = _identifier(part[0], value) if part else ""
    if part and part[0].kind in (Kind.WORD, Kind.NAME) and not any(token.unterminated for token in part):
        rest = words[1:]
        descending = rest[:1] == ["desc"]
        if rest[:1] in (["asc"], ["desc"]):
            rest = rest[1:]
        if not rest:
            return SortBy(name, descending, nulls_first=descending)
        if rest in (["nulls", "first"], ["nulls", "last"]):
            return SortBy(name, descending, nulls_first=rest[1] == "first")
    raise SluiceError(
        SqlState.INVALID_PARAMETER_VALUE,
        f'invalid value for parameter "{_NAMESPACE}.{_SORT_BY}": "{value}"',
        detail="It takes columns, each with ASC or DESC and NULLS FIRST or NULLS LAST, separated by commas.",
    )


def _identifier(token: Token, value: str) -> str:
    """Return the name that PostgreSQL makes of it: of what is not quoted, ASCII letters are small; others stay."""
    name = token.text
    if token.kind is Kind.WORD:
        name = "".join(letter.lower() if letter.isascii() else letter for letter in value[token.start : token.end])
    return name.encode()[:_NAME_BYTES_MAX].decode(errors="ignore")


def _parts(items: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield what stands between commas."""
    part: list[Token] = []
    for token in items:
        if token.kind is Kind.SYMBOL and token.text == ",":
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
