"""Answers to a client that are held back until it is certain that there is no error: in memory, if many in a file."""

from __future__ import annotations

import asyncio
import tempfile
from typing import IO, Final

from gateway.client import Client
from gateway.messages.backend import NoticeResponse
from storage.files import file_error

_MEMORY_BYTES: Final = 1 << 20


class HeldAnswers(Client):
    """Stands for a client. `release` gives all of it to the true one; `close` gives up what is held."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting = bytearray()
        self._file: IO[bytes] | None = None
        self._filed = 0
        self.encrypted = client.encrypted
        self.sent_bytes = client.sent_bytes

    def write(self, data: bytes | memoryview) -> None:
        self._waiting += data

    def send_aside(self, notice: NoticeResponse) -> None:
        self._client.send_aside(notice)

    async def drain(self) -> None:
        if len(self._waiting) > _MEMORY_BYTES:
            data, self._waiting = bytes(self._waiting), bytearray()
            await asyncio.to_thread(self._put, data)

    @property
    def has_more(self) -> bool:
        return self._client.has_more

    @property
    def next_type(self) -> int | None:
        return self._client.next_type

    def _put(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="sluice-")  # noqa: SIM115 - `close` closes it
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise file_error(error, tempfile.gettempdir()) from error
        self._filed += len(data)

    def _take(self, place: int) -> bytes:
        assert self._file is not None
        self._file.seek(place)
        return self._file.read(_MEMORY_BYTES)

    async def release(self) -> None:
        """Everything, in order."""
        place = 0
        while place < self._filed:
            data = await asyncio.to_thread(self._take, place)
            self._client.write(data)
            await self._client.drain()
            place += len(data)
        self._client.write(bytes(self._waiting))
        await self._client.drain()

    async def close(self) -> None:
        self._waiting.clear()
        if self._file is not None:
            await asyncio.to_thread(self._file.close)
