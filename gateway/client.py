"""A client's connection: frames in, bytes out, with backpressure."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Final

from catalog.errors import SluiceError
from gateway.framing import Frame, FrameReader
from gateway.messages.backend import ErrorResponse, FieldDescription, NoticeResponse
from gateway.messages.layout import Message
from gateway.outgoing import Copies, Described, Outgoing, Piece, Relayed

_READ_BYTES: Final = 1 << 17
# What may wait in memory for a client that does not read; `drain` waits above it.
_WRITE_BYTES_MAX: Final = 1 << 20


class ClientGoneError(Exception):
    """The client has closed its connection, or it broke."""


class Client:
    """One socket. `frame` is the only reader; writers call `drain` as often as they write much.

    `sent_bytes` counts what has been queued for the client: what was said cannot be taken back.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._held: Frame | None = None
        self.encrypted = False
        self.sent_bytes = 0
        self._outgoing: Outgoing | None = None
        self._pieces: list[Piece] = []
        self._converting = False
        writer.transport.set_write_buffer_limits(high=_WRITE_BYTES_MAX)

    @property
    def peer(self) -> str:
        """The peer's address; empty for a Unix socket."""
        name = self._writer.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) else ""

    async def startup_body(self) -> bytes:
        """The body of a message of the startup phase."""
        while (body := self._frames.next_startup()) is None:
            await self._feed()
        return body

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Begin TLS; bytes that came before it are an attack (CVE-2021-23214) and end the connection."""
        if self._frames.buffered:
            raise ClientGoneError
        await self._writer.start_tls(context)
        self._writer.transport.set_write_buffer_limits(high=_WRITE_BYTES_MAX)
        self.encrypted = True

    async def frame(self) -> Frame:
        """The next frame that the client sent. May be cancelled without loss."""
        held, self._held = self._held, None
        if held is not None:
            return held
        while (frame := self._frames.next_frame()) is None:
            await self._feed()
        return frame

    async def copy_data(self) -> bytes:
        """The payloads of the CopyData frames at hand, waiting for one; empty where another frame is next."""
        while not (data := self._frames.next_copy_data()):
            self._held = self._frames.next_frame()
            if self._held is not None:
                return b""
            await self._feed()
        return data

    @property
    def has_more(self) -> bool:
        """Whether bytes of a further message are at hand."""
        return self._held is not None or self._frames.buffered > 0

    @property
    def next_type(self) -> int | None:
        """The type of the next message, as far as it is at hand."""
        return self._frames.next_type if self._held is None else self._held.type

    async def _feed(self) -> None:
        try:
            data = await self._reader.read(_READ_BYTES)
        except OSError:
            raise ClientGoneError from None
        if not data:
            raise ClientGoneError
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
        self.encrypted = client.encrypted
        self.sent_bytes = client.sent_bytes

    def describe(self, columns: tuple[FieldDescription, ...] | None, *, copies: Copies = Copies.AS_THEY_ARE) -> None:
        self._client.describe(columns, copies=copies)

    def relay(self, data: bytes | memoryview) -> None:
        self._client.relay(data)

    async def settle(self) -> None:
        await self._client.settle()

    @property
    def has_more(self) -> bool:
        return self._client.has_more

    @property
    def next_type(self) -> int | None:
        return self._client.next_type
