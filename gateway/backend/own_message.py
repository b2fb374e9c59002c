"""Messages of the gateway to a session's backend that no client can forge.

Privileged functions of `pg_sluice` authorise a caller by PostgreSQL's current_query(): the text of the message that
the backend executes. Code within the message cannot change it, whatever user it runs as. The gateway's messages begin
with the function's name, in a comment. A client's message that contains this comment is refused. So a client gains
nothing from knowing the names (pg_sluice.authorize in catalog/sql/staging.sql).

PostgreSQL takes the text of a message that executes a cursor or a statement of SQL's PREPARE from these, and users'
code may make them with any text. Such a text does not authorise. What the gateway executes has its own names, which no
message of a client may use.
"""

from __future__ import annotations

import asyncio
import re
from typing import AnyStr, Final

from catalog.errors import SluiceError, SqlState
from gateway.wire.framing import HEADER_BYTES, Frame
from planner.syntax.fixed_names import loose_name
from planner.tree.compact_tree import TreeText

# What the gateway's comments begin with.
MARK: Final = "/*sluice:"
_MARK_BYTES: Final = MARK.encode()
# What the names of a gateway's statements and portals begin with, whichever it is (own_names.py).
_OWN_NAMES: Final = re.compile(rb"pg_sluice_[0-9a-f]{16}")
# Bytes searched in about a millisecond.
_SLICE: Final = 1 << 22
_FUNCTION: Final = re.compile(r"\bpg_sluice\.(\w+)\(")


def own(sql: str, relation: int | None = None) -> str:
    """A statement of the gateway that authorises the function which it calls.

    With a relation's OID, if users' code may run inside: the authorisation then holds for that relation only.
    """
    called = _FUNCTION.search(sql)
    assert called is not None, sql
    _check_names(sql)
    of = "" if relation is None else f" {relation}"
    return f"{MARK}{called[1]}{of}*/ {sql}"


def of_shadow(relation: int, sql: str) -> str:
    """A statement of the gateway over the rows of a table's shadow, which `shadow_view` names."""
    _check_names(sql)
    return f"{MARK}shadow {relation}*/ {sql}"


# A literal without a name in it, mostly a transaction's number, which differs each time.
_NUMBER: Final = re.compile(r"'\d+'")
# Of such rows: the statement has locked or deleted them.
LOCKED: Final = "xmax OPERATOR(pg_catalog.<>) '0'"


def shadow_view(relation: int) -> str:
    """The view of a table's shadow (pg_sluice.guard in catalog/sql/superuser.sql).

    Its columns are `kept`, which is the row, `ctid`, `xmin`, `xmax`. Only statements of `of_shadow` find rows in it.
    """
    return f"pg_sluice.shadow_{relation}"


def _check_names(sql: str) -> None:
    """Check that all names are qualified: the client's search path could turn a loose one into code with the message's
    rights.
    """
    loose = loose_name(_NUMBER.sub("'0'", sql))  # a statement that has passed is not checked again
    if loose is not None:
        raise SluiceError(SqlState.INTERNAL_ERROR, f"a name without its schema: {loose}")


async def refuse_own(message: bytes) -> None:
    """Raise 42501 for a client's message that looks like one of the gateway's."""
    if await holds(message, _MARK_BYTES):
        raise refused()


def refuse_own_names(frame: Frame, skipped: int, names: int) -> None:
    """Raise 42939 if one of so many names in a message is of the gateway's statements or portals. They stand behind the
    header and `skipped` bytes."""
    start = HEADER_BYTES + skipped
    for _ in range(names):
        if own := _OWN_NAMES.match(frame.data, start):
            raise SluiceError(SqlState.RESERVED_NAME, f'names that begin with "{own[0].decode()}" are reserved')
        start = frame.data.find(b"\0", start) + 1


class Told:
    """Finds the view of a shadow in a tree, by its call of a function (pg_sluice.is_told) that no client may call."""

    def __init__(self, function: int) -> None:
        self._number = str(function)
        self._call = re.compile(rf":funcid\s{function}\s")  # PostgreSQL breaks lines at spaces
        self._length = len(f":funcid {function} ") - 1

    async def refuse(self, tree: TreeText) -> None:
        """Raise 42501 for a statement over such a view: it names a lake table, with rights that the client has not."""
        text = tree.text
        for start in range(0, len(text), _SLICE):
            if start:
                await asyncio.sleep(0)
            end = start + _SLICE + self._length
            if text.find(self._number, start, end) >= 0 and self._call.search(text, start, end):
                raise refused()


def refused() -> SluiceError:
    """The error for such an access."""
    return SluiceError(SqlState.INSUFFICIENT_PRIVILEGE, "permission denied for the lake's metadata")


async def holds(text: AnyStr, part: AnyStr) -> bool:
    """Whether the text contains the part; while a long text is searched, other work has its turns."""
    for start in range(0, len(text), _SLICE):
        if start:
            await asyncio.sleep(0)
        if text.find(part, start, start + _SLICE + len(part)) >= 0:
            return True
    return False
