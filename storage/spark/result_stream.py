"""The rows of one statement as they come to the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import pyarrow as pa

from storage.spool.batch_channel import Channel

_CLOSE_SECONDS_MAX: Final = 2.0


class ResultStream:
    """The rows of one statement: `schema` is known first, then batches as they come, bounded in memory.

    `async for batch in stream` gives pyarrow.RecordBatches in the query's order. If the consumer does not ask, the
    producer pauses after a moment, and the batches made until then wait on disk. `await stream.close()` ends the
    statement early and stops its jobs; closing twice is allowed. Iteration raises errors as SluiceErrors. Use it as an
    async context manager, or close it.
    """

    def __init__(
        self, schema: pa.Schema, channel: Channel, stop: Callable[[], None], done: asyncio.Future[None]
    ) -> None:
        self.schema = schema
        self._channel = channel
        self._stop = stop
        self._done = done

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        batch = await self._channel.get()
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def __aenter__(self) -> ResultStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop what still runs, and wait a little for its end.

        Spark's tasks check for cancellation between batches of rows. A task in the midst of a long join is not waited
        for; it ends at its next check.
        """
        self._channel.close()
        if not self._done.done():
            self._stop()
            await asyncio.wait([self._done], timeout=_CLOSE_SECONDS_MAX)
