"""COPY at the session's backend, for the gateway itself: rows of its own, and trials of what a client asks for.

In the extended protocol, for a simple query would take the client's unnamed statement away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway.backend import Backend, Statement
from gateway.encoded_statement import encode_statement, encoded_parts
from gateway.framing import Frame
from gateway.messages import frontend
from gateway.messages.backend import (
    CommandComplete,
    ErrorResponse,
    NoticeResponse,
    NotificationResponse,
    ParameterStatus,
    ReadyForQuery,
)
from gateway.messages.copy import CopyData, CopyDone, CopyFail, CopyInResponse

_COPY_BYTES: Final = 1 << 20
# What PostgreSQL says when the gateway ends a trial.
_TRIED: Final = "only tried by the gateway"


def copy_data(data: bytes | memoryview) -> bytes:
    """The data of a COPY as messages."""
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
    """Carry out a COPY … FROM STDIN; `messages` are its CopyData, whole, without `in_utf8` in the client's encoding.
    What PostgreSQL remarks is put in `notices`, also where it fails."""
    prepared, executed, end = encoded_parts(Statement(sql))
    switch, switch_back = backend.switching
    if in_utf8:
        begin, end = switch + prepared + executed, end + switch_back
    else:
        begin = switch + prepared + switch_back + executed
    backend.send(begin + frontend.Flush().encode())
    error: SluiceError | None = None
    sent = False
    while True:
        frame = await backend.next()
        assert isinstance(frame, Frame)
        if frame.type == ReadyForQuery.type:
            break
        if frame.type == ErrorResponse.type:
            error = ErrorResponse.decode(frame.body, strict=False).to_error()
            if not sent:
                backend.send(frontend.Sync().encode())
        elif frame.type == NoticeResponse.type and notices is not None:
            notices.append(NoticeResponse.decode(frame.body, strict=False))
        elif frame.type == CopyInResponse.type and not sent:
            sent = True
            for start in range(0, len(messages), _COPY_BYTES):
                backend.send(messages[start : start + _COPY_BYTES])
                await backend.drain()
            backend.send(CopyDone().encode() + end + frontend.Sync().encode())
    if error is not None:
        raise error


async def copy_pieces(  # noqa: C901  one case for each kind of answer
    backend: Backend,
    sql: str,
    pieces: AsyncIterator[bytes],
    keep: Callable[[bytes | memoryview], Awaitable[None]],
    *,
    in_utf8: bool,
) -> str:
    """Carry out a COPY … FROM STDIN of data that comes in pieces; its tag. PostgreSQL's notices are kept."""
    prepared, executed, end = encoded_parts(Statement(sql))
    switch, switch_back = backend.switching
    begin = switch + prepared + executed if in_utf8 else switch + prepared + switch_back + executed
    end = end + switch_back if in_utf8 else end
    backend.send(begin + frontend.Flush().encode())
    feeding: asyncio.Task[None] | None = None
    error: SluiceError | None = None
    tag = ""

    async def feed() -> None:
        async for piece in pieces:
            if error is not None:
                break
            backend.send(copy_data(piece))
            await backend.drain()
        backend.send(CopyDone().encode() + end + frontend.Sync().encode())

    try:
        while True:
            frame = await backend.next()
            assert isinstance(frame, Frame)
            if frame.type == ReadyForQuery.type:
                break
            if frame.type == ErrorResponse.type:
                error = ErrorResponse.decode(frame.body, strict=False).to_error()
                if feeding is None:
                    backend.send(frontend.Sync().encode())
            elif frame.type == NoticeResponse.type:
                await keep(frame.data)
            elif frame.type == CommandComplete.type:
                said = CommandComplete.decode(frame.body, strict=False).tag
                tag = said if said.startswith("COPY") else tag
            elif frame.type in (ParameterStatus.type, NotificationResponse.type):
                backend.forward(frame.data)
            elif frame.type == CopyInResponse.type and feeding is None:
                feeding = asyncio.create_task(feed())
        if feeding is not None:
            await feeding
    finally:
        if feeding is not None:
            feeding.cancel()
    if error is not None:
        raise error
    return tag


async def try_copy(
    backend: Backend, sql: str, before: Sequence[Statement] = (), after: Sequence[Statement] = ()
) -> SluiceError | None:
    """Let PostgreSQL begin a COPY, of which it is to get no data, between statements that take it back.

    Raises what PostgreSQL refuses; returns what it would refuse once it has asked for data.
    """
    *begin, _ = encoded_parts(Statement(sql))
    sync = frontend.Sync().encode()
    switch, switch_back = backend.switching
    trial = b"".join((*map(encode_statement, before), switch, *begin, CopyFail(_TRIED).encode(), switch_back, sync))
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
    """What a simple query does first: the last portal without a name goes, and the snapshot that it holds."""
    backend.send(frontend.Close(b"P", "").encode() + frontend.Sync().encode())
    while True:
        item = await backend.next()
        if isinstance(item, Frame) and item.type == ReadyForQuery.type:
            return
