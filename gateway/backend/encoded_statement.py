"""Statements of the gateway's own as messages to the backend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gateway.backend.own_names import OWN
from gateway.client.message_thread import aside
from gateway.wire.framing import LARGE_BYTES
from gateway.wire.messages import frontend
from gateway.wire.messages.layout import Message

if TYPE_CHECKING:
    from gateway.backend.connection import Statement

# How many CloseCompletes a statement of the gateway's own brings: the last one ends its answers.
CLOSES: Final = 4
# Texts of so many characters are kept in their encoded form.
_KEPT_TEXT_MAX: Final = 4096
# A value takes as long to encode as so many bytes.
_VALUE_COST: Final = 256


def is_large(statement: Statement) -> bool:
    """Whether it takes more than a moment to encode."""
    size = len(statement.sql) + sum(len(value) for value in statement.parameters if value is not None)
    return size >= LARGE_BYTES


def encoded(statements: Sequence[Statement]) -> list[bytes]:
    """Large ones stay parts, for it takes time to put them together."""
    small: list[bytes] = []
    parts: list[bytes] = []
    for statement in statements:
        if is_large(statement):
            parts += [b"".join(small), *encoded_parts(statement)]
            small.clear()
        else:
            small.append(encode_statement(statement))
    return [*parts, b"".join(small)]


def encode_statement(statement: Statement) -> bytes:
    """Parse, Bind, Execute under the gateway's own names, which leave the client's unnamed ones alone.

    Both outlive an error (the portal until ROLLBACK), so the names are freed before as well as after.
    """
    return b"".join(encoded_parts(statement))


def encoded_parts(statement: Statement, name: str = OWN) -> tuple[bytes, bytes, bytes]:
    """Everything up to Parse, Bind and Execute, and what comes after them."""
    values = tuple(value.encode() if isinstance(value, str) else value for value in statement.parameters)
    types, formats = tuple(statement.parameter_types), tuple(statement.parameter_formats)
    before, execute, after = _around(name)
    parse = (_kept_parse if len(statement.sql) <= _KEPT_TEXT_MAX else _parse)(name, statement.sql, types)
    bind = (_bind if values else _kept_bind)(name, formats, values, statement.result_format)
    return before + parse, bind + execute, after


@lru_cache(8)
def _around(name: str) -> tuple[bytes, bytes, bytes]:
    """What frees the names before Parse, what executes the portal, and what frees the names again."""
    statement, portal = frontend.Close(b"S", name).encode(), frontend.Close(b"P", name).encode()
    return statement + portal, frontend.Execute(name).encode(), portal + statement


def _parse(name: str, sql: str, types: tuple[int, ...]) -> bytes:
    return frontend.Parse(name, sql, types).encode()


def _bind(name: str, formats: tuple[int, ...], values: tuple[bytes | None, ...], result_format: int) -> bytes:
    return frontend.Bind(name, name, formats, values, (result_format,)).encode()


# Most statements are the same again and again.
_kept_parse: Final = lru_cache(1024)(_parse)
_kept_bind: Final = lru_cache(64)(_bind)


async def encode_messages(messages: Sequence[Message]) -> list[bytes]:
    """Messages of the extended protocol; large ones are encoded off the event loop."""
    return [await aside(_encoded, message, is_large=_takes_long(message)) for message in messages]


def _encoded(message: Message) -> bytes:
    return message.encode()


def _takes_long(message: Message) -> bool:
    match message:
        case frontend.Bind(parameters=values):
            return sum(len(value or b"") for value in values) + len(values) * _VALUE_COST >= LARGE_BYTES
        case frontend.Parse(query=sql):
            return len(sql) >= LARGE_BYTES
        case _:
            return False
