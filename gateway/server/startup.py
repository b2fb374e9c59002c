"""How a connection begins: from its first byte to a StartupMessage or a CancelRequest, through TLS or not.

It is read from the bare socket, and never more than is due. So one of which nothing comes holds next to nothing, what
is sent in front of TLS is not taken for what is said within (CVE-2021-23214), and TLS may begin with the first byte.
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

# What TLS calls PostgreSQL's protocol (ALPN).
APPLICATION_PROTOCOL: Final = "postgresql"
# The first byte of a TLS handshake: no startup packet is so long that its length begins with it.
_HANDSHAKE: Final = 0x16
_ENCRYPTED: Final = b"S"
_NOT_ENCRYPTED: Final = b"N"
_FAREWELL_SECONDS_MAX: Final = 1.0
# What a client is told that has not said yet what it wants: as in PostgreSQL, its own mistakes alone.
_MISTAKES: Final = frozenset({SqlState.PROTOCOL_VIOLATION, SqlState.FEATURE_NOT_SUPPORTED})


class Arrival:
    """One connection, up to what it wants. `close` it, however it went."""

    def __init__(self, connection: socket.socket, peer: str, tls: ssl.SSLContext | None) -> None:
        self._socket = connection
        self._peer = peer
        self._tls = tls
        self._client: Client | None = None
        self._has_said = False

    async def wish(self) -> startup.StartupMessage | startup.CancelRequest:
        """Go through SSLRequest and GSSENCRequest, or TLS at once, to what the client wants."""
        if self._tls is not None and await self._first_byte() == _HANDSHAKE:
            encrypted = await self._encrypt(self._tls)
            if encrypted.application_protocol != APPLICATION_PROTOCOL:
                raise ClientGoneError  # PostgreSQL demands it here, and says no word either
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
        """The last word to a client, which may not be there any more."""
        if not self._has_said and error.sqlstate not in _MISTAKES:
            return
        with suppress(OSError, ClientGoneError):
            if self._client is not None:
                self._client.send_error(error)
            else:
                self._socket.send(ErrorResponse.from_error(error).encode())

    async def close(self) -> None:
        """End the connection, with what is still to be sent."""
        if self._client is not None:
            await self._client.close()
        else:
            self._socket.close()

    async def _first_byte(self) -> int:
        """It stays where it is: TLS needs it."""
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
        """The next startup packet's."""
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
