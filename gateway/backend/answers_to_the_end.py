"""Reads the answers to messages that end with Sync up to ReadyForQuery, even when the reader is cancelled.

A timeout or a CancelRequest may end the gateway's own work while PostgreSQL answers. What stayed unread would be taken
for the answers to the next messages, which may be the client's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from gateway.backend.connection import Backend
from gateway.wire.framing import Frame
from gateway.wire.messages.backend import ReadyForQuery

_T = TypeVar("_T")


async def until_ready(backend: Backend) -> None:
    """Read answers that say nothing, up to ReadyForQuery."""
    while True:
        item = await backend.next()
        if isinstance(item, Frame) and item.type == ReadyForQuery.type:
            return


async def to_the_end(backend: Backend, reading: Awaitable[_T]) -> _T:
    """The result of `reading`, which returns or fails with ReadyForQuery and not behind it. If it is cancelled, the
    backend's statement is cancelled, and its answers are read here.
    """
    try:
        return await reading
    except asyncio.CancelledError:
        await backend.give_up()
        raise
