"""Relays the client's data of a COPY … FROM STDIN to the backend, and listens to both sides.

PostgreSQL reports a bad row at once, while the client still sends. The client's later messages are then not part of
the COPY: data is ignored, a Sync counts, and a Query is executed. Only the backend knows at which message the error
fell.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from gateway.backend.own_names import OWN
from gateway.wire.framing import Frame, UnknownTypeError
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import CloseComplete, ErrorResponse, ReadyForQuery
from gateway.wire.messages.copy import CopyDone, CopyFail
from gateway.wire.messages.layout import Message, violation
from gateway.wire.states import COPYING_IN, TABLE, Action, State

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# PostgreSQL's error when the gateway ends a COPY to learn whether it still runs.
_STILL_COPIES: Final = "the gateway has met another message"
_SYNC: Final = frontend.Sync().encode()
_SYNC_FRAME: Final = Frame(frontend.Sync.type, _SYNC)


def may_come(state: State, kind: type[Message]) -> bool:
    """Whether a message is allowed in a COPY. Terminate is not."""
    return kind in TABLE[state].received


def out_of_place(session: SessionContext, type_byte: int) -> SluiceError:
    """Tell the client that a message is not allowed in a COPY; return the error that ends the connection."""
    session.client.send_error(
        violation(f"unexpected message type 0x{type_byte:02X} during COPY from stdin", severity="ERROR")
    )
    return violation("terminating connection because protocol synchronization was lost")


class CopyRelay:
    """Relays the session's COPY statements, one after another."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        # The Syncs sent to the backend within this COPY. The backend ignores them, unless the COPY has failed before.
        self._syncs = 0

    def begin(self) -> None:
        """The backend asks for data, or has all of it."""
        self._syncs = 0

    async def feed(self) -> None:
        """Pass data on until the backend answers or has all data."""
        session = self._session
        while session.machine.state in COPYING_IN and not session.backend.has_more:
            try:
                frame = await self._next_frame()
            except UnknownTypeError as error:
                await self._refuse(error.type)
                return
            if frame is None:
                return
            kind = frontend.FRONTEND[frame.type]
            if not may_come(session.machine.state, kind):
                session.client.hold(frame)
                await self._refuse(frame.type)
                return
            extended = session.machine.state is State.EXTENDED_COPY_IN
            if session.machine.received(kind) is Action.PROCESS:
                session.backend.send(frame.data)
            elif frame.type == frontend.Sync.type:
                self._syncs += 1
                session.backend.send(frame.data)
            if extended and frame.type in (CopyDone.type, CopyFail.type):
                session.backend.send(frontend.Flush().encode())

    async def _next_frame(self) -> Frame | None:
        """The client's next message; None if the backend answers first."""
        session = self._session
        news = session.backend.reading()
        while session.backend.is_behind and not news.done():
            drained = asyncio.create_task(session.backend.drain())
            try:
                await asyncio.wait((drained, news), return_when=asyncio.FIRST_COMPLETED)
            finally:
                drained.cancel()
        if news.done():
            return None
        await session.client.give_way()
        if (frame := session.client.at_hand()) is not None:
            return frame
        await session.client.drain()
        message = asyncio.create_task(session.client.frame())
        try:
            await asyncio.wait((message, news), return_when=asyncio.FIRST_COMPLETED)
            return message.result() if message.done() else None
        finally:
            message.cancel()

    async def _refuse(self, type_byte: int) -> None:
        """Handle a message that is not allowed in a COPY. PostgreSQL ends the connection for it. If the COPY had
        failed before, that error is sent, and the message is handled next.
        """
        session = self._session
        session.backend.send(CopyFail(_STILL_COPIES).encode())
        while True:
            item = await session.backend.next()
            if not isinstance(item, Frame) or item.type != ErrorResponse.type:
                session.forward_item(item)
                continue
            error = ErrorResponse.decode(item.body, strict=False).to_error()
            if not error.message.endswith(_STILL_COPIES):
                session.backend.put_back(item)
                return
            raise out_of_place(session, type_byte)

    async def failed(self) -> None:
        """The COPY failed at the backend: the Syncs after the error count and are handled again."""
        syncs, self._syncs = self._syncs, 0
        if not syncs:
            return
        session = self._session
        simple = session.machine.state is State.SIMPLE_QUERY
        mark = frontend.Close(b"P", OWN).encode() + _SYNC
        session.backend.send(mark if simple else _SYNC + mark)
        ready = 0
        while True:
            item = await session.backend.next()
            assert isinstance(item, Frame)
            if item.type == CloseComplete.type:
                break
            if item.type == ReadyForQuery.type:
                ready += 1
            else:
                session.forward_item(item)
        for _ in range(min(syncs, ready - 1)):
            session.client.hold(_SYNC_FRAME)
        if simple:
            return  # the last one ends the query
        while not isinstance(item := await session.backend.next(), Frame) or item.type != ReadyForQuery.type:
            session.forward_item(item)
