"""Reads a record as PostgreSQL writes it: its fields as text, and the types of its fields.

Sources: PostgreSQL documentation, "Composite Type Input and Output Syntax"; record_send in PostgreSQL's rowtypes.c.
"""

from __future__ import annotations

import struct
from typing import Final

_FIELD: Final = struct.Struct("!Ii")
_COUNT: Final = struct.Struct("!I")


def fields(text: str) -> list[str | None]:
    """The fields of a record's text, None for NULL."""
    found, part, place = list[str | None](), list[str](), 1
    is_quoted = is_within = False
    while place < len(text):
        character = text[place]
        if is_within:
            if character in '"\\' and text[place + 1 : place + 2] == character:
                part.append(character)
                place += 1
            elif character == '"':
                is_within = False
            else:
                part.append(character)
        elif character == '"':
            is_quoted = is_within = True
        elif character in ",)":
            found.append("".join(part) if part or is_quoted else None)
            part.clear()
            is_quoted = False
        else:
            part.append(character)
        place += 1
    return found


def field_types(sent: bytes) -> list[int]:
    """The OIDs of the fields' types, from the record's binary form."""
    [count] = _COUNT.unpack_from(sent)
    found, place = list[int](), _COUNT.size
    for _ in range(count):
        oid, length = _FIELD.unpack_from(sent, place)
        found.append(oid)
        place += _FIELD.size + max(0, length)
    return found
