"""A client's connection: frames in, bytes out, with backpressure."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final

from catalog.errors import SluiceError
from gateway.client.loop_turns import LoopTurns
from gateway.client.message_thread import aside
from gateway.client.response_encoding import Copies, Described, Outgoing, Piece, Relayed
from gateway.wire.framing import LARGE_BYTES, Frame, FrameReader
from gateway.wire.messages.backend import ErrorResponse, FieldDescription, NoticeResponse
from gateway.wire.messages.layout import Message

_READ_BYTES: Final = 1 << 17
# What may wait in memory for a client that does not read; `drain` waits above it.
_WRITE_BYTES_MAX: Final = 1 << 20


class ClientGoneError(Exception):
    """The client has closed its connection, or it broke."""


class Client:
    """One socket. `frame` is the only reader; writers call `drain` as often as they write much.

    `peer` is the address that it came from, known from the start: a socket that has been reset tells none any more.
    `sent_bytes` counts what has been queued for the client: what was said cannot be taken back.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, peer: str, encrypted: bool
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._held: deque[Frame] = deque()  # that were taken, and are to be taken again
        self._turns = LoopTurns()
        self.peer = peer
        self.encrypted = encrypted
        self.sent_bytes = 0
        self._outgoing: Outgoing | None = None
        self._pieces: list[Piece] = []
        self._converting = False
        writer.transport.set_write_buffer_limits(high=_WRITE_BYTES_MAX)

    @property
    def application_protocol(self) -> str | None:
        """What TLS has agreed on by ALPN."""
        tls = self._writer.get_extra_info("ssl_object")
        return None if tls is None else tls.selected_alpn_protocol()

    async def exactly(self, count: int) -> bytes:
        """So many bytes of what has no frames: of the startup phase."""
        try:
            return await self._reader.readexactly(count)
        except (OSError, EOFError):
            raise ClientGoneError from None

    async def sasl_body(self) -> bytes:
        """The body of the next message, which has to be one of a SASL exchange."""
        while (body := self._frames.next_sasl()) is None:
            await self._feed()
        return body

    async def frame(self) -> Frame:
        """The next frame that the client sent. May be cancelled without loss."""
        await self.give_way()
        while (frame := self.at_hand()) is None:
            await self._feed()
        return frame

    async def give_way(self) -> None:
        """Let others have the event loop, where this session has had it for its turn."""
        await self._turns.give_way()

    def at_hand(self) -> Frame | None:
        """The next frame, where it has come as a whole."""
        return self._held.popleft() if self._held else self._frames.next_frame()

    def hold(self, frame: Frame) -> None:
        """`frame` is to be the next once more."""
        self._held.appendleft(frame)

    async def copy_data(self) -> bytes:
        """The payloads of the CopyData frames at hand, waiting for one; empty where another frame is next."""
        await self.give_way()
        while not self._held and not (data := self._frames.next_copy_data()):
            if (frame := self._frames.next_frame()) is not None:
                self.hold(frame)
                return b""
            await self._feed()
        return b"" if self._held else data

    @property
    def has_more(self) -> bool:
        """Whether bytes of a further message are at hand."""
        return bool(self._held) or self._frames.buffered > 0

    @property
    def next_type(self) -> int | None:
        """The type of the next message, as far as it is at hand."""
        return self._held[0].type if self._held else self._frames.next_type

    async def _feed(self) -> None:
        try:
            data = await self._reader.read(_READ_BYTES)
        except OSError:
            raise ClientGoneError from None
        if not data:
            raise ClientGoneError
        self._turns.begin()
        self._frames.feed(data)

    def convert(self, outgoing: Outgoing) -> None:
        """From now on, what is written may have to be converted on its way."""
        self._outgoing = outgoing

    def write(self, data: bytes | memoryview) -> None:
        """Queue bytes of messages, cut anywhere, whose texts are in UTF-8."""
        if self._writer.is_closing():
            raise ClientGoneError
        self.sent_bytes += len(data)
        if self._waits or (self._outgoing is not None and self._outgoing.is_needed):
            self._pieces.append(bytes(data))
        else:
            self._writer.write(data)

    def relay(self, data: bytes | memoryview) -> None:
        """Queue bytes as the client is to get them."""
        if self._writer.is_closing():
            raise ClientGoneError
        self.sent_bytes += len(data)
        if self._waits:
            self._pieces.append(Relayed(bytes(data)))
        else:
            self._writer.write(data)

    async def relay_whole(self, data: bytes) -> None:
        """Relay a message of any size, of which the client takes a part at a time."""
        view = memoryview(data)
        for start in range(0, len(data), _WRITE_BYTES_MAX):
            self.relay(view[start : start + _WRITE_BYTES_MAX])
            if start:
                await self.drain()

    def describe(self, columns: tuple[FieldDescription, ...] | None, *, copies: Copies = Copies.AS_THEY_ARE) -> None:
        """Say of what columns the rows are that come next."""
        if self._waits or (self._outgoing is not None and self._outgoing.is_needed):
            self._pieces.append(Described(columns, copies))

    @property
    def _waits(self) -> bool:
        """Whether something waits to be converted, so that all else has to wait behind it."""
        return bool(self._pieces) or self._converting

    async def settle(self) -> None:
        """Convert what waits for that. 22P05 where it cannot be: then what comes behind it is not sent."""
        while self._pieces and not self._converting:
            assert self._outgoing is not None
            pieces, self._pieces = self._pieces, []
            self._converting = True
            try:
                async for data in self._outgoing.converted(pieces):
                    self._writer.write(data)
            finally:
                self._converting = False

    def send(self, *messages: Message) -> None:
        """Queue messages."""
        self.write(b"".join(message.encode() for message in messages))

    def send_aside(self, notice: NoticeResponse) -> None:
        """Queue a notice that is no part of an answer: the statement may still be carried out anew after it."""
        before = self.sent_bytes
        self.send(notice)
        self.sent_bytes = before

    def send_error(self, error: SluiceError) -> None:
        """Queue an ErrorResponse."""
        self.send(ErrorResponse.from_error(error))

    async def say_error(self, error: SluiceError) -> None:
        """Queue an ErrorResponse, of which the client takes a part at a time where it is large."""
        message = ErrorResponse.from_error(error)
        is_large = sum(len(text) for _, text in message.fields) >= LARGE_BYTES
        data = memoryview(await aside(ErrorResponse.encode, message, is_large=is_large))
        for start in range(0, len(data), _WRITE_BYTES_MAX):
            self.write(data[start : start + _WRITE_BYTES_MAX])
            if start:
                await self.drain()

    async def drain(self) -> None:
        """Wait until the client has taken most of what is queued."""
        await self.settle()
        try:
            await self._writer.drain()
        except OSError:
            raise ClientGoneError from None

    async def close(self) -> None:
        """Send what is queued and close."""
        with suppress(
            OSError, TimeoutError, SluiceError, ClientGoneError
        ):  # a peer that does not read any more is no error of ours
            await asyncio.wait_for(self.drain(), 1.0)
        self._writer.close()


class StandIn(Client):
    """Takes what a statement says, in UTF-8, in place of a client, which still sends what it sends. `write` and `send`
    are its own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.peer = client.peer
        self.encrypted = client.encrypted
        self.sent_bytes = client.sent_bytes

    def describe(self, columns: tuple[FieldDescription, ...] | None, *, copies: Copies = Copies.AS_THEY_ARE) -> None:
        self._client.describe(columns, copies=copies)

    def relay(self, data: bytes | memoryview) -> None:
        self._client.relay(data)

    async def relay_whole(self, data: bytes) -> None:
        await self._client.relay_whole(data)

    async def settle(self) -> None:
        await self._client.settle()

    @property
    def has_more(self) -> bool:
        return self._client.has_more

    @property
    def next_type(self) -> int | None:
        return self._client.next_type
