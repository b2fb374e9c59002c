"""A ParquetWriter for the event loop: it works in threads, one step after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from catalog.model import Table
from storage.parquet.parquet_writer import ParquetWriter
from storage.spark.write import WriteResult
from storage.thread_offload import aside

_BYTES_AT_ONCE: Final = 4 * 1024


class WriterAside:
    """`async with WriterAside(…) as writer: await writer.write(…); result = await writer.finish()`.

    If that fails or is cancelled, no file is left. Up to `hot_rows` rows become hot rows, without a file. `sorts` and
    `order_max` are those of ParquetWriter.
    """

    def __init__(
        self, data_path: str, table: Table, hot_rows: int = 0, *, sorts: bool = False, order_max: int = 0
    ) -> None:
        self._writer = ParquetWriter(
            data_path, table, syncs_later=True, hot_rows=hot_rows, sorts=sorts, order_max=order_max
        )

    async def write(self, batch: pa.RecordBatch) -> None:
        """Append rows in lake form."""
        await aside(partial(self._writer.write, batch))

    async def write_made(self, make: Callable[[], Iterable[pa.RecordBatch]], size: int = sys.maxsize) -> None:
        """Append the rows that `make` yields, in lake form; it runs in the thread too, unless it makes them of so few
        bytes that this takes less time than a thread.
        """

        def write() -> None:
            for batch in make():
                self._writer.write(batch)

        if size <= _BYTES_AT_ONCE:
            write()
        else:
            await aside(write)

    async def finish(self) -> WriteResult:
        """Return the files, complete; COMMIT waits for their syncs."""
        files = self._writer.finish() if self._writer.makes_no_file else await aside(self._writer.finish)
        count = sum(file.record_count for file in files)
        return WriteResult(data_files=files, row_count=count, order=self._writer.order)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self.abort()

    async def abort(self) -> None:
        """Remove what is written."""
        await aside(self._writer.abort)
