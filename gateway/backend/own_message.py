"""Messages that a gateway sends to a session's backend on its own account, and no client can.

A function of `pg_sluice` that does what clients may not do obeys whoever PostgreSQL's current_query() says has asked:
the text of the message that the backend carries out, which code within it, of whatever user, does not change. Such a
message begins with the name of the function, in a comment; one of a client that has this comment anywhere is refused.
So nothing that a client can learn is worth anything to it (pg_sluice.authorize in catalog/sql/staging.sql).
"""

from __future__ import annotations

import asyncio
import re
from typing import AnyStr, Final

from catalog.errors import SluiceError, SqlState
from planner.syntax.fixed_names import loose_name

_BEGINS: Final = "/*sluice:"
_BEGINS_BYTES: Final = _BEGINS.encode()
# What is looked through in a millisecond or so.
_SLICE: Final = 1 << 22
_FUNCTION: Final = re.compile(r"\bpg_sluice\.(\w+)\(")


def own(sql: str, relation: int | None = None) -> str:
    """A statement of the gateway's own, as the function that it calls obeys it.

    With a relation's OID where users' code may run inside: then it is obeyed for that relation alone.
    """
    called = _FUNCTION.search(sql)
    assert called is not None, sql
    _check_names(sql)
    of = "" if relation is None else f" {relation}"
    return f"{_BEGINS}{called[1]}{of}*/ {sql}"


def of_shadow(relation: int, sql: str) -> str:
    """A statement of the gateway's own over the rows of a table's shadow, which `shadow_view` names."""
    _check_names(sql)
    return f"{_BEGINS}shadow {relation}*/ {sql}"


# A literal without a name in it: of a transaction, mostly, and so another each time.
_NUMBER: Final = re.compile(r"'\d+'")
# Of rows there: that the statement has locked or deleted them.
LOCKED: Final = "xmax OPERATOR(pg_catalog.<>) '0'"


def shadow_view(relation: int) -> str:
    """The view of a table's shadow (pg_sluice.guard in catalog/sql/superuser.sql).

    Its columns are `kept`, which is the row, `ctid`, `xmin`, `xmax`. Only statements of `of_shadow` find rows there.
    """
    return f"pg_sluice.shadow_{relation}"


def _check_names(sql: str) -> None:
    """What the client's search path gives another meaning would be the client's code, and have the message's rights."""
    loose = loose_name(_NUMBER.sub("'0'", sql))  # which is known once it was found out
    if loose is not None:
        raise SluiceError(SqlState.INTERNAL_ERROR, f"a name without its schema: {loose}")


async def refuse_own(message: bytes) -> None:
    """42501 for a client's message that would pass for one of the gateway's own."""
    if await holds(message, _BEGINS_BYTES):
        raise refused()


class Told:
    """What finds the view of a shadow in a tree: the call of a function (pg_sluice.is_told) that no client may name."""

    def __init__(self, function: int) -> None:
        self._number = str(function)
        self._call = re.compile(rf":funcid\s{function}\s")  # PostgreSQL breaks lines in place of spaces

    async def refuse(self, tree: str) -> None:
        """42501 for a statement over such a view: it names a table of the lake, and its rights are not the client's."""
        if await holds(tree, self._number) and self._call.search(tree):
            raise refused()


def refused() -> SluiceError:
    """To whoever is not the gateway."""
    return SluiceError(SqlState.INSUFFICIENT_PRIVILEGE, "permission denied for the lake's metadata")


async def holds(text: AnyStr, part: AnyStr) -> bool:
    """Whether the part is in the text, which may be long: others have their turns meanwhile."""
    for start in range(0, len(text), _SLICE):
        if start:
            await asyncio.sleep(0)
        if text.find(part, start, start + _SLICE + len(part)) >= 0:
            return True
    return False
