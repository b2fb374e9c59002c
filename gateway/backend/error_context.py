"""Removes Sluice's own functions from the CONTEXT of PostgreSQL's errors, many of which they raise.

The client's functions and statements are left, as if PostgreSQL itself had raised the error.
"""

from __future__ import annotations

import struct
from typing import Final

from gateway.wire.framing import HEADER_BYTES, Frame

_CONTEXT: Final = b"W"
_FUNCTION: Final = b"function pg_sluice."
# Bytes that are searched without delay.
_SLICE: Final = 1 << 20
# A line of such a function. Of more of them than PostgreSQL's own depth allows, nothing is told.
_OWN: Final = b"\nPL/pgSQL function pg_sluice."
_OWN_MAX: Final = 1_000
# What other lines of a context begin with; those of a statement within such a function precede the function's line.
_BEGINNINGS: Final = (b"\nPL/pgSQL ", b"\nSQL ")
_STATEMENTS: Final = (b'\nSQL statement "', b'\nSQL expression "')
_LENGTH: Final = struct.Struct("!I")


def without_own_context(error: Frame) -> Frame:
    """An ErrorResponse, in any encoding: in all of them, ASCII's line feed and NUL mean themselves."""
    data = error.data
    if _find(data, _FUNCTION, HEADER_BYTES, len(data)) < 0:
        return error
    start = HEADER_BYTES
    while data[start] and not data.startswith(_CONTEXT, start):
        start = data.index(b"\0", start) + 1
    if not data[start]:
        return error
    end = data.index(b"\0", start)
    context = _outside(data[start:end])
    left = b"" if context == _CONTEXT else context + b"\0"
    body = b"".join((data[HEADER_BYTES:start], left, data[end + 1 :]))
    return Frame(error.type, data[:1] + _LENGTH.pack(_LENGTH.size + len(body)) + body)


def _outside(field: bytes) -> bytes:
    """The field without lines of Sluice's functions; its type alone if nothing else is left.

    It is read line by line from its beginning, for a client may have filled it with megabytes.
    """
    text = b"\n" + field[1:]
    parts, kept, own = list[bytes](), 0, -1
    for _ in range(_OWN_MAX):
        own = _find(text, _OWN, max(own, 0), len(text))
        if own < 0:
            break
        begin = max(_rfind(text, each, kept, own) for each in _BEGINNINGS)
        parts.append(text[kept : begin if begin >= 0 and text.startswith(_STATEMENTS, begin) else own])
        own = kept = end if (end := _find(text, b"\n", own + 1, len(text))) >= 0 else len(text)
    else:
        kept = len(text)
    parts.append(text[kept:])
    return _CONTEXT + b"".join(parts).removeprefix(b"\n").removesuffix(b"\n")


def _find(data: bytes, part: bytes, start: int, end: int) -> int:
    for place in range(start, end, _SLICE):
        if (found := data.find(part, place, min(end, place + _SLICE + len(part)))) >= 0:
            return found
    return -1


def _rfind(data: bytes, part: bytes, start: int, end: int) -> int:
    for place in range(end, start, -_SLICE):
        if (found := data.rfind(part, max(start, place - _SLICE), min(end, place + len(part)))) >= 0:
            return found
    return -1
