"""UNLOGGED tables become ordinary ones: a crash loses unlogged rows, but not the lake's files."""

from __future__ import annotations

from typing import Final

from planner.syntax.lexer import Kind, Token, tokens

_UNLOGGED: Final = "unlogged"
_LOGGED: Final = "LOGGED  "
assert len(_LOGGED) == len(_UNLOGGED), "what stands behind it would be at another position"


def as_logged(text: str, *, standard_strings: bool = True) -> str | None:
    """Return the same statements with ordinary tables, each word in its place; None if none is UNLOGGED."""
    if _UNLOGGED not in text.lower():
        return None
    pieces, place = list[str](), 0
    two, one = "", ""  # the words before
    first = ""
    for token in tokens(text, standard_strings=standard_strings):
        word = token.text if token.kind is Kind.WORD else ""
        instead: str | None = None
        if one == _UNLOGGED and word == "table" and two in {"create", "into"}:
            instead = " " * len(_UNLOGGED)
        elif word == _UNLOGGED and one == "set" and first == "alter":
            instead, last = _LOGGED, token
        if instead is not None:
            pieces += [text[place : last.start], instead]
            place = last.end
        first = _first(first, token)
        two, one, last = one, word, token
    return "".join([*pieces, text[place:]]) if pieces else None


def _first(first: str, token: Token) -> str:
    """Return the first word of the statement that the token is in."""
    if token.kind is Kind.SYMBOL and token.text == ";":
        return ""
    return first or token.text
