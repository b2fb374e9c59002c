"""A channel of record batches from a thread to the event loop: some in memory, the rest on disk.

The producer's `put` blocks while more than `capacity` bytes wait, up to a limit of time in all. Then it writes waiting
batches to disk (`storage.spool.unread_rows`), because others need what it holds of Spark. It is to stop, between two
jobs of Spark's, when the channel `has_enough`; the consumer calls `wanted` when it no longer has enough. Closing frees
the producer.
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
# More than this waits only if the consumer rests: then no further job begins for it.
ENOUGH_BYTES: Final = 16 * 2**20
# The time that the producer waits in all for room in memory.
PATIENCE_SECONDS: Final = 1.0


class ChannelClosedError(Exception):
    """The consumer wants no more."""


def _nobody() -> None:
    return


class Channel:
    """The channel. Created on the event loop; `put`, `finish` and `renew` are for one producing thread at a time, `get`
    for the loop.

    The consumer calls `wanted`, which must return at once.
    """

    def __init__(
        self,
        space: UnreadSpace | None = None,
        given_up: Callable[[SluiceError], object] = lambda _: None,
        *,
        capacity: int = CAPACITY_BYTES,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """`given_up` is called, by any thread, if the disk space is needed for others."""
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
        """Whether enough batches wait, so that no more are to be made for now."""
        with self._condition:
            return not self._closed and self._bytes + self._spilled_bytes > ENOUGH_BYTES

    def renew(self) -> None:
        """Begin a new turn of the producer: it may wait again."""
        self._patience_left = self._patience

    def put(self, batch: pa.RecordBatch) -> None:
        """Hand over a batch; blocks while the memory is full. ChannelClosedError if the consumer is gone."""
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
        """Whether there is room in memory, at once or within the rest of the patience; true also if it is closed."""

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
        """Drop what is on disk, because the space is needed for others."""
        self.finish(reason, at_once=True)
        self._given_up(reason)

    def finish(self, failure: BaseException | None = None, *, at_once: bool = False) -> None:
        """End the batches; the consumer gets `failure` raised after waiting ones, or `at_once` in their place."""
        with self._condition:
            if not self._finished:
                self._finished, self._failure = True, failure
            if at_once:
                self._drop()
        self._wake()

    def cancel(self, reason: SluiceError) -> None:
        """End the channel of a cancelled statement: the consumer gets `reason` in place of waiting batches."""
        with self._condition:
            if not self._finished or not (self._waiting or self._spilled):
                return
            self._failure = self._failure or reason
            self._drop()
        self._wake()

    async def get(self) -> pa.RecordBatch | None:
        """Return the next batch, or None at the end."""
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
        """End the consumer's side; a producer that waits in `put` is told."""
        with self._condition:
            self._closed = True
            self._drop()
            self._condition.notify_all()
        self._readable.set()

    def _drop(self) -> None:
        """Drop waiting batches."""
        self._waiting.clear()
        self._spilled.clear()
        self._bytes = self._spilled_bytes = 0
        if self._disk is not None:
            self._disk.close()

    def _wake(self) -> None:
        # RuntimeError: the loop is closed, so there is no waiter.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._readable.set)
