"""COPY at the session's backend for the gateway: to write its own rows, and to try a client's COPY.

It uses the extended protocol, because a simple query would drop the client's unnamed statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from catalog.background import end
from catalog.errors import SluiceError, SqlState
from gateway.backend.answers_to_the_end import to_the_end, until_ready
from gateway.backend.connection import Backend, BackendLostError
from gateway.backend.encoded_statement import encode_statement, encoded_parts
from gateway.backend.own_statement import Statement
from gateway.wire.framing import Frame
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import (
    CommandComplete,
    ErrorResponse,
    NoticeResponse,
    NotificationResponse,
    ParameterStatus,
    ReadyForQuery,
)
from gateway.wire.messages.copy import CopyData, CopyDone, CopyFail, CopyInResponse
from gateway.wire.messages.layout import Message

_COPY_BYTES: Final = 1 << 20
# Data up to this size are sent together with the statement.
_AT_ONCE_BYTES: Final = 1 << 16
# PostgreSQL's error when the gateway ends a trial.
_TRIED: Final = "only tried by the gateway"


def copy_data(data: bytes | memoryview) -> bytes:
    """A COPY's data as messages."""
    starts = range(0, len(data), _COPY_BYTES)
    return b"".join(CopyData(bytes(data[start : start + _COPY_BYTES])).encode() for start in starts)


async def copy_in(
    backend: Backend,
    sql: str,
    messages: bytes,
    notices: list[NoticeResponse] | None = None,
    *,
    in_utf8: bool = True,
) -> None:
    """Execute a COPY … FROM STDIN. `messages` are its complete CopyData messages; without `in_utf8` they are in the
    client's encoding. PostgreSQL's notices are added to `notices`, also after an error.
    """

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(messages), _COPY_BYTES):
            yield messages[start : start + _COPY_BYTES]

    whole = messages if len(messages) <= _AT_ONCE_BYTES else b""

    async def note(frame: Frame) -> None:
        if notices is not None:
            notices.append(NoticeResponse.decode(frame.body, strict=False))

    await _copy(backend, sql, parts(), note, in_utf8=in_utf8, whole=whole)


async def copy_pieces(
    backend: Backend,
    sql: str,
    pieces: AsyncIterator[bytes],
    keep: Callable[[bytes | memoryview], Awaitable[None]],
    *,
    in_utf8: bool,
) -> str:
    """Execute a COPY whose data comes in pieces; return its tag. PostgreSQL's notices are kept."""

    async def parts() -> AsyncIterator[bytes]:
        async for piece in pieces:
            yield copy_data(piece)

    async def note(frame: Frame) -> None:
        await keep(frame.data)

    return await _copy(backend, sql, parts(), note, in_utf8=in_utf8)


class _Feeding:
    """Sends a COPY's messages, then its end: CopyFail, if it is stopped or the data fails. Nothing else is sent
    meanwhile.
    """

    def __init__(self, backend: Backend, messages: AsyncIterator[bytes], after: bytes) -> None:
        self._backend = backend
        self._messages = messages
        self._after = after
        self._ended = False
        self.failed = False  # PostgreSQL accepts no more messages

    def begin(self, statement: bytes, whole: bytes) -> None:
        """Send the statement, with all its data if they are given as a whole."""
        if whole:
            self.end(CopyDone(), before=statement + whole)
        else:
            self._backend.send(statement + frontend.Flush().encode())

    async def run(self) -> None:
        if self._ended:
            return
        try:
            async for message in self._messages:
                if self.failed:
                    break
                self._backend.send(message)
                await self._backend.drain()
        except BaseException:
            self.end(CopyFail("the gateway has stopped"))
            raise
        self.end(CopyDone())

    def end(self, *last: Message, before: bytes = b"") -> None:
        """Send what comes `before`, the last message and Sync, once."""
        if not self._ended:
            self._ended = True
            ending = b"".join(each.encode() for each in last) + self._after + frontend.Sync().encode()
            self._backend.send(before + ending)


async def _copy(
    backend: Backend,
    sql: str,
    messages: AsyncIterator[bytes],
    note: Callable[[Frame], Awaitable[None]],
    *,
    in_utf8: bool,
    whole: bytes = b"",
) -> str:
    """Execute a COPY … FROM STDIN with these CopyData messages; return its tag. A few messages as a `whole` do not wait
    for PostgreSQL to ask: after an error it skips them, as it does all messages up to Sync.
    """
    prepared, executed, closed = encoded_parts(Statement(sql))
    switch, switch_back = backend.switching
    begin = prepared + executed if in_utf8 else prepared + switch_back + executed
    feeding = _Feeding(backend, messages, closed + switch_back if in_utf8 else closed)
    feeding.begin(switch + begin, whole)
    task: asyncio.Task[None] | None = None
    error: SluiceError | None = None
    tag = ""
    try:
        while (frame := await _next_frame(backend)).type != ReadyForQuery.type:
            if frame.type == ErrorResponse.type:
                error = ErrorResponse.decode(frame.body, strict=False).to_error()
                feeding.failed = True
                if task is None:
                    feeding.end()
            elif frame.type == NoticeResponse.type:
                await note(frame)
            elif frame.type == CommandComplete.type:
                said = CommandComplete.decode(frame.body, strict=False).tag
                tag = said if said.startswith("COPY") else tag
            elif frame.type in (ParameterStatus.type, NotificationResponse.type):
                backend.forward(frame.data)
            elif frame.type == CopyInResponse.type and task is None:
                task = asyncio.create_task(feeding.run())
    except BackendLostError:
        await end(task)
        raise
    except BaseException:
        await end(task)
        feeding.end(CopyFail("the gateway has stopped"))
        await backend.give_up()
        raise
    backend.at_rest = True
    if task is not None:
        await task
    if error is not None:
        raise error
    return tag


async def _next_frame(backend: Backend) -> Frame:
    frame = await backend.next()
    assert isinstance(frame, Frame)
    return frame


async def try_copy(
    backend: Backend, sql: str, before: Sequence[Statement] = (), after: Sequence[Statement] = ()
) -> SluiceError | None:
    """Let PostgreSQL begin a COPY without data, between statements that undo it.

    Raises PostgreSQL's refusal; returns the error that PostgreSQL would raise after asking for data.
    """
    *begin, closed = encoded_parts(Statement(sql))
    sync = frontend.Sync().encode()
    switch, switch_back = backend.switching
    begins, ends = (*map(encode_statement, before), switch, *begin), (closed, switch_back, sync)
    trial = b"".join((*begins, CopyFail(_TRIED).encode(), *ends))
    undo = b"".join(map(encode_statement, after)) + sync
    backend.send(trial + undo)
    asked, left = False, 2
    errors: list[SluiceError] = []
    try:
        while left:
            item = await backend.next()
            if not isinstance(item, Frame):
                continue  # a header line
            if item.type == ReadyForQuery.type:
                left -= 1
            elif item.type == CopyInResponse.type:
                asked = True
            elif item.type == ErrorResponse.type:
                errors.append(ErrorResponse.decode(item.body, strict=False).to_error())
            elif item.type in (ParameterStatus.type, NotificationResponse.type):
                backend.forward(item.data)
    except asyncio.CancelledError:
        for _ in range(left):
            await backend.give_up()
        raise
    for error in errors:
        if not asked:
            raise error
        if error.sqlstate != SqlState.QUERY_CANCELED or not error.message.endswith(_TRIED):
            return error
    return None


async def close_unnamed_portal(backend: Backend) -> None:
    """Close the unnamed portal, with its snapshot, as a simple query does first."""
    backend.send(frontend.Close(b"P", "").encode() + frontend.Sync().encode())
    await to_the_end(backend, until_ready(backend))
