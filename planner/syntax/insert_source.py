"""The place of an INSERT's query in its text. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from planner.syntax.lexer import Kind, tokens

# Words that begin a query, and are no names unless they are quoted.
_BEGINNINGS: Final = frozenset({"select", "with", "table"})


def inserted_query(text: str) -> int | None:
    """Return where the query of an analysed INSERT begins; None after WITH, for VALUES, and for other statements."""
    items = list(tokens(text))
    if not items or items[0].text != "insert":
        return None
    for token, after in pairwise(items):
        if token.depth:
            continue
        if token.kind is Kind.WORD and token.text in _BEGINNINGS:
            return token.start
        begins = (
            after.text in _BEGINNINGS if after.kind is Kind.WORD else (after.kind, after.text) == (Kind.SYMBOL, "(")
        )
        if (token.kind, token.text) == (Kind.SYMBOL, "(") and begins:
            return token.start
    return None
