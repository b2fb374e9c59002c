"""Arrays of bytes that Py4J returns, such as small results' rows: decoded in pieces.

Py4J decodes them into a list of numbers first, which for 50 MB keeps the interpreter from all other threads for a third
of a second.
"""

from __future__ import annotations

from binascii import a2b_base64
from typing import Any, Final

from py4j import protocol

# Characters of base64 that are decoded in a millisecond: whole groups of four.
_SLICE: Final = 1 << 20


def decoded(text: str) -> bytearray:
    """Return the bytes that Py4J has encoded, in base64 without line feeds."""
    found = bytearray()
    for place in range(0, len(text), _SLICE):
        found += a2b_base64(text[place : place + _SLICE])
    return found


def install() -> None:
    """Have Py4J decode arrays of bytes so."""
    protocol.OUTPUT_CONVERTER[protocol.BYTES_TYPE] = _converted


def _converted(text: str, _gateway: Any) -> bytearray:
    return decoded(text)
