"""The text of a COPY, split into its parts. PostgreSQL has parsed it, so its key words are in their places."""

from __future__ import annotations

from planner.syntax.lexer import Kind, tokens


def copy_source(text: str) -> tuple[int, int]:
    """Return start and end of what COPY … TO copies: a table and its columns, or a query in parentheses."""
    outer = [token for token in tokens(text) if token.depth == 0 and token.kind is Kind.WORD]
    place, to = (next(token for token in outer if token.text == word) for word in ("copy", "to"))
    return place.end, to.start


def copy_condition(text: str) -> str:
    """Return the condition of COPY … FROM … WHERE."""
    outer = [token for token in tokens(text) if token.depth == 0]
    start = next(token.end for token in outer if token.kind is Kind.WORD and token.text == "where")
    return text[start : next((token.start for token in outer if token.text == ";" and token.start > start), len(text))]
