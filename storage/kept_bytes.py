"""Bytes that are kept for reading them again: in memory while they are few, else in a temporary file."""

from __future__ import annotations

import tempfile
from typing import IO, Final

from storage.files import file_error

MEMORY_BYTES: Final = 16 * 2**20


class KeptBytes:
    """Append bytes; `read` gives any of them.

    Blocking once `on_disk`, or where what is appended `spills`: call it in threads then. The disk space is given back
    by `close`, or when the object is gone.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        self.size = 0

    @property
    def on_disk(self) -> bool:
        """Whether the bytes have gone to the file."""
        return self._file is not None

    def spills(self, size: int) -> bool:
        """Whether so many bytes more are for the file."""
        return self.on_disk or self.size + size > self._memory_bytes

    def append(self, data: bytes | bytearray) -> None:
        """Keep these too. 53100 where the temporary folder is full."""
        if self.spills(len(data)):
            self._write(data)
        else:
            self._memory += data
        self.size += len(data)

    def read(self, start: int, size: int) -> bytes:
        """The bytes from `start` on, so many as there are up to `size`."""
        if self._file is None:
            return bytes(self._memory[start : start + size])
        try:
            self._file.seek(start)
            return self._file.read(size)
        except OSError as error:
            raise file_error(error, tempfile.gettempdir()) from error

    def close(self) -> None:
        """Give up the bytes."""
        self._memory = bytearray()
        if self._file is not None:
            self._file.close()

    def _write(self, data: bytes | bytearray) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="sluice-")  # noqa: SIM115  open as long as they are kept
                self._file.write(self._memory)
                self._memory = bytearray()
            self._file.seek(self.size)
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise file_error(error, tempfile.gettempdir()) from error
