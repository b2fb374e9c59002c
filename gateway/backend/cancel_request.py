"""Asks PostgreSQL to cancel a backend's statement."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.wire.messages import startup

if TYPE_CHECKING:
    from gateway.backend.dsn import Address


async def send_cancel_request(address: Address, process_id: int, key: bytes) -> None:
    """Send a CancelRequest over a connection of its own, and wait until PostgreSQL has acted. Raises OSError."""
    if address.host.startswith("/"):
        path = f"{address.host}/.s.PGSQL.{address.port}"
        reader, writer = await asyncio.open_unix_connection(path)
    else:
        reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(startup.CancelRequest(process_id, key).encode())
        await writer.drain()
        await reader.read(1)
    finally:
        writer.close()
