"""The producer waits for the consumer, and each learns of the other's end."""

from __future__ import annotations

import asyncio
import threading

import pyarrow as pa
import pytest

from storage.spool.batch_channel import Channel, ChannelClosedError

_BATCH = pa.record_batch({"a": pa.array(range(1000), pa.int64())})


async def test_a_full_channel_holds_the_producer() -> None:
    channel = Channel(capacity=3 * _BATCH.nbytes)
    put: list[int] = []

    def produce() -> None:
        for number in range(10):
            channel.put(_BATCH)
            put.append(number)
        channel.finish()

    producer = asyncio.get_running_loop().run_in_executor(None, produce)
    await asyncio.sleep(0.2)
    assert len(put) == 3
    got = 0
    while await channel.get() is not None:
        got += 1
        await asyncio.sleep(0)
        assert len(put) <= got + 4
    await producer
    assert got == 10
    assert await channel.get() is None


async def test_a_batch_larger_than_the_channel_passes() -> None:
    channel = Channel(capacity=1)
    channel.put(_BATCH)
    assert await channel.get() is _BATCH


async def test_closing_frees_the_producer() -> None:
    channel = Channel(capacity=1)
    channel.put(_BATCH)
    failed = threading.Event()

    def produce() -> None:
        try:
            channel.put(_BATCH)
        except ChannelClosedError:
            failed.set()

    producer = asyncio.get_running_loop().run_in_executor(None, produce)
    await asyncio.sleep(0.05)
    channel.close()
    await producer
    assert failed.is_set()
    assert await channel.get() is None


async def test_a_failure_comes_after_what_was_produced() -> None:
    channel = Channel()
    channel.put(_BATCH)
    channel.finish(ValueError("later"))
    assert await channel.get() is _BATCH
    with pytest.raises(ValueError, match="later"):
        await channel.get()
