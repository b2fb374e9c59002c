"""Writes PostgreSQL's arrays for the gateway's own statements (PostgreSQL documentation, 8.15.2).

Where an element may be NULL, the form is binary: in texts, the client's array_nulls decides what NULL is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from catalog.datatypes import INT8
from gateway.values.binary import binary_array


def number_array(numbers: Iterable[int]) -> str:
    """An array of an integer type or of OIDs."""
    return "{" + ",".join(map(str, numbers)) + "}"


def nullable_bigints(numbers: Sequence[int | None]) -> bytes:
    """An array of bigints, in binary form."""
    return binary_array(pa.array(numbers, pa.int64()), INT8)


def text_array(texts: Iterable[str]) -> str:
    """An array of text."""
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in escaped) + "}"
