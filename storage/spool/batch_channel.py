"""A channel of record batches from a thread to the event loop: some in memory, and the rest on disk.

The producer's `put` blocks while more than `capacity` bytes wait, but not for long in all: from then on it writes what
waits to disk (`storage.spool.unread_rows`), for what it holds of Spark is needed by others. It is to stop, between two
jobs of Spark's, when the channel `has_enough`; the consumer calls `wanted` when it does not have enough any more.
Closing frees the producer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from catalog.errors import SluiceError
from storage.spool.unread_rows import UnreadRows, UnreadSpace

CAPACITY_BYTES: Final = 8 * 2**20
# More than this waits only where the consumer rests: then no further job is begun for it.
ENOUGH_BYTES: Final = 16 * 2**20
# So long the producer waits in all for room in memory.
PATIENCE_SECONDS: Final = 1.0


class ChannelClosedError(Exception):
    """The consumer wants no more."""


def _nobody() -> None:
    return


class Channel:
    """Made on the event loop; `put`, `finish` and `renew` are for one producing thread at a time, `get` for the loop.

    `wanted` is called by the consumer, and has to return at once.
    """

    def __init__(
        self,
        space: UnreadSpace | None = None,
        given_up: Callable[[SluiceError], object] = lambda _: None,
        *,
        capacity: int = CAPACITY_BYTES,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """`given_up` is called, by any thread, where the disk space is needed for others."""
        self._loop = asyncio.get_running_loop()
        self._space = space or UnreadSpace()
        self._given_up = given_up
        self._capacity = capacity
        self._patience = self._patience_left = patience
        self._condition = threading.Condition()
        self._waiting: deque[tuple[pa.RecordBatch, int]] = deque()
        self._bytes = 0
        self._spilled: deque[int] = deque()  # the sizes of the batches on disk
        self._spilled_bytes = 0
        self._disk: UnreadRows | None = None
        self._finished = False
        self._failure: BaseException | None = None
        self._closed = False
        self._readable = asyncio.Event()
        self.wanted: Callable[[], None] = _nobody

    @property
    def has_enough(self) -> bool:
        """Whether so much waits that no more is to be made for now."""
        with self._condition:
            return not self._closed and self._bytes + self._spilled_bytes > ENOUGH_BYTES

    def renew(self) -> None:
        """The producer begins a new turn: it may wait again."""
        self._patience_left = self._patience

    def put(self, batch: pa.RecordBatch) -> None:
        """Hand over a batch; blocks while the memory is full. ChannelClosedError where the consumer is gone."""
        size = batch.nbytes
        with self._condition:
            if not self._spilled and self._has_room_soon(size):
                self._check_open()
                self._waiting.append((batch, size))
                self._bytes += size
                disk = None
            else:
                disk = self._disk = self._disk or UnreadRows(self._space, batch.schema, self._lose)
        if disk is not None:
            disk.append(batch)
            with self._condition:
                self._check_open()
                self._spilled.append(size)
                self._spilled_bytes += size
        self._wake()

    def _has_room_soon(self, size: int) -> bool:
        """Whether there is room in memory, at once or within what is left of the patience; also where it is closed."""

        def has_room() -> bool:
            return self._closed or not self._waiting or self._bytes + size <= self._capacity

        if has_room():
            return True
        begun = time.monotonic()
        found = self._condition.wait_for(has_room, self._patience_left)
        self._patience_left = max(0.0, self._patience_left - (time.monotonic() - begun))
        return found

    def _check_open(self) -> None:
        if self._closed or self._finished:
            raise ChannelClosedError

    def _lose(self, reason: SluiceError) -> None:
        """The disk space is needed for others."""
        self.finish(reason, at_once=True)
        self._given_up(reason)

    def finish(self, failure: BaseException | None = None, *, at_once: bool = False) -> None:
        """No more batches; the consumer gets `failure` raised after those that wait, or `at_once` in their place."""
        with self._condition:
            if not self._finished:
                self._finished, self._failure = True, failure
            if at_once:
                self._drop()
        self._wake()

    def cancel(self, reason: SluiceError) -> None:
        """The producer is done, and the statement is cancelled: the consumer gets that in place of what waits."""
        with self._condition:
            if not self._finished or not (self._waiting or self._spilled):
                return
            self._failure = self._failure or reason
            self._drop()
        self._wake()

    async def get(self) -> pa.RecordBatch | None:
        """The next batch, or None at the end."""
        while True:
            with self._condition:
                if self._waiting:
                    batch, size = self._waiting.popleft()
                    self._bytes -= size
                    self._condition.notify()
                    break
                if self._closed:
                    return None
                disk = self._disk if self._spilled else None
                if disk is None and self._finished:
                    self._drop()
                    if self._failure is not None:
                        raise self._failure
                    return None
                if disk is None:
                    self._readable.clear()
            if disk is None:
                await self._readable.wait()
                continue
            batch = await asyncio.to_thread(disk.take)
            if batch is not None:
                with self._condition:
                    if self._spilled:
                        self._spilled_bytes -= self._spilled.popleft()
                break
        if not self.has_enough:
            self.wanted()
        return batch

    def close(self) -> None:
        """The consumer wants no more; a producer that waits in `put` is told so."""
        with self._condition:
            self._closed = True
            self._drop()
            self._condition.notify_all()
        self._readable.set()

    def _drop(self) -> None:
        """Give up what waits."""
        self._waiting.clear()
        self._spilled.clear()
        self._bytes = self._spilled_bytes = 0
        if self._disk is not None:
            self._disk.close()

    def _wake(self) -> None:
        # RuntimeError: the loop is closed, so there is nobody left to tell.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._readable.set)
