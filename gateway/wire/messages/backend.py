"""The messages that a server sends.

Source: PostgreSQL 18 documentation, "Message Formats", those marked (B) and (F & B), and "Error and Notice Message
Fields".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from catalog.errors import SluiceError, SqlState
from gateway.wire.messages.copy import CopyBothResponse, CopyData, CopyDone, CopyInResponse, CopyOutResponse
from gateway.wire.messages.layout import (
    BYTE,
    ERROR_FIELD,
    FRAME_HEADER_BYTES,
    INT32,
    INT32_FORM,
    LARGE_LIMIT,
    REST,
    SMALL_LIMIT,
    STRING,
    UINT32_FORM,
    VALUE,
    VALUES,
    Cursor,
    Message,
    Part,
    counted,
    encode_string,
    index,
    overflowing,
    until_nul,
    values_at,
    violation,
)


class Authentication(Message):
    """An authentication request or result, distinguished by `code`."""

    __slots__ = ()
    type = ord("R")


@dataclass(frozen=True, slots=True)
class AuthenticationOk(Authentication):
    code = 0


@dataclass(frozen=True, slots=True)
class AuthenticationSASL(Authentication):
    mechanisms: tuple[str, ...]
    code = 10
    layout = (until_nul(STRING),)


@dataclass(frozen=True, slots=True)
class AuthenticationSASLContinue(Authentication):
    data: bytes
    code = 11
    layout = (REST,)


@dataclass(frozen=True, slots=True)
class AuthenticationSASLFinal(Authentication):
    data: bytes
    code = 12
    layout = (REST,)


AUTHENTICATION: Final[dict[int | None, type[Authentication]]] = {
    row.code: row for row in Authentication.__subclasses__() if row.code is not None
}


@dataclass(frozen=True, slots=True)
class ParameterStatus(Message):
    name: str
    value: str
    layout = (STRING, STRING)


@dataclass(frozen=True, slots=True)
class BackendKeyData(Message):
    """`key` has 4 bytes in protocol 3.0, up to 256 from 3.2 on."""

    process_id: int
    key: bytes
    layout = (INT32, REST)


@dataclass(frozen=True, slots=True)
class ReadyForQuery(Message):
    """`status` is b"I" idle, b"T" in a transaction, b"E" in a failed one."""

    status: bytes
    layout = (BYTE,)


@dataclass(frozen=True, slots=True)
class FieldDescription:
    """One column of a RowDescription. `table_oid` and `attribute` are 0 for other columns than a table's."""

    name: str
    table_oid: int
    attribute: int
    type_oid: int
    type_length: int
    typmod: int
    format: int = 0


_FIELD_NUMBERS: Final = struct.Struct("!IhIhih")


def _encode_field(field: FieldDescription) -> bytes:
    return encode_string(field.name) + _FIELD_NUMBERS.pack(
        field.table_oid, field.attribute, field.type_oid, field.type_length, field.typmod, field.format
    )


def _decode_field(cursor: Cursor) -> FieldDescription:
    return FieldDescription(cursor.string(), *_FIELD_NUMBERS.unpack(cursor.take(_FIELD_NUMBERS.size)))


@dataclass(frozen=True, slots=True)
class RowDescription(Message):
    columns: tuple[FieldDescription, ...]
    layout = (counted(Part(_encode_field, _decode_field)),)


@dataclass(frozen=True, slots=True)
class ParameterDescription(Message):
    """PostgreSQL truncates the count above 65,535 parameters, but sends all of their types."""

    types: tuple[int, ...]
    layout = (overflowing(UINT32_FORM),)


@dataclass(frozen=True, slots=True)
class DataRow(Message):
    """One row; `gateway.values.encode_rows` encodes many."""

    values: tuple[bytes | None, ...]
    layout = (VALUES,)


def row_values(frame: bytes) -> tuple[bytes | None, ...]:
    """The values of a DataRow, of which these are all bytes."""
    values, end = values_at(frame, FRAME_HEADER_BYTES)
    if end != len(frame):
        raise violation("invalid message format", severity="ERROR")
    return values


@dataclass(frozen=True, slots=True)
class CommandComplete(Message):
    tag: str
    layout = (STRING,)


@dataclass(frozen=True, slots=True)
class EmptyQueryResponse(Message):
    pass


@dataclass(frozen=True, slots=True)
class NoData(Message):
    pass


@dataclass(frozen=True, slots=True)
class PortalSuspended(Message):
    pass


@dataclass(frozen=True, slots=True)
class ParseComplete(Message):
    pass


@dataclass(frozen=True, slots=True)
class BindComplete(Message):
    pass


@dataclass(frozen=True, slots=True)
class CloseComplete(Message):
    pass


@dataclass(frozen=True, slots=True)
class ErrorResponse(Message):
    """`fields` are (field code, text) in the order sent."""

    fields: tuple[tuple[str, str], ...]
    layout = (until_nul(ERROR_FIELD),)

    @classmethod
    def from_error(cls, error: SluiceError) -> Self:
        return cls(tuple(error.fields.items()))

    def to_error(self) -> SluiceError:
        """The same error to raise; it keeps every field, also those without a name in SluiceError."""
        texts = dict(self.fields)
        error = SluiceError(
            texts.get("C", SqlState.INTERNAL_ERROR),
            texts.get("M", ""),
            severity=texts.get("V", texts.get("S", "ERROR")),
        )
        error.fields = texts
        return error


@dataclass(frozen=True, slots=True)
class NoticeResponse(Message):
    fields: tuple[tuple[str, str], ...]
    layout = (until_nul(ERROR_FIELD),)

    @classmethod
    def of(cls, severity: str, sqlstate: str, message: str, **more: str) -> Self:
        """`severity` is NOTICE, WARNING, INFO, LOG or DEBUG; `more` maps other field codes to their texts."""
        return cls((("S", severity), ("V", severity), ("C", sqlstate), ("M", message), *more.items()))


@dataclass(frozen=True, slots=True)
class NotificationResponse(Message):
    process_id: int
    channel: str
    payload: str
    layout = (INT32, STRING, STRING)


@dataclass(frozen=True, slots=True)
class NegotiateProtocolVersion(Message):
    """`version` is the newest that the server speaks, as in StartupMessage; `options` are the unknown ones."""

    version: int
    options: tuple[str, ...]

    def body(self) -> bytes:
        return (
            UINT32_FORM.pack(self.version)
            + INT32_FORM.pack(len(self.options))
            + b"".join(map(encode_string, self.options))
        )

    @classmethod
    def decode(cls, body: bytes | bytearray, *, strict: bool = True, start: int = 0) -> Self:
        cursor = Cursor(body, strict=strict, place=start)
        version, count = cursor.integer(UINT32_FORM), cursor.integer(INT32_FORM)
        if not 0 <= count <= len(body):
            raise violation("invalid message format")
        options = tuple([cursor.string() for _ in range(count)])
        if cursor.place != len(body):
            raise violation("invalid message format")
        return cls(version, options)


@dataclass(frozen=True, slots=True)
class FunctionCallResponse(Message):
    value: bytes | None
    layout = (VALUE,)


BACKEND: Final = index(
    ("S", LARGE_LIMIT, ParameterStatus),
    ("K", LARGE_LIMIT, BackendKeyData),
    ("Z", LARGE_LIMIT, ReadyForQuery),
    ("T", LARGE_LIMIT, RowDescription),
    ("t", LARGE_LIMIT, ParameterDescription),
    ("D", LARGE_LIMIT, DataRow),
    ("C", LARGE_LIMIT, CommandComplete),
    ("I", LARGE_LIMIT, EmptyQueryResponse),
    ("n", LARGE_LIMIT, NoData),
    ("s", LARGE_LIMIT, PortalSuspended),
    ("1", LARGE_LIMIT, ParseComplete),
    ("2", LARGE_LIMIT, BindComplete),
    ("3", LARGE_LIMIT, CloseComplete),
    ("E", LARGE_LIMIT, ErrorResponse),
    ("N", LARGE_LIMIT, NoticeResponse),
    ("A", LARGE_LIMIT, NotificationResponse),
    ("v", LARGE_LIMIT, NegotiateProtocolVersion),
    ("V", LARGE_LIMIT, FunctionCallResponse),
    ("G", LARGE_LIMIT, CopyInResponse),
    ("H", LARGE_LIMIT, CopyOutResponse),
    ("W", LARGE_LIMIT, CopyBothResponse),
    ("d", LARGE_LIMIT, CopyData),
    ("c", SMALL_LIMIT, CopyDone),
)


def decode_backend(type: int, body: bytes) -> Message:
    """Decode a message of a PostgreSQL server."""
    if type == Authentication.type:
        if len(body) < 4:
            raise violation("insufficient data left in message")
        code = UINT32_FORM.unpack_from(body)[0]
        kind = AUTHENTICATION.get(code)
        if kind is None:
            raise violation(f"unknown authentication request {code}")
        return kind.decode(body[4:], strict=False)
    message = BACKEND.get(type)
    if message is None:
        raise violation(f"invalid backend message type {type}")
    return message.decode(body, strict=False)
