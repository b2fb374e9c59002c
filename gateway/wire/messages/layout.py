"""The layout of messages: parts that are written and read in order, and the base class of all messages.

Reading raises 08P01, with PostgreSQL's own words, for malformed bytes, and 22021 for text that is not UTF-8. The
limits are those of `SocketBackend` in PostgreSQL's postgres.c.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Final, Self, cast

from catalog.errors import SluiceError, SqlState

SMALL_LIMIT: Final = 10_000
AUTHENTICATION_LIMIT: Final = 65_535
SASL_LIMIT: Final = 1024 - 4  # PG_MAX_SASL_MESSAGE_LENGTH counts the length itself
LARGE_LIMIT: Final = 0x3FFF_FFFE

INT16_FORM: Final = struct.Struct("!h")
UINT16_FORM: Final = struct.Struct("!H")
INT32_FORM: Final = struct.Struct("!i")
UINT32_FORM: Final = struct.Struct("!I")
_HEADER: Final = struct.Struct("!BI")
FRAME_HEADER_BYTES: Final = _HEADER.size
_SLICE: Final = 1 << 22


def violation(message: str, *, severity: str = "FATAL") -> SluiceError:
    """The error for a peer that violates the protocol."""
    return SluiceError(SqlState.PROTOCOL_VIOLATION, message, severity=severity)


class Cursor:
    """A position in a message's body, which begins at `place`."""

    __slots__ = ("data", "place", "strict")

    def __init__(self, data: bytes | bytearray, *, strict: bool, place: int = 0) -> None:
        self.data = data
        self.place = place
        self.strict = strict

    def take(self, length: int) -> bytes:
        end = self.place + length
        if length < 0 or end > len(self.data):
            raise violation("insufficient data left in message", severity="ERROR")
        taken = bytes(self._up_to(end))
        self.place = end
        return taken

    def _up_to(self, end: int) -> bytes | memoryview:
        """The bytes up to `end`; those of a bytearray, as a large message has, are copied once."""
        return (self.data if isinstance(self.data, bytes) else memoryview(self.data))[self.place : end]

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.place)

    def integer(self, form: struct.Struct) -> int:
        value: int = form.unpack(self.take(form.size))[0]
        return value

    def string(self) -> str:
        end = find_nul(self.data, self.place)
        if end < 0:
            raise violation("invalid string in message", severity="ERROR")
        raw = self._up_to(end)
        self.place = end + 1
        return text_from(raw) if self.strict else str(raw, "utf-8", "surrogateescape")


def find_nul(data: bytes | bytearray, start: int) -> int:
    """The position of the next NUL, or -1. It searches slice by slice, so that a thread does not block others."""
    for place in range(start, len(data), _SLICE):
        found = data.find(0, place, place + _SLICE)
        if found >= 0:
            return found
    return -1


def text_from(raw: bytes | memoryview) -> str:
    """UTF-8 text, or PostgreSQL's error 22021 naming the first bad byte sequence."""
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError as error:
        # PostgreSQL shows as many bytes as the first one announces (pg_utf_mblen).
        first = raw[error.start]
        announced = 1 + (first & 0xE0 == 0xC0) + 2 * (first & 0xF0 == 0xE0) + 3 * (first & 0xF8 == 0xF0)
        shown = " ".join(f"0x{byte:02x}" for byte in raw[error.start : error.start + announced])
        raise SluiceError(
            SqlState.CHARACTER_NOT_IN_REPERTOIRE, f'invalid byte sequence for encoding "UTF8": {shown}'
        ) from None


@dataclass(frozen=True, slots=True)
class Part:
    """Writes and reads one field of a message."""

    encode: Callable[[Any], bytes]
    decode: Callable[[Cursor], Any]


def encode_string(value: str) -> bytes:
    """UTF-8 and a NUL. Raises ValueError for a text that holds a NUL."""
    raw = value.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise ValueError("a protocol string cannot hold a NUL")
    return raw + b"\0"


def _integer(form: struct.Struct) -> Part:
    return Part(form.pack, lambda cursor: cursor.integer(form))


def fixed(length: int) -> Part:
    """As many bytes."""
    return Part(bytes, lambda cursor: cursor.take(length))


def counted(part: Part) -> Part:
    """A 16-bit count and as many parts; a tuple."""

    def encode(values: tuple[Any, ...]) -> bytes:
        return b"".join((UINT16_FORM.pack(len(values)), *map(part.encode, values)))

    def decode(cursor: Cursor) -> tuple[Any, ...]:
        return tuple([part.decode(cursor) for _ in range(cursor.integer(UINT16_FORM))])

    return Part(encode, decode)


def overflowing(form: struct.Struct) -> Part:
    """The last 16 bits of a count, and numbers up to the message's end; a tuple."""

    def encode(values: tuple[int, ...]) -> bytes:
        return UINT16_FORM.pack(len(values) & 0xFFFF) + b"".join(map(form.pack, values))

    def decode(cursor: Cursor) -> tuple[int, ...]:
        count = cursor.integer(UINT16_FORM)
        raw = cursor.rest()
        if len(raw) % form.size or (len(raw) // form.size - count) & 0xFFFF:
            raise violation("invalid message format", severity="ERROR")
        return tuple(value for (value,) in form.iter_unpack(raw))

    return Part(encode, decode)


def until_nul(part: Part) -> Part:
    """Parts that begin with a byte other than NUL, then a NUL; a tuple."""

    def encode(values: tuple[Any, ...]) -> bytes:
        return b"".join((*map(part.encode, values), b"\0"))

    def decode(cursor: Cursor) -> tuple[Any, ...]:
        found = []
        while cursor.data[cursor.place : cursor.place + 1] != b"\0":
            found.append(part.decode(cursor))
        cursor.place += 1
        return tuple(found)

    return Part(encode, decode)


def _encode_value(value: bytes | None) -> bytes:
    return INT32_FORM.pack(-1) if value is None else INT32_FORM.pack(len(value)) + value


def _decode_value(cursor: Cursor) -> bytes | None:
    length = cursor.integer(INT32_FORM)
    return None if length == -1 else cursor.take(length)


def _encode_error_field(field: tuple[str, str]) -> bytes:
    return field[0].encode("latin-1") + encode_string(field[1])


def _decode_error_field(cursor: Cursor) -> tuple[str, str]:
    return cursor.take(1).decode("latin-1"), cursor.string()


STRING: Final = Part(encode_string, Cursor.string)
REST: Final = Part(bytes, Cursor.rest)
BYTE: Final = fixed(1)
INT16: Final = _integer(INT16_FORM)
INT32: Final = _integer(INT32_FORM)
UINT32: Final = _integer(UINT32_FORM)
VALUE: Final = Part(_encode_value, _decode_value)


def values_at(data: bytes | bytearray, place: int) -> tuple[tuple[bytes | None, ...], int]:
    """`counted(VALUE)` that begins at `place`, and the place behind it. In one loop: every row that the gateway itself
    reads is such a message.
    """
    size = len(data)
    if place + UINT16_FORM.size > size:
        raise violation("insufficient data left in message", severity="ERROR")
    count = UINT16_FORM.unpack_from(data, place)[0]
    place += UINT16_FORM.size
    view = data if isinstance(data, bytes) else memoryview(data)
    found: list[bytes | None] = []
    for _ in range(count):
        start = place + INT32_FORM.size
        length = INT32_FORM.unpack_from(data, place)[0] if start <= size else 0
        place = start + max(length, 0)
        if length < -1 or place > size:
            raise violation("insufficient data left in message", severity="ERROR")
        found.append(None if length < 0 else bytes(view[start:place]))
    return tuple(found), place


def _decode_values(cursor: Cursor) -> tuple[bytes | None, ...]:
    found, cursor.place = values_at(cursor.data, cursor.place)
    return found


VALUES: Final = Part(counted(VALUE).encode, _decode_values)
PAIR: Final = Part(
    lambda pair: encode_string(pair[0]) + encode_string(pair[1]), lambda cursor: (cursor.string(), cursor.string())
)
ERROR_FIELD: Final = Part(_encode_error_field, _decode_error_field)


class Message:
    """A protocol message. `type` is its type byte (0 in the startup phase, without one), `limit` the greatest length
    of its body. `code` is the number at the body's beginning in messages that it distinguishes.
    """

    __slots__ = ()
    type: ClassVar[int] = 0
    code: ClassVar[int | None] = None
    limit: ClassVar[int] = LARGE_LIMIT
    layout: ClassVar[tuple[Part, ...]] = ()

    def body(self) -> bytes:
        pieces = [] if self.code is None else [UINT32_FORM.pack(self.code)]
        names = _field_names(type(self))  # type: ignore[arg-type]
        pieces += [part.encode(getattr(self, name)) for part, name in zip(self.layout, names, strict=True)]
        return b"".join(pieces)

    def encode(self) -> bytes:
        """The whole frame: type byte (if any), length, body."""
        body = self.body()
        if self.type == 0:
            return UINT32_FORM.pack(len(body) + 4) + body
        return _HEADER.pack(self.type, len(body) + 4) + body

    @classmethod
    def decode(cls, body: bytes | bytearray, *, strict: bool = True, start: int = 0) -> Self:
        """Decode a body (without the code, if any), which begins at `start`. `strict` requires UTF-8, see the
        module.
        """
        if not cls.layout and start == len(body):
            return cast(Self, _without_fields(cls))  # type: ignore[arg-type]
        cursor = Cursor(body, strict=strict, place=start)
        values = [part.decode(cursor) for part in cls.layout]
        if cursor.place != len(body):
            raise violation("invalid message format", severity="ERROR")
        return cls(*values)


@cache
def _without_fields(message: type[Message]) -> Message:
    """The message of a class without fields: messages do not change."""
    return message()


@cache
def _field_names(message: type) -> tuple[str, ...]:
    """The names of a dataclass's fields."""
    return tuple(field.name for field in fields(message))


def index(*rows: tuple[str, int, type[Message]]) -> dict[int, type[Message]]:
    """Give each class its type byte and limit, and index them by type byte."""
    table: dict[int, type[Message]] = {}
    for letter, limit, message in rows:
        type_byte = ord(letter)
        assert type_byte not in table, f"{letter} is listed twice"
        assert message.type in (0, type_byte), f"{message.__name__} has two type bytes"
        assert message.type == 0 or message.limit == limit, f"{message.__name__} has two limits"
        message.type, message.limit = type_byte, limit
        table[type_byte] = message
    return table
