"""The condition WHERE CURRENT OF in a statement's text. PostgreSQL has parsed it: key words are in their places."""

from __future__ import annotations

from planner.syntax.lexer import Kind, Token, tokens


def with_condition(text: str, condition: str) -> str:
    """Return an UPDATE or DELETE … WHERE CURRENT OF cursor [RETURNING …] with another condition in that place."""
    items = [token for token in tokens(text) if token.depth == 0]
    words = [token.text if token.kind is Kind.WORD else "" for token in items]
    start = next(place for place in range(len(words)) if words[place : place + 3] == ["where", "current", "of"])
    name = start + 3
    end = next((place for place in range(name + 1, len(items)) if _ends(items[place])), len(items))
    return f"{text[: items[start + 1].start]}{condition}{text[items[end - 1].end :]}"


def _ends(token: Token) -> bool:
    """Whether the token is not of the cursor's name, which has several in `U&"name" UESCAPE '!'`."""
    return (token.kind, token.text) in ((Kind.WORD, "returning"), (Kind.SYMBOL, ";"))
