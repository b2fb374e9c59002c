"""Unread rows of a client, on disk, so that Spark does not wait for the client.

Each result has a queue of its own. A queue is a few files: the last one is written; the first one is read, and closed
when all of it was read. The files have no names (or lose them at once), mode 0600, and a folder of the gateway's own.
So the system frees their space when they are closed, and when the gateway dies.

All queues together have a limit. An excess ends the result that has the most there, which is hardly one that is being
read.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, Protocol

import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from storage.parquet.file_errors import file_error

LIMIT_BYTES: Final = 8 * 2**30
_FILE_BYTES_MIN: Final = 16 * 2**20
_FOLDER_MODE: Final = 0o700


class Holder(Protocol):
    """A holder of some of the space."""

    def give_up(self, reason: SluiceError) -> None:
        """Return the space, because others need it."""


class UnreadSpace:
    """The space of a gateway's queues, and of its spools for clients (`storage.spool.spool_file`).

    It has at most `limit` bytes of disk in `folder`.
    """

    def __init__(self, folder: Path | None = None, limit: int = LIMIT_BYTES) -> None:
        """Without a `folder`, it is the system's for temporary files."""
        self.folder = folder
        self.limit = limit
        self._lock = threading.Lock()
        self._sizes: dict[Holder, int] = {}

    @property
    def used(self) -> int:
        """The bytes in use."""
        with self._lock:
            return sum(self._sizes.values())

    def open_file(self) -> IO[bytes]:
        """Open a new file without a name."""
        if self.folder is not None:
            self.folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        return tempfile.TemporaryFile(prefix="sluice-unread-", dir=self.folder, buffering=0)

    def take(self, queue: Holder, size: int) -> None:
        """Count what a queue is about to write. If it is too much, the longest queues are given up."""
        given_up: list[Holder] = []
        with self._lock:
            self._sizes[queue] = self._sizes.get(queue, 0) + size
            while sum(self._sizes.values()) > self.limit:
                longest = max(self._sizes, key=lambda each: self._sizes[each])
                del self._sizes[longest]
                given_up.append(longest)
        for each in given_up:
            each.give_up(self._exceeded())

    def give_back(self, queue: Holder, size: int | None = None) -> None:
        """Count so much of a queue as removed from disk; all of it if no size is given."""
        with self._lock:
            if queue in self._sizes:
                self._sizes[queue] -= self._sizes[queue] if size is None else size
                if not self._sizes[queue]:
                    del self._sizes[queue]

    def _exceeded(self) -> SluiceError:
        return SluiceError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"rows that clients have not read exceed the gateway's limit ({self.limit // 1024}kB)",
            detail="This result had the most rows waiting.",
            hint="Read results without long pauses, ask for fewer rows, or have --unread-limit raised.",
        )


class _File:
    """One file of a queue: where its batches end, and how far it was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.lengths: deque[int] = deque()
        self.read = 0
        self.size = 0


class UnreadRows:
    """One result's queue. One thread appends, another takes; any thread may close. Blocking."""

    def __init__(self, space: UnreadSpace, schema: pa.Schema, given_up: Callable[[SluiceError], object]) -> None:
        """`given_up` is called, by any thread, when others' rows need the space."""
        self._space = space
        self._schema = schema
        self._given_up = given_up
        self._lock = threading.Lock()
        self._files: deque[_File] = deque()
        self._closed = False

    def append(self, batch: pa.RecordBatch) -> None:
        """Append a batch; once closed, drop it. 53100 if the disk is full."""
        data = batch.serialize()
        self._space.take(self, data.size)
        with self._lock:
            if self._closed:
                self._space.give_back(self)
                return
            try:
                file = self._last()
                write_all(file.file.fileno(), memoryview(data), file.size)
            except OSError as error:
                raise file_error(error, str(self._space.folder or tempfile.gettempdir())) from error
            file.size += data.size
            file.lengths.append(data.size)

    def take(self) -> pa.RecordBatch | None:
        """Take the first batch; None if the queue was closed meanwhile."""
        with self._lock:
            if self._closed:
                return None
            first = self._files[0]
            length = first.lengths.popleft()
            try:
                data = os.pread(first.file.fileno(), length, first.read)
            except OSError as error:
                raise file_error(error, str(self._space.folder or tempfile.gettempdir())) from error
            first.read += length
            if not first.lengths:
                self._files.popleft()
                first.file.close()
                self._space.give_back(self, first.size)
        return pa.ipc.read_record_batch(pa.ipc.read_message(pa.py_buffer(data)), self._schema)

    def give_up(self, reason: SluiceError) -> None:
        """Return the space, because others need it."""
        self._given_up(reason)
        self.close()

    def close(self) -> None:
        """Return the space; closing twice is allowed."""
        with self._lock:
            self._closed = True
            while self._files:
                self._files.popleft().file.close()
            self._space.give_back(self)

    def _last(self) -> _File:
        """Return the file to append to. Files grow with the queue: so they are few, and little of them is read
        space."""
        waiting = sum(each.size for each in self._files)
        if not self._files or self._files[-1].size >= max(_FILE_BYTES_MIN, waiting // 2):
            self._files.append(_File(self._space.open_file()))
        return self._files[-1]


def write_all(file: int, data: memoryview, place: int) -> None:
    """Write all bytes at that place."""
    while data:
        written = os.pwrite(file, data, place)
        data, place = data[written:], place + written
