"""Encodes the gateway's own statements as messages for the backend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from gateway.backend.own_message import MARK
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.client.message_thread import aside
from gateway.wire.framing import HEADER, HEADER_BYTES, LARGE_BYTES
from gateway.wire.messages import frontend
from gateway.wire.messages.copy import CopyDone
from gateway.wire.messages.layout import Message

# CloseCompletes after each statement of the gateway; the last one ends its answers.
CLOSES_AFTER: Final = 2
# CloseCompletes of `closing`.
CLOSES_BEFORE: Final = 2
# CloseCompletes of a statement with the Closes before it.
CLOSES: Final = CLOSES_BEFORE + CLOSES_AFTER
# Texts up to this length are kept in encoded form.
_KEPT_TEXT_MAX: Final = 4096
# A value takes as long to encode as this many bytes.
_VALUE_COST: Final = 256


# What texts of the gateway begin with. Texts of clients stay as they are: pg_prepared_statements, pg_cursors and
# current_query() show them.
_COMMENTED: Final = (
    MARK, "SELECT pg_catalog.", "SELECT pg_sluice.", "SAVEPOINT ", "ROLLBACK", "RELEASE ", "BEGIN", "COMMIT", "SET ",
    "SHOW ", "TRUNCATE ", "DROP TABLE pg_temp.", "\nSELECT pg_catalog.",
)  # fmt: skip
_COPY_DONE: Final = CopyDone().encode()
_QUALIFIED: Final = "OPERATOR(pg_catalog."
_LOOKED_AT: Final = 1000


def is_large(statement: Statement) -> bool:
    """Whether encoding takes long."""
    size = (
        len(statement.sql)
        + len(statement.copied)
        + sum(len(value) for value in statement.parameters if value is not None)
    )
    return size >= LARGE_BYTES


def encoded(statements: Sequence[Statement], comment: bytes = b"") -> list[bytes]:
    """The messages of the statements, without the Closes before them. Large ones stay in parts, because joining them
    takes time. The comment stands in the gateway's own texts.
    """
    small: list[bytes] = []
    parts: list[bytes] = []
    for statement in statements:
        if is_large(statement):
            parts += [b"".join(small), *_parts(statement, OWN, comment)]
            small.clear()
        else:
            small += _parts(statement, OWN, comment)
    return [*parts, b"".join(small)]


def encode_statement(statement: Statement, comment: bytes = b"") -> bytes:
    """Parse, Bind and Execute under the gateway's own names, which leave the client's unnamed ones alone.

    Both names outlive an error (the portal until ROLLBACK), so they are closed before and after.
    """
    return b"".join(encoded_parts(statement, comment=comment))


def closing() -> bytes:
    """The Closes of the gateway's own names."""
    return _around(OWN)[0]


def encoded_parts(statement: Statement, name: str = OWN, comment: bytes = b"") -> tuple[bytes, bytes, bytes]:
    """The messages up to Parse, Bind and Execute, and the messages after them."""
    parse, execute, after = _parts(statement, name, comment)
    return _around(name)[0] + parse, execute, after


def _parts(statement: Statement, name: str, comment: bytes) -> tuple[bytes, bytes, bytes]:
    """`encoded_parts` without the Closes before Parse."""
    values = tuple(value.encode() if isinstance(value, str) else value for value in statement.parameters)
    types, formats = tuple(statement.parameter_types), tuple(statement.parameter_formats)
    _, execute, after = _around(name)
    if statement.copied:  # PostgreSQL skips them after an error, as it does all messages up to Sync
        execute += statement.copied + _COPY_DONE
    if statement.prepared is not None:
        bind = frontend.Bind(name, statement.prepared, formats, values, (statement.result_format,)).encode()
        return b"", bind + execute, after
    parse = (_kept_parse if len(statement.sql) <= _KEPT_TEXT_MAX else _parse)(name, statement.sql, types)
    if comment and not statement.of_client and _is_own(statement.sql):
        parse = _commented(parse, name, statement.sql, comment)
    bind = (_bind if values else _kept_bind)(name, formats, values, statement.result_format)
    return parse, bind + execute, after


@lru_cache(8)
def _around(name: str) -> tuple[bytes, bytes, bytes]:
    """The messages that close the names before Parse, execute the portal, and close the names again."""
    statement, portal = frontend.Close(b"S", name).encode(), frontend.Close(b"P", name).encode()
    return statement + portal, frontend.Execute(name).encode(), portal + statement


def _is_own(sql: str) -> bool:
    return sql.startswith(_COMMENTED) or (sql.startswith("SELECT ") and _QUALIFIED in sql[:_LOOKED_AT])


def _commented(parse: bytes, name: str, sql: str, comment: bytes) -> bytes:
    """The Parse with a comment in its text, behind the one that names a function (gateway/backend/own_message.py)."""
    place = HEADER_BYTES + len(name) + 1
    if sql.startswith(MARK):
        place = parse.index(b"*/", place) + 2
    return HEADER.pack(parse[0], len(parse) + len(comment) - 1) + parse[HEADER_BYTES:place] + comment + parse[place:]


def _parse(name: str, sql: str, types: tuple[int, ...]) -> bytes:
    return frontend.Parse(name, sql, types).encode()


def _bind(name: str, formats: tuple[int, ...], values: tuple[bytes | None, ...], result_format: int) -> bytes:
    return frontend.Bind(name, name, formats, values, (result_format,)).encode()


# Most statements repeat.
_kept_parse: Final = lru_cache(1024)(_parse)
_kept_bind: Final = lru_cache(64)(_bind)


async def encode_messages(messages: Sequence[Message]) -> list[bytes]:
    """Encode messages of the extended protocol; large ones off the event loop."""
    return [await aside(_encoded, message, is_large=takes_long(message)) for message in messages]


def _encoded(message: Message) -> bytes:
    return message.encode()


def takes_long(message: Message) -> bool:
    """Whether encoding the message takes long."""
    match message:
        case frontend.Bind(parameters=values):
            return sum(len(value or b"") for value in values) + len(values) * _VALUE_COST >= LARGE_BYTES
        case frontend.Parse(query=sql):
            return len(sql) >= LARGE_BYTES
        case _:
            return False
