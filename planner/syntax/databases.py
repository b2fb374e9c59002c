"""CREATE and DROP DATABASE, which are refused: a lake is one database. Pure."""

from __future__ import annotations

from collections.abc import Collection
from itertools import dropwhile, islice
from typing import Final

from catalog.errors import SluiceError, SqlState
from planner.syntax.lexer import Kind, Token, tokens

# Whatever the client's rights: PostgreSQL's message about CREATEDB would not help.
_HINT: Final = (
    "A lake is one database. Use a schema of it in place of another database (SET search_path), have test runners "
    "use the database that there is, or start another gateway with its own --data-dir."
)
# DROP DATABASE IF EXISTS name, and one more.
_TOKENS_MAX: Final = 6


def no_databases(command: str) -> SluiceError:
    """Return the refusal of a command that would create or drop one."""
    return SluiceError(SqlState.FEATURE_NOT_SUPPORTED, f"{command} is not supported", hint=_HINT)


def refused(text: str, lake: str, others: Collection[str]) -> SluiceError | None:
    """Return the answer to a statement, if Sluice must give it: it creates a database, or drops the lake's.

    The client is not connected to the `lake`. `others` are other existing databases.
    """
    # PostgreSQL takes empty statements before it.
    items = list(islice(dropwhile(_is_separator, tokens(text)), _TOKENS_MAX))
    command = " ".join(item.text.upper() for item in items[:2] if item.kind is Kind.WORD)
    if command == "CREATE DATABASE":
        name = items[2].text if len(items) > 2 else None
        if name == lake or name in others:
            return SluiceError("42P04", f'database "{name}" already exists')
        return no_databases(command)
    if command == "DROP DATABASE" and not _drops_another(items[2:], lake, text):
        return no_databases(command)
    return None


def _is_separator(item: Token) -> bool:
    return item.kind is Kind.SYMBOL and item.text == ";"


def _drops_another(items: list[Token], lake: str, text: str) -> bool:
    if [item.text for item in items[:2]] == ["if", "exists"]:
        items = items[2:]
    if items and items[-1].text == ";":
        items = items[:-1]
    is_plain = len(items) == 1 and items[0].kind in (Kind.WORD, Kind.NAME) and "u&" not in text.lower()
    return is_plain and items[0].text != lake
