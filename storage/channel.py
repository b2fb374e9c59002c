"""A bounded channel of record batches from a thread to the event loop.

The producer's `put` blocks while more than `capacity` bytes wait; the consumer awaits. Closing frees the producer.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Final

import pyarrow as pa

CAPACITY_BYTES: Final = 8 * 2**20


class ChannelClosedError(Exception):
    """The consumer wants no more."""


class Channel:
    """Made on the event loop; `put` and `finish` are for one producing thread, the rest for the loop."""

    def __init__(self, capacity: int = CAPACITY_BYTES) -> None:
        self._loop = asyncio.get_running_loop()
        self._capacity = capacity
        self._condition = threading.Condition()
        self._waiting: deque[tuple[pa.RecordBatch, int]] = deque()
        self._bytes = 0
        self._finished = False
        self._failure: BaseException | None = None
        self._closed = False
        self._readable = asyncio.Event()

    def put(self, batch: pa.RecordBatch) -> None:
        """Hand over a batch; blocks while the channel is full. ChannelClosedError where the consumer is gone."""
        size = batch.nbytes
        with self._condition:
            self._condition.wait_for(lambda: self._closed or not self._waiting or self._bytes + size <= self._capacity)
            if self._closed:
                raise ChannelClosedError
            self._waiting.append((batch, size))
            self._bytes += size
        self._wake()

    def finish(self, failure: BaseException | None = None) -> None:
        """No more batches; the consumer gets `failure` raised after those that wait."""
        with self._condition:
            self._finished = True
            self._failure = failure
        self._wake()

    async def get(self) -> pa.RecordBatch | None:
        """The next batch, or None at the end."""
        while True:
            with self._condition:
                if self._waiting:
                    batch, size = self._waiting.popleft()
                    self._bytes -= size
                    self._condition.notify()
                    return batch
                if self._closed:
                    return None
                if self._finished:
                    if self._failure is not None:
                        raise self._failure
                    return None
                self._readable.clear()
            await self._readable.wait()

    def close(self) -> None:
        """The consumer wants no more; a producer that waits in `put` is told so."""
        with self._condition:
            self._closed = True
            self._waiting.clear()
            self._condition.notify_all()
        self._readable.set()

    def _wake(self) -> None:
        # RuntimeError: the loop is closed, so there is nobody left to tell.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._readable.set)
