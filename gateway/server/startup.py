"""Reads the start of a connection, through TLS or not, up to a StartupMessage or a CancelRequest.

It reads from the bare socket, and never more than the next packet. So a silent connection needs little memory. Bytes
sent before TLS are not taken for encrypted ones (CVE-2021-23214), and TLS may begin with the first byte.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway.client.connection import Client, ClientGoneError
from gateway.wire.messages import startup
from gateway.wire.messages.backend import ErrorResponse

# The name of PostgreSQL's protocol in TLS (ALPN).
APPLICATION_PROTOCOL: Final = "postgresql"
# The first byte of a TLS handshake; no startup packet is long enough to begin with it.
_HANDSHAKE: Final = 0x16
_ENCRYPTED: Final = b"S"
_NOT_ENCRYPTED: Final = b"N"
_FAREWELL_SECONDS_MAX: Final = 1.0
# Errors that a client gets before its first packet is complete: as in PostgreSQL, only its own mistakes.
_MISTAKES: Final = frozenset({SqlState.PROTOCOL_VIOLATION, SqlState.FEATURE_NOT_SUPPORTED})


class Arrival:
    """One connection, up to its first request. `close` it in any case."""

    def __init__(self, connection: socket.socket, peer: str, tls: ssl.SSLContext | None) -> None:
        self._socket = connection
        self._peer = peer
        self._tls = tls
        self._client: Client | None = None
        self._has_said = False

    async def wish(self) -> startup.StartupMessage | startup.CancelRequest:
        """Handle SSLRequest and GSSENCRequest, or immediate TLS, until the client's request."""
        if self._tls is not None and await self._first_byte() == _HANDSHAKE:
            encrypted = await self._encrypt(self._tls)
            if encrypted.application_protocol != APPLICATION_PROTOCOL:
                raise ClientGoneError  # PostgreSQL requires it here, and closes without a message too
        while True:
            message = startup.decode_startup(await self._body())
            match message:
                case startup.SSLRequest() if self._tls is not None and self._client is None:
                    await self._say(_ENCRYPTED)
                    await self._encrypt(self._tls)
                case startup.SSLRequest() | startup.GSSENCRequest():
                    await self._say(_NOT_ENCRYPTED)
                case startup.StartupMessage() | startup.CancelRequest():
                    self._has_said = True
                    return message
                case _:
                    raise SluiceError(SqlState.PROTOCOL_VIOLATION, "invalid startup packet", severity="FATAL")

    async def client(self) -> Client:
        """The connection from here on."""
        if self._client is None:
            self._client = await self._stream(None)
        return self._client

    def refuse(self, error: SluiceError) -> None:
        """Send the last message to a client, which may be gone."""
        if isinstance(error, startup.UnansweredError):
            self._leave_nothing_unread()
            return
        if not self._has_said and error.sqlstate not in _MISTAKES:
            return
        with suppress(OSError, ClientGoneError):
            if self._client is not None:
                self._client.send_error(error)
            else:
                self._socket.send(ErrorResponse.from_error(error).encode())

    def _leave_nothing_unread(self) -> None:
        """What has come is read: else closing would reset the connection, and PostgreSQL ends it in order."""
        if self._client is None:
            with suppress(OSError):
                self._socket.recv(startup.STARTUP_LIMIT)

    async def close(self) -> None:
        """Close the connection, after sending what is queued."""
        if self._client is not None:
            await self._client.close()
        else:
            self._socket.close()

    async def _first_byte(self) -> int:
        """Peek at the first byte: TLS needs to read it again."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                first = self._socket.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                readable = asyncio.Event()
                loop.add_reader(self._socket, readable.set)
                try:
                    await readable.wait()
                finally:
                    loop.remove_reader(self._socket)
                continue
            except OSError:
                raise ClientGoneError from None
            if not first:
                raise ClientGoneError
            return first[0]

    async def _body(self) -> bytes:
        """The body of the next startup packet."""
        header = await self._exactly(startup.HEADER_BYTES)
        return await self._exactly(startup.body_length(header))

    async def _exactly(self, count: int) -> bytes:
        if self._client is not None:
            return await self._client.exactly(count)
        loop = asyncio.get_running_loop()
        found = b""
        while len(found) < count:
            try:
                data = await loop.sock_recv(self._socket, count - len(found))
            except OSError:
                raise ClientGoneError from None
            if not data:
                raise ClientGoneError
            found += data
        return found

    async def _say(self, answer: bytes) -> None:
        if self._client is not None:
            self._client.write(answer)
            await self._client.drain()
            return
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, answer)
        except OSError:
            raise ClientGoneError from None

    async def _encrypt(self, tls: ssl.SSLContext) -> Client:
        self._client = await self._stream(tls)
        return self._client

    async def _stream(self, tls: ssl.SSLContext | None) -> Client:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                self._socket,
                ssl=tls,
                ssl_shutdown_timeout=None if tls is None else _FAREWELL_SECONDS_MAX,
            )
        except OSError:  # ssl.SSLError is one
            raise ClientGoneError from None
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        return Client(reader, writer, peer=self._peer, encrypted=tls is not None)
