"""CONCURRENTLY: an option that asks for what every index change of the lake does, to block no session.

PostgreSQL's own way takes several transactions and waits for others, over a shadow that is empty. So the shadow is
changed without the option. As in PostgreSQL, the statement must stand outside of a block. Pure. Source: PostgreSQL
documentation, "CREATE INDEX", "DROP INDEX", "REINDEX".
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from planner.syntax.lexer import Kind, tokens
from planner.tree.nodes import Node, walk

_COMMANDS: Final = {"INDEXSTMT": "CREATE INDEX", "DROPSTMT": "DROP INDEX", "REINDEXSTMT": "REINDEX"}
# Messages of REINDEX that differ with CONCURRENTLY.
_NOTHING_TO_DO: Final = " has no indexes to reindex"
_NOTHING_TO_DO_CONCURRENTLY: Final = " has no indexes that can be reindexed concurrently"
_FALSE: Final = frozenset({"false", "off", "0"})
_VALUES: Final = _FALSE | {"true", "on", "1"}


def concurrent_command(utility: Node) -> str | None:
    """Return `CREATE INDEX`, `DROP INDEX` or `REINDEX` if it is to be executed CONCURRENTLY; None for all else."""
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
    """Return the statement without CONCURRENTLY."""
    items = list(tokens(text))
    for token, following in pairwise(items):
        if token.kind is Kind.WORD and token.text == "concurrently":
            end = following.end if token.depth and following.text.lower() in _VALUES else token.end
            return text[: token.start] + ("CONCURRENTLY false" if token.depth else "") + text[end:]
    return text


def said_concurrently(message: str) -> str:
    """Return a notice's message as it is when the statement is executed CONCURRENTLY."""
    found = message.removesuffix(_NOTHING_TO_DO)
    return message if found == message else found + _NOTHING_TO_DO_CONCURRENTLY
