"""The CONTEXT of PostgreSQL's errors, without the functions of Sluice's own in the catalog that raise many of them.

What is left are the client's functions and statements, as if PostgreSQL itself had refused what they do.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from gateway.wire.framing import Frame

_CONTEXT: Final = b"W"
_FUNCTION: Final = b"function pg_sluice."
# What is looked through in a moment.
_SLICE: Final = 1 << 20
# A line of such a function, and before it the statement in it that failed.
_OWN: Final = re.compile(
    rb'(?:^SQL (?:statement|expression) "(?:(?!^(?:PL/pgSQL|SQL) ).|\n)*?)?^PL/pgSQL function pg_sluice\.[^\n]*\n?',
    re.MULTILINE,
)
_LENGTH: Final = struct.Struct("!I")


def without_own_context(error: Frame) -> Frame:
    """An ErrorResponse, in whatever encoding: all of them have ASCII's line feed and NUL for nothing else."""
    places = range(0, len(error.data), _SLICE)
    if all(error.data.find(_FUNCTION, at, at + _SLICE + len(_FUNCTION)) < 0 for at in places):
        return error
    fields = [_outside(field) if field.startswith(_CONTEXT) else field for field in error.body.split(b"\0")[:-2]]
    body = b"\0".join([*filter(None, fields), b"", b""])
    return Frame(error.type, error.data[:1] + _LENGTH.pack(_LENGTH.size + len(body)) + body)


def _outside(context: bytes) -> bytes:
    """The field without what is in Sluice's functions; empty if nothing is left."""
    left = _OWN.sub(b"", context[1:]).removesuffix(b"\n")
    return _CONTEXT + left if left else b""
