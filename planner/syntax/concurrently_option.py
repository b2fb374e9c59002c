"""CONCURRENTLY, which asks of PostgreSQL what every change of a lake's indexes is: to keep nobody waiting.

PostgreSQL's own way takes several transactions and waits for those of others, over a shadow that is empty. So the
shadow is changed plainly; only that it stands by itself is asked of the statement, as there. Pure.
Source: PostgreSQL documentation, "CREATE INDEX", "DROP INDEX", "REINDEX".
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from planner.syntax.lexer import Kind, tokens
from planner.tree.nodes import Node, walk

_COMMANDS: Final = {"INDEXSTMT": "CREATE INDEX", "DROPSTMT": "DROP INDEX", "REINDEXSTMT": "REINDEX"}
# What REINDEX says otherwise where it is done CONCURRENTLY.
_NOTHING_TO_DO: Final = " has no indexes to reindex"
_NOTHING_TO_DO_CONCURRENTLY: Final = " has no indexes that can be reindexed concurrently"
_FALSE: Final = frozenset({"false", "off", "0"})
_VALUES: Final = _FALSE | {"true", "on", "1"}


def concurrent_command(utility: Node) -> str | None:
    """`CREATE INDEX`, `DROP INDEX` or `REINDEX`, where it is to be carried out CONCURRENTLY; None for all else."""
    command = _COMMANDS.get(utility.type)
    if command is None:
        return None
    if utility.type == "REINDEXSTMT":
        return command if any(_is_on(option) for option in utility.fields.get("params") or ()) else None
    return command if utility.concurrent else None


def _is_on(option: Node) -> bool:
    if str(option.defname).lower() != "concurrently":
        return False
    value: Any = option.fields.get("arg")
    texts = [str(each.fields.get("sval") or each.fields.get("boolval")) for each in walk(value)] or [str(value)]
    return not any(text.lower() in _FALSE for text in texts)


def plainly(text: str) -> str:
    """The statement without CONCURRENTLY."""
    items = list(tokens(text))
    for token, following in pairwise(items):
        if token.kind is Kind.WORD and token.text == "concurrently":
            end = following.end if token.depth and following.text.lower() in _VALUES else token.end
            return text[: token.start] + ("CONCURRENTLY false" if token.depth else "") + text[end:]
    return text


def said_concurrently(message: str) -> str:
    """The message of a notice as it is where the statement is carried out CONCURRENTLY."""
    found = message.removesuffix(_NOTHING_TO_DO)
    return message if found == message else found + _NOTHING_TO_DO_CONCURRENTLY
