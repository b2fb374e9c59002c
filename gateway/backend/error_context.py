"""Removes Sluice's own functions from the CONTEXT of PostgreSQL's errors, many of which they raise.

The client's functions and statements are left, as if PostgreSQL itself had raised the error.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from gateway.wire.framing import Frame

_CONTEXT: Final = b"W"
_FUNCTION: Final = b"function pg_sluice."
# Bytes that are searched without delay.
_SLICE: Final = 1 << 20
# A line of such a function, preceded by the failing statement in it.
_OWN: Final = re.compile(
    rb'(?:^SQL (?:statement|expression) "(?:(?!^(?:PL/pgSQL|SQL) ).|\n)*?)?^PL/pgSQL function pg_sluice\.[^\n]*\n?',
    re.MULTILINE,
)
_LENGTH: Final = struct.Struct("!I")


def without_own_context(error: Frame) -> Frame:
    """An ErrorResponse, in any encoding: in all of them, ASCII's line feed and NUL mean themselves."""
    places = range(0, len(error.data), _SLICE)
    if all(error.data.find(_FUNCTION, at, at + _SLICE + len(_FUNCTION)) < 0 for at in places):
        return error
    fields = [_outside(field) if field.startswith(_CONTEXT) else field for field in error.body.split(b"\0")[:-2]]
    body = b"\0".join([*filter(None, fields), b"", b""])
    return Frame(error.type, error.data[:1] + _LENGTH.pack(_LENGTH.size + len(body)) + body)


def _outside(context: bytes) -> bytes:
    """The field without lines of Sluice's functions; empty if nothing is left."""
    left = _OWN.sub(b"", context[1:]).removesuffix(b"\n")
    return _CONTEXT + left if left else b""
