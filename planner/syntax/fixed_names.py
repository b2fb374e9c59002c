"""Whether a statement means the same under any search path of the session.

A client sets the path, and may put its own types, functions and operators before PostgreSQL's. If a statement of the
gateway names one without its schema, the client's code runs. PostgreSQL's grammar puts key words for a type or a call
(`bigint`, `coalesce(…)`) into pg_catalog. For other key words it looks up an operator by the path (IN, BETWEEN, LIKE,
NULLIF, CASE … WHEN, IS DISTINCT FROM, JOIN … USING).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from planner.syntax.lexer import Kind, Token, tokens

# Types that the grammar itself puts into pg_catalog.
_TYPES: Final = frozenset(
    {
        "bigint", "bit", "boolean", "char", "character", "dec", "decimal", "double", "float", "int", "integer",
        "interval", "json", "numeric", "real", "smallint", "time", "timestamp", "varchar",
    }
)  # fmt: skip
# Words before a bracket that call nothing that the path finds.
_NO_CALLS: Final = frozenset(
    {
        "all", "and", "any", "array", "as", "by", "case", "coalesce", "cursor", "distinct", "else", "except", "exists",
        "extract", "filter", "from", "greatest", "least", "limit", "materialized", "not", "on", "only",
        "operator", "or", "over", "returning", "row", "select", "some", "substring", "then", "trim", "union", "values",
        "when", "where", "with",
    }
)  # fmt: skip
# Words that stand for an operator of that name in the path.
_OPERATORS: Final = frozenset(
    {"between", "collate", "ilike", "in", "like", "natural", "nullif", "overlaps", "similar", "using"}
)
_PUNCTUATION: Final = frozenset("(),.;[]")
# A relation stands behind one of these.
_BEFORE_RELATIONS: Final = frozenset({"from", "join", "into", "update"})
_PLAIN: Final = frozenset({"select", "lateral", "only"})


@lru_cache(4096)
def loose_name(sql: str) -> str | None:
    """Return the first thing in the statement that the search path, or a temporary object, may give another meaning."""
    read = list(tokens(sql))
    common = _common_names(read)
    for place, token in enumerate(read):
        found = _loose(read, place, common)
        if found:
            return f"{token.text} at {token.start} of {sql}"
    return None


def _loose(read: Sequence[Token], place: int, common: frozenset[str]) -> bool:
    token, before, after = read[place], _word(read, place - 1), _word(read, place + 1)
    if token.kind is Kind.SYMBOL:
        return _is_loose_symbol(read, place)
    if before == "case" and _word(read, place) != "when":
        return True
    if token.kind not in (Kind.WORD, Kind.NAME):
        return False
    if before == ":" and _text(read, place - 2) == ":":
        return token.kind is Kind.NAME or not (token.text in _TYPES or (token.text == "pg_catalog" and after == "."))
    if before == ".":
        return False
    if token.kind is Kind.WORD and token.text in _OPERATORS:
        return True
    if token.kind is Kind.WORD and (token.text, before) in (("distinct", "is"), ("distinct", "not")):
        return True
    if before in _BEFORE_RELATIONS and not _is_of_extract(read, place - 1):
        plain = _word(read, place) in _PLAIN or (_word(read, place), after) == ("rows", "from")
        return not (plain or after == "." or token.text in common or (before == "into" and place + 1 == len(read)))
    if after == "(":
        return not (token.kind is Kind.WORD and token.text in _NO_CALLS) and not _is_alias(read, place, common)
    return False


def _is_loose_symbol(read: Sequence[Token], place: int) -> bool:
    symbol, before, after = read[place].text, _word(read, place - 1), _word(read, place + 1)
    if symbol in _PUNCTUATION:
        return False
    if symbol == ":":
        return ":" not in (before, after)
    if symbol == "*" and before in ("select", ".", "("):
        return False
    return not _is_named_operator(read, place)


def _is_named_operator(read: Sequence[Token], place: int) -> bool:
    """Whether it is (a part of) OPERATOR(pg_catalog.…)."""
    while place >= 0 and read[place].kind is Kind.SYMBOL and read[place].text not in _PUNCTUATION:
        place -= 1
    return [_word(read, place - back) for back in (3, 2, 1, 0)] == ["operator", "(", "pg_catalog", "."]


def _is_of_extract(read: Sequence[Token], place: int) -> bool:
    """Whether it is EXTRACT(field FROM …)."""
    return _word(read, place - 2) == "(" and _word(read, place - 3) in ("extract", "substring", "trim")


def _is_alias(read: Sequence[Token], place: int, common: frozenset[str]) -> bool:
    """Whether it is an alias with columns: `AS u (a, b)`, `WITH u (a, b) AS`."""
    return _word(read, place - 1) == "as" or read[place].text in common


def _common_names(read: Sequence[Token]) -> frozenset[str]:
    """Return the names of WITH queries."""
    found = set()
    for place, token in enumerate(read):
        if token.kind is Kind.WORD and token.text in ("with", "recursive") and _text(read, place + 1) != "recursive":
            found.add(_text(read, place + 1))
        if token.text == ")" and _word(read, place + 1) == "," and _word(read, place + 3) in ("as", "("):
            found.add(_text(read, place + 2))
    return frozenset(found)


def _word(read: Sequence[Token], place: int) -> str:
    """Return a word or symbol; nothing for what is quoted, which is a name or a value, however it reads."""
    quoted = not 0 <= place < len(read) or read[place].kind in (Kind.NAME, Kind.STRING)
    return "" if quoted else read[place].text


def _text(read: Sequence[Token], place: int) -> str:
    return read[place].text if 0 <= place < len(read) else ""
