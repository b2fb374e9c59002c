"""The messages that a client sends after startup.

Source: PostgreSQL 18 documentation, "Message Formats", those marked (F) and (F & B).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.wire.messages.copy import CopyData, CopyDone, CopyFail
from gateway.wire.messages.layout import (
    AUTHENTICATION_LIMIT,
    BYTE,
    INT16,
    INT32,
    LARGE_LIMIT,
    REST,
    SASL_LIMIT,
    SMALL_LIMIT,
    STRING,
    UINT32,
    VALUE,
    VALUES,
    Message,
    counted,
    index,
    violation,
)


@dataclass(frozen=True, slots=True)
class Query(Message):
    query: str
    layout = (STRING,)


@dataclass(frozen=True, slots=True)
class Parse(Message):
    statement: str
    query: str
    parameter_types: tuple[int, ...] = ()
    layout = (STRING, STRING, counted(UINT32))


@dataclass(frozen=True, slots=True)
class Bind(Message):
    portal: str
    statement: str
    parameter_formats: tuple[int, ...] = ()
    parameters: tuple[bytes | None, ...] = ()
    result_formats: tuple[int, ...] = ()
    layout = (STRING, STRING, counted(INT16), VALUES, counted(INT16))


@dataclass(frozen=True, slots=True)
class Describe(Message):
    """`kind` is b"S" for a prepared statement, b"P" for a portal."""

    kind: bytes
    name: str
    layout = (BYTE, STRING)


@dataclass(frozen=True, slots=True)
class Execute(Message):
    """`limit_rows` 0 is no limit."""

    portal: str
    limit_rows: int = 0
    layout = (STRING, INT32)


@dataclass(frozen=True, slots=True)
class Close(Message):
    """`kind` as in Describe."""

    kind: bytes
    name: str
    layout = (BYTE, STRING)


@dataclass(frozen=True, slots=True)
class Flush(Message):
    pass


@dataclass(frozen=True, slots=True)
class Sync(Message):
    pass


@dataclass(frozen=True, slots=True)
class Terminate(Message):
    pass


@dataclass(frozen=True, slots=True)
class FunctionCall(Message):
    function: int
    argument_formats: tuple[int, ...]
    arguments: tuple[bytes | None, ...]
    result_format: int
    layout = (UINT32, counted(INT16), VALUES, INT16)


@dataclass(frozen=True, slots=True)
class AuthenticationData(Message):
    """Any message `p`; its kind depends on the server's request, so decode `data` as that kind."""

    data: bytes
    layout = (REST,)


@dataclass(frozen=True, slots=True)
class PasswordMessage(Message):
    password: str
    type = ord("p")
    limit = AUTHENTICATION_LIMIT
    layout = (STRING,)


@dataclass(frozen=True, slots=True)
class SASLInitialResponse(Message):
    mechanism: str
    response: bytes | None
    type = ord("p")
    limit = SASL_LIMIT
    layout = (STRING, VALUE)


@dataclass(frozen=True, slots=True)
class SASLResponse(Message):
    data: bytes
    type = ord("p")
    limit = SASL_LIMIT
    layout = (REST,)


FRONTEND: Final = index(
    ("Q", LARGE_LIMIT, Query),
    ("P", LARGE_LIMIT, Parse),
    ("B", LARGE_LIMIT, Bind),
    ("D", SMALL_LIMIT, Describe),
    ("E", SMALL_LIMIT, Execute),
    ("C", SMALL_LIMIT, Close),
    ("H", SMALL_LIMIT, Flush),
    ("S", SMALL_LIMIT, Sync),
    ("X", SMALL_LIMIT, Terminate),
    ("F", LARGE_LIMIT, FunctionCall),
    ("p", AUTHENTICATION_LIMIT, AuthenticationData),
    ("d", LARGE_LIMIT, CopyData),
    ("c", SMALL_LIMIT, CopyDone),
    ("f", SMALL_LIMIT, CopyFail),
)


def decode_frontend(type: int, body: bytes) -> Message:
    """Decode a client's message after startup. `p` is returned as AuthenticationData."""
    message = FRONTEND.get(type)
    if message is None:
        raise violation(f"invalid frontend message type {type}")
    return message.decode(body)
