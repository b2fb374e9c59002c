"""A byte spool: bytes kept for later reads, few in memory, many in a temporary file."""

from __future__ import annotations

from typing import Final

from storage.spool.spool_file import KeptFile

MEMORY_BYTES: Final = 16 * 2**20


class KeptBytes:
    """Append bytes; `read` returns any of them.

    Blocking once `on_disk`, or if the appended bytes `spill`: call it in threads then. `close` returns the disk space,
    and so does the end of the object.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._memory = bytearray()
        self._file: KeptFile | None = None
        self.size = 0

    @property
    def on_disk(self) -> bool:
        """Whether the bytes are in the file."""
        return self._file is not None

    def spills(self, size: int) -> bool:
        """Whether appending so many bytes would write to the file."""
        return self.on_disk or self.size + size > self._memory_bytes

    def append(self, data: bytes | bytearray) -> None:
        """Append bytes. 53100 if the disk is full, 53400 at the limit."""
        if self.spills(len(data)):
            self._write(data)
        else:
            self._memory += data
        self.size += len(data)

    def read(self, start: int, size: int) -> bytes:
        """Return the bytes from `start` on, up to `size`."""
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
