"""The listening sockets, and the connections that come by them, as bare sockets."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator
from typing import Final

_LOG: Final = logging.getLogger("sluice.server")
_BACKLOG: Final = 256
# Without descriptors or memory for it, a connection stays in the queue, and the socket would be found ready for ever.
_PAUSE_SECONDS: Final = 1.0


async def listen(host: str, port: int) -> list[socket.socket]:
    """Listen at every address that the host has. Raises OSError where one of them cannot be had."""
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
    """Every connection that comes, with its peer's address, for ever."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            connection, address = await loop.sock_accept(listening)
            # As PostgreSQL does: no answer is held back for more, and a peer that is gone without a word is noticed.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except ConnectionError:  # it went before it was taken up
            continue
        except OSError as error:
            _LOG.warning("no connection can be accepted: %s", error.strerror)
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        yield connection, address[0]
