"""A temporary file of a client's spool, within the limit of all unread rows."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import ClassVar

from catalog.errors import SluiceError
from storage.parquet.file_errors import file_error
from storage.spool.unread_rows import UnreadSpace, write_all


class KeptFile:
    """Bytes that any thread may write and read again. The engine sets `space`, which has the limit for all of them.

    If others need the space, this file is given up: each later use raises 53400.
    """

    space: ClassVar[UnreadSpace] = UnreadSpace()

    def __init__(self) -> None:
        """Open the file; 53100 if there is no room."""
        self._space = KeptFile.space
        self._lock = threading.Lock()
        self._reason: SluiceError | None = None
        try:
            self._file = self._space.open_file()
        except OSError as error:
            raise self._error(error) from error

    def write(self, data: bytes | bytearray | memoryview, place: int) -> None:
        """Write the bytes at that place. 53100 if the disk is full, 53400 at the limit."""
        self._check()
        self._space.take(self, len(data))
        with self._lock:
            if self._reason is not None:
                self._space.give_back(self)
                raise self._reason
            try:
                write_all(self._file.fileno(), memoryview(data), place)
            except OSError as error:
                raise self._error(error) from error

    def read(self, place: int, size: int) -> bytes:
        """Return the bytes from that place on, up to `size`."""
        with self._lock:
            self._check()
            try:
                return os.pread(self._file.fileno(), size, place)
            except OSError as error:
                raise self._error(error) from error

    def give_up(self, reason: SluiceError) -> None:
        """Return the space at once, because others need it."""
        with self._lock:
            if not self._file.closed:
                self._reason = reason
                os.ftruncate(self._file.fileno(), 0)

    def close(self) -> None:
        """Return the space; closing twice is allowed."""
        with self._lock:
            self._file.close()
        self._space.give_back(self)

    def _check(self) -> None:
        if self._reason is not None:
            raise self._reason

    def _error(self, error: OSError) -> SluiceError:
        return file_error(error, str(self._space.folder or tempfile.gettempdir()))
