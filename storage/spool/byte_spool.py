"""Bytes that are kept for reading them again: in memory while they are few, else in a temporary file."""

from __future__ import annotations

from typing import Final

from storage.spool.spool_file import KeptFile

MEMORY_BYTES: Final = 16 * 2**20


class KeptBytes:
    """Append bytes; `read` gives any of them.

    Blocking once `on_disk`, or where what is appended `spills`: call it in threads then. The disk space is given back
    by `close`, or when the object is gone.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._memory = bytearray()
        self._file: KeptFile | None = None
        self.size = 0

    @property
    def on_disk(self) -> bool:
        """Whether the bytes have gone to the file."""
        return self._file is not None

    def spills(self, size: int) -> bool:
        """Whether so many bytes more are for the file."""
        return self.on_disk or self.size + size > self._memory_bytes

    def append(self, data: bytes | bytearray) -> None:
        """Keep these too. 53100 where the disk is full, 53400 where the limit is reached."""
        if self.spills(len(data)):
            self._write(data)
        else:
            self._memory += data
        self.size += len(data)

    def read(self, start: int, size: int) -> bytes:
        """The bytes from `start` on, so many as there are up to `size`."""
        if self._file is None:
            return bytes(self._memory[start : start + size])
        return self._file.read(start, size)

    def close(self) -> None:
        """Give up the bytes."""
        self._memory = bytearray()
        if self._file is not None:
            self._file.close()

    def _write(self, data: bytes | bytearray) -> None:
        if self._file is None:
            self._file = KeptFile()
            self._file.write(self._memory, 0)
            self._memory = bytearray()
        self._file.write(data, self.size)
