"""Reads and replaces the texts of a message, to convert them to another encoding.

Bytes that are not UTF-8 are kept as surrogates, and so written unchanged (`Message.decode`, not strict).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Final, TypeVar

from gateway.wire.messages.backend import ErrorResponse, NoticeResponse, RowDescription
from gateway.wire.messages.layout import Message

_M = TypeVar("_M", bound=Message)


def texts_of(message: Message) -> list[bytes]:
    """All texts as they are written, in the order of `with_texts`."""
    read, _ = _INSIDE.get(type(message), (_read_own, _put_own))
    return [text.encode("utf-8", "surrogateescape") for text in read(message)]


def with_texts(message: _M, texts: Sequence[bytes]) -> _M:
    """The same message with other texts."""
    _, put = _INSIDE.get(type(message), (_read_own, _put_own))
    changed = put(message, iter([text.decode("utf-8", "surrogateescape") for text in texts]))
    assert isinstance(changed, type(message))
    return changed


def _own(message: Message) -> list[str]:
    return [field.name for field in fields(message) if isinstance(getattr(message, field.name), str)]  # type: ignore[arg-type]


def _read_own(message: Message) -> list[str]:
    return [getattr(message, name) for name in _own(message)]


def _put_own(message: Message, texts: Iterator[str]) -> Message:
    return replace(message, **{name: next(texts) for name in _own(message)})  # type: ignore[type-var]


def _read_fields(message: Message) -> list[str]:
    assert isinstance(message, ErrorResponse | NoticeResponse)
    return [text for _, text in message.fields]


def _put_fields(message: Message, texts: Iterator[str]) -> Message:
    assert isinstance(message, ErrorResponse | NoticeResponse)
    return replace(message, fields=tuple((code, next(texts)) for code, _ in message.fields))


def _read_columns(message: Message) -> list[str]:
    assert isinstance(message, RowDescription)
    return [column.name for column in message.columns]


def _put_columns(message: Message, texts: Iterator[str]) -> Message:
    assert isinstance(message, RowDescription)
    return replace(message, columns=tuple(replace(column, name=next(texts)) for column in message.columns))


_INSIDE: Final[
    dict[type[Message], tuple[Callable[[Message], list[str]], Callable[[Message, Iterator[str]], Message]]]
] = {
    ErrorResponse: (_read_fields, _put_fields),
    NoticeResponse: (_read_fields, _put_fields),
    RowDescription: (_read_columns, _put_columns),
}
