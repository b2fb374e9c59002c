"""Unread rows wait on disk, in order, within a limit, and leave no file behind."""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

from catalog.errors import SluiceError
from storage.spool.batch_channel import ENOUGH_BYTES, Channel, ChannelClosedError
from storage.spool.unread_rows import UnreadRows, UnreadSpace

_ROWS = 10_000


def _batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(range(number * _ROWS, (number + 1) * _ROWS), pa.int64())})


_SIZE = _batch(0).serialize().size


def _open_files(folder: Path) -> list[os.stat_result]:
    """Of this process's open files, those in the folder, whether or not they have a name."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if entry.readlink().is_relative_to(folder):
                found.append(entry.stat())
        except OSError:
            continue  # the one that lists them
    return found


def _space(folder: Path, limit: int = 2**30) -> UnreadSpace:
    return UnreadSpace(folder / "unread", limit)


def test_rows_come_back_in_order_and_their_files_go(tmp_path: Path) -> None:
    space = _space(tmp_path)
    queue = UnreadRows(space, _batch(0).schema, lambda _: None)
    for number in range(500):
        queue.append(_batch(number))
    files = _open_files(tmp_path)
    assert 1 < len(files) < 10
    assert {file.st_mode & 0o777 for file in files} == {0o600}
    assert {file.st_nlink for file in files} == {0}
    assert (tmp_path / "unread").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "unread").iterdir()) == []
    assert space.used == 500 * _SIZE
    for number in range(500):
        assert queue.take() == _batch(number)
    assert space.used == 0
    assert _open_files(tmp_path) == []


def test_the_longest_queue_gives_way(tmp_path: Path) -> None:
    space = _space(tmp_path, 10 * _SIZE)
    lost: list[tuple[str, SluiceError]] = []
    long = UnreadRows(space, _batch(0).schema, lambda reason: lost.append(("long", reason)))
    short = UnreadRows(space, _batch(0).schema, lambda reason: lost.append(("short", reason)))
    for number in range(8):
        long.append(_batch(number))
    for number in range(2):
        short.append(_batch(number))
    assert not lost
    short.append(_batch(2))
    assert [(name, reason.sqlstate) for name, reason in lost] == [("long", "53400")]
    assert space.used == 3 * _SIZE
    long.append(_batch(8))  # it has not heard of it yet
    assert space.used == 3 * _SIZE
    assert long.take() is None
    assert [short.take() for _ in range(3)] == [_batch(number) for number in range(3)]


async def test_a_channel_goes_on_on_disk(tmp_path: Path) -> None:
    """The producer waits for a moment in all, however many batches it has; they come in order, to the last."""
    space = _space(tmp_path)
    channel = Channel(space, capacity=3 * _SIZE, patience=0.1)

    def produce() -> None:
        for number in range(300):
            channel.put(_batch(number))
        channel.finish()

    async with asyncio.timeout(20):
        await asyncio.to_thread(produce)
        assert channel.has_enough
        wanted: list[int] = []
        channel.wanted = lambda: wanted.append(got)
        got = 0
        while (batch := await channel.get()) is not None:
            assert batch == _batch(got)
            got += 1
    assert got == 300
    assert (299 - wanted[0]) * _batch(0).nbytes <= ENOUGH_BYTES < (300 - wanted[0]) * _batch(0).nbytes
    assert space.used == 0
    assert _open_files(tmp_path) == []


async def test_a_reader_that_keeps_up_needs_no_disk(tmp_path: Path) -> None:
    space = _space(tmp_path)
    channel = Channel(space, capacity=3 * _SIZE, patience=30.0)

    def produce() -> None:
        for number in range(100):
            channel.put(_batch(number))
        channel.finish()

    producer = asyncio.create_task(asyncio.to_thread(produce))
    got = 0
    while await channel.get() is not None:
        got += 1
    await producer
    assert got == 100
    assert not (tmp_path / "unread").exists()


@pytest.mark.parametrize("how", ["closed", "cancelled", "cancelled when made", "evicted"])
async def test_what_nobody_will_read_goes_at_once(tmp_path: Path, how: str) -> None:
    space = _space(tmp_path, limit=100 * _SIZE)
    lost: list[SluiceError] = []
    channel = Channel(space, lost.append, capacity=1, patience=0.0)
    for number in range(60):
        channel.put(_batch(number))
    assert _open_files(tmp_path)
    if how == "closed":
        channel.close()
        assert await channel.get() is None
    elif how == "cancelled when made":
        channel.finish()
        channel.cancel(SluiceError("57014", "canceling statement due to user request"))
        with pytest.raises(SluiceError, match="canceling"):
            await channel.get()
    elif how == "cancelled":
        channel.finish(SluiceError("57014", "canceling statement due to user request"), at_once=True)
        with pytest.raises(SluiceError, match="canceling"):
            await channel.get()
    else:
        for number in range(60, 102):
            with pytest.raises(ChannelClosedError) if number == 101 else nullcontext():
                channel.put(_batch(number))
        channel.finish()  # what the producer then says
        assert len(lost) == 1
        with pytest.raises(SluiceError, match="have not read") as caught:
            await channel.get()
        assert caught.value.sqlstate == "53400"
    assert space.used == 0
    assert _open_files(tmp_path) == []
    with pytest.raises(ChannelClosedError):
        channel.put(_batch(0))
