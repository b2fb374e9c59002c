"""Parquet written from the event loop: complete, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from catalog import datatypes
from storage.spark.async_parquet_writer import WriterAside
from tests.storage.lake import table

_TABLE = table(n=datatypes.INT4)


def _rows(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(range(count), pa.int32())})


def _files(lake: Path) -> list[Path]:
    return [path for path in lake.rglob("*") if path.is_file()]


async def test_all_is_written(tmp_path: Path) -> None:
    async with WriterAside(str(tmp_path), _TABLE) as writer:
        await writer.write(_rows(10))
        await writer.write_made(lambda: [_rows(20), _rows(30)])
        result = await writer.finish()
    assert (result.row_count, len(result.data_files), len(_files(tmp_path))) == (60, 1, 1)


@pytest.mark.parametrize("finished", [False, True])
async def test_nothing_is_left_of_what_fails(tmp_path: Path, *, finished: bool) -> None:

    async def fail() -> None:
        async with WriterAside(str(tmp_path), _TABLE) as writer:
            await writer.write(_rows(300_000))
            if finished:
                await writer.finish()
            assert _files(tmp_path)
            raise ValueError("in the end")

    with pytest.raises(ValueError, match="in the end"):
        await fail()
    assert not _files(tmp_path)


async def test_who_is_cancelled_waits_for_the_thread(tmp_path: Path) -> None:
    """Otherwise it would go on writing what is being removed."""
    begun, go_on = threading.Event(), threading.Event()

    def make() -> Iterator[pa.RecordBatch]:
        begun.set()
        go_on.wait(60)
        yield _rows(300_000)

    async def write() -> None:
        async with WriterAside(str(tmp_path), _TABLE) as writer:
            await writer.write_made(make)

    writing = asyncio.create_task(write())
    await asyncio.to_thread(begun.wait)
    writing.cancel()
    await asyncio.sleep(0.1)
    assert not writing.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert not _files(tmp_path)
