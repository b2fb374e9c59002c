"""The messages of COPY, in both directions.

Source: PostgreSQL 18 documentation, "Message Formats" and "COPY Operations".
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.wire.messages.layout import BYTE, INT16, REST, STRING, Message, counted


@dataclass(frozen=True, slots=True)
class CopyData(Message):
    data: bytes
    layout = (REST,)


@dataclass(frozen=True, slots=True)
class CopyDone(Message):
    pass


@dataclass(frozen=True, slots=True)
class CopyFail(Message):
    message: str
    layout = (STRING,)


@dataclass(frozen=True, slots=True)
class CopyResponse(Message):
    """`format` is b"\\0" for text and csv, b"\\1" for binary; `column_formats` one code per column."""

    format: bytes
    column_formats: tuple[int, ...]
    layout = (BYTE, counted(INT16))


class CopyInResponse(CopyResponse):
    __slots__ = ()


class CopyOutResponse(CopyResponse):
    __slots__ = ()


class CopyBothResponse(CopyResponse):
    __slots__ = ()
