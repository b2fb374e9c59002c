"""A ParquetWriter for the event loop: its work is done in threads, one piece after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import pyarrow as pa

from catalog.model import Table
from storage.parquet_writer import ParquetWriter
from storage.write import WriteResult

_T = TypeVar("_T")


class WriterAside:
    """`async with WriterAside(…) as writer: await writer.write(…); result = await writer.finish()`.

    Where that fails or is cancelled, nothing of it is left.
    """

    def __init__(self, data_path: str, table: Table) -> None:
        self._writer = ParquetWriter(data_path, table)

    async def write(self, batch: pa.RecordBatch) -> None:
        """Append rows in lake form."""
        await _aside(partial(self._writer.write, batch))

    async def write_made(self, make: Callable[[], Iterable[pa.RecordBatch]]) -> None:
        """Append the rows that `make` makes, in lake form; it runs in the thread too."""

        def write() -> None:
            for batch in make():
                self._writer.write(batch)

        await _aside(write)

    async def finish(self) -> WriteResult:
        """The files, whole and synced."""
        files = await _aside(self._writer.finish)
        return WriteResult(data_files=files, row_count=sum(file.record_count for file in files))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await _aside(self._writer.abort)


async def _aside(work: Callable[[], _T]) -> _T:
    """Do it in a thread; where the awaiting task is cancelled, it is waited for: two threads never write at once."""
    done = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        raise
