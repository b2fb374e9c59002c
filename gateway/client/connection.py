"""A client's connection: incoming frames and outgoing bytes, with backpressure."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final

from catalog.errors import SluiceError
from gateway.client.loop_turns import LoopTurns
from gateway.client.message_thread import aside
from gateway.client.response_encoding import Copies, Described, Piece, Relayed, ResponseEncoding
from gateway.wire.framing import LARGE_BYTES, Frame, FrameReader
from gateway.wire.messages.backend import CommandComplete, ErrorResponse, FieldDescription
from gateway.wire.messages.layout import Message

_READ_BYTES: Final = 1 << 17
# Bytes that may wait in memory for a slow client; above it, `drain` waits.
_WRITE_BYTES_MAX: Final = 1 << 20


class ClientGoneError(Exception):
    """The client has closed its connection, or the connection is broken."""


class Client:
    """One socket. `frame` is the only reader; writers call `drain` after large writes.

    `peer` is the client's address, read at the beginning, because a socket that was reset has none. `sent_bytes`
    counts the bytes queued for the client, which cannot be taken back.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, peer: str, encrypted: bool
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._held: deque[Frame] = deque()  # frames to return again
        self._turns = LoopTurns()
        self.peer = peer
        self.encrypted = encrypted
        self.sent_bytes = 0
        self._outgoing: ResponseEncoding | None = None
        self._pieces: list[Piece] = []
        self._converting = False
        # Set while a CommandComplete waits for the end of its transaction; then what came, encoded.
        self._awaiting: list[bytes] | None = None
        writer.transport.set_write_buffer_limits(high=_WRITE_BYTES_MAX)

    @property
    def application_protocol(self) -> str | None:
        """The protocol that TLS has agreed on by ALPN."""
        tls = self._writer.get_extra_info("ssl_object")
        return None if tls is None else tls.selected_alpn_protocol()

    async def exactly(self, count: int) -> bytes:
        """The next `count` bytes, for the startup phase, which has no frames."""
        try:
            return await self._reader.readexactly(count)
        except (OSError, EOFError):
            raise ClientGoneError from None

    async def sasl_body(self) -> bytes:
        """The body of the next message, which must belong to a SASL exchange."""
        while (body := self._frames.next_sasl()) is None:
            await self._feed()
        return body

    async def frame(self) -> Frame:
        """The client's next frame. May be cancelled without loss."""
        await self.give_way()
        while (frame := self.at_hand()) is None:
            await self._feed()
        return frame

    async def give_way(self) -> None:
        """Let other tasks run, after this session's turn on the event loop."""
        await self._turns.give_way()

    def at_hand(self) -> Frame | None:
        """The next frame, if it has been received completely."""
        return self._held.popleft() if self._held else self._frames.next_frame()

    def hold(self, frame: Frame) -> None:
        """Make `frame` return this one again."""
        self._held.appendleft(frame)

    async def copy_data(self) -> bytes:
        """The payloads of the received CopyData frames, after waiting for one; empty if another frame is next."""
        await self.give_way()
        while not self._held and not (data := self._frames.next_copy_data()):
            if (frame := self._frames.next_frame()) is not None:
                self.hold(frame)
                return b""
            await self._feed()
        return b"" if self._held else data

    @property
    def has_more(self) -> bool:
        """Whether bytes of a further message have been received."""
        return bool(self._held) or self._frames.buffered > 0

    @property
    def next_type(self) -> int | None:
        """The type of the next message, if it has been received."""
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

    def convert(self, outgoing: ResponseEncoding) -> None:
        """From now on, convert written texts if the client's encoding needs it."""
        self._outgoing = outgoing

    def write(self, data: bytes | memoryview) -> None:
        """Queue bytes of messages, cut anywhere, with texts in UTF-8."""
        if self._writer.is_closing():
            raise ClientGoneError
        self.sent_bytes += len(data)
        if self._waits or (self._outgoing is not None and self._outgoing.is_needed):
            self._pieces.append(bytes(data))
        else:
            self._writer.write(data)

    def relay(self, data: bytes | memoryview) -> None:
        """Queue bytes that need no conversion."""
        if self._writer.is_closing():
            raise ClientGoneError
        self.sent_bytes += len(data)
        if self._waits:
            self._pieces.append(Relayed(bytes(data)))
        else:
            self._writer.write(data)

    async def relay_whole(self, data: bytes) -> None:
        """Relay a message of any size, part by part as the client reads it."""
        view = memoryview(data)
        for start in range(0, len(data), _WRITE_BYTES_MAX):
            self.relay(view[start : start + _WRITE_BYTES_MAX])
            if start:
                await self.drain()

    def describe(self, columns: tuple[FieldDescription, ...] | None, *, copies: Copies = Copies.AS_THEY_ARE) -> None:
        """Announce the columns of the next rows."""
        if self._waits or (self._outgoing is not None and self._outgoing.is_needed):
            self._pieces.append(Described(columns, copies))

    @property
    def _waits(self) -> bool:
        """Whether bytes wait for conversion, so that later ones must wait too."""
        return bool(self._pieces) or self._converting

    async def settle(self) -> None:
        """Convert waiting bytes. Raises 22P05 if a character has no equivalent; the bytes from there on are
        not sent.
        """
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
        if self._awaiting is not None and messages and isinstance(messages[-1], CommandComplete):
            self._awaiting.append(messages[-1].encode())
            messages = messages[:-1]
        self.write(b"".join(message.encode() for message in messages))

    def await_commit(self) -> None:
        """From now on, keep the CommandComplete that comes until the transaction has ended."""
        self._awaiting = []

    def keep_tag(self, data: bytes) -> bool:
        """Whether a relayed CommandComplete is kept."""
        if self._awaiting is None:
            return False
        self._awaiting.append(data)
        return True

    def committed(self, *, good: bool) -> None:
        """The transaction has ended: queue the CommandComplete that was kept if it has committed."""
        kept, self._awaiting = self._awaiting, None
        if kept and good:
            self.write(b"".join(kept))

    def send_error(self, error: SluiceError) -> None:
        """Queue an ErrorResponse."""
        self.send(ErrorResponse.from_error(error))

    async def say_error(self, error: SluiceError) -> None:
        """Queue an ErrorResponse; a large one is sent part by part as the client reads it."""
        message = ErrorResponse.from_error(error)
        is_large = sum(len(text) for _, text in message.fields) >= LARGE_BYTES
        data = memoryview(await aside(ErrorResponse.encode, message, is_large=is_large))
        for start in range(0, len(data), _WRITE_BYTES_MAX):
            self.write(data[start : start + _WRITE_BYTES_MAX])
            if start:
                await self.drain()

    async def drain(self) -> None:
        """Wait until the client has read most of the queue."""
        await self.settle()
        try:
            await self._writer.drain()
        except OSError:
            raise ClientGoneError from None

    async def close(self) -> None:
        """Send the queue and close."""
        with suppress(
            OSError, TimeoutError, SluiceError, ClientGoneError
        ):  # a client that does not read any more is no error here
            await asyncio.wait_for(self.drain(), 1.0)
        self._writer.close()


class StandIn(Client):
    """Takes a statement's answers, in UTF-8, in place of a client, which still sends its messages. Subclasses define
    `write` and `send`.
    """

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
