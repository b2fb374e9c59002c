"""Keeps the backend's answers to a statement, until the client gets all of them, or rows in portions."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.client.connection import Client
from storage.spool.byte_spool import KeptBytes

# Bytes written or read again at a time.
_PIECE_BYTES: Final = 1 << 20
_HEADER_BYTES: Final = 5


class ResponseSpool:
    """Keeps bytes, cut anywhere, by `keep`, and gives them to the client by `give` once they are complete.

    With `only_rows`, only rows may be kept, so that they can be counted. `close` drops the rest.
    """

    def __init__(self, *, only_rows: bool = False) -> None:
        self.only_rows = only_rows
        self._kept = KeptBytes()
        self._part = bytearray()
        self._place = 0

    async def keep(self, data: bytes | memoryview) -> None:
        """Keep more bytes. Raises 53100 if the temporary folder is full."""
        self._part += data
        if len(self._part) >= _PIECE_BYTES:
            await self._flush()

    async def give(self, client: Client) -> None:
        """Send the rest."""
        await self._flush()
        while self._place < self._kept.size:
            piece = await self._read(_PIECE_BYTES)
            self._place += len(piece)
            client.write(piece)
            await client.drain()

    async def give_rows(self, client: Client, limit: int) -> int:
        """Send the next rows, at most `limit`; return their number."""
        given = 0
        while given < limit:
            piece, rows = await self.take_rows(limit - given)
            if not rows:
                break
            given += rows
            client.write(piece)
            await client.drain()
        return given

    async def take_rows(self, limit: int) -> tuple[bytes, int]:
        """Take out the next rows, at most `limit`, fewer where they are large; and their number, 0 behind the last."""
        await self._flush()
        if self._place >= self._kept.size:
            return b"", 0
        piece = await self._read(_PIECE_BYTES)
        end, rows = _whole(piece, limit)
        if not rows:  # a row larger than the piece
            end, rows = 1 + int.from_bytes(piece[1:_HEADER_BYTES]), 1
            piece = await self._read(end)
        self._place += end
        return piece[:end], rows

    def close(self) -> None:
        """Drop the rest."""
        self._kept.close()

    async def _flush(self) -> None:
        part, self._part = self._part, bytearray()
        if self._kept.spills(len(part)):
            await asyncio.to_thread(self._kept.append, part)
        else:
            self._kept.append(part)

    async def _read(self, size: int) -> bytes:
        if self._kept.on_disk:
            return await asyncio.to_thread(self._kept.read, self._place, size)
        return self._kept.read(self._place, size)


def _whole(data: bytes, limit: int) -> tuple[int, int]:
    """The end of the complete messages in `data`, at most `limit`, and their number."""
    end = count = 0
    while count < limit and end + _HEADER_BYTES <= len(data):
        after = end + 1 + int.from_bytes(data[end + 1 : end + _HEADER_BYTES])
        if after > len(data):
            break
        end, count = after, count + 1
    return end, count
