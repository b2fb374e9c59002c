"""The listening sockets, and accepted connections as bare sockets."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator
from typing import Final

_LOG: Final = logging.getLogger("sluice.server")
_BACKLOG: Final = 256
# Without descriptors or memory, a connection stays in the queue, and the socket stays readable.
_PAUSE_SECONDS: Final = 1.0


async def listen(host: str, port: int) -> list[socket.socket]:
    """Listen at every address of the host. Raises OSError if one of them is unavailable."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                opened = socket.socket(family, kind, protocol)
            except OSError as error:
                if error.errno == errno.EAFNOSUPPORT and len(found) > 1:  # a machine without IPv6
                    continue
                raise
            listening.append(opened)
            opened.setblocking(False)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind(address)
            opened.listen(_BACKLOG)
    except OSError:
        for opened in listening:
            opened.close()
        raise
    return listening


async def connections(listening: socket.socket) -> AsyncIterator[tuple[socket.socket, str]]:
    """Every accepted connection, with its peer's address, for ever."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            connection, address = await loop.sock_accept(listening)
            # As in PostgreSQL: answers are sent without delay, and a peer that vanished is detected.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except ConnectionError:  # it was closed before it was accepted
            continue
        except OSError as error:
            _LOG.warning("no connection can be accepted: %s", error.strerror)
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        yield connection, address[0]
