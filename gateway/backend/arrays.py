"""Writes PostgreSQL's arrays for the gateway's own statements (PostgreSQL documentation, 8.15.2).

Where an element may be NULL, the form is binary: in texts, the client's array_nulls decides what NULL is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from catalog.datatypes import INT8

# One dimension, whether there may be NULLs, the type, the number of elements, and the first subscript
# (array_recv in PostgreSQL's arrayfuncs.c).
_HEADER: Final = struct.Struct("!iiIii")
_ELEMENT: Final = struct.Struct("!iq")
_NULL: Final = struct.pack("!i", -1)


def number_array(numbers: Iterable[int]) -> str:
    """An array of an integer type or of OIDs."""
    return "{" + ",".join(map(str, numbers)) + "}"


def nullable_bigints(numbers: Sequence[int | None]) -> bytes:
    """An array of bigints, in binary form."""
    elements = [_NULL if number is None else _ELEMENT.pack(_ELEMENT.size - 4, number) for number in numbers]
    return _HEADER.pack(1, 1, INT8, len(elements), 1) + b"".join(elements)


def text_array(texts: Iterable[str]) -> str:
    """An array of text."""
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in escaped) + "}"
