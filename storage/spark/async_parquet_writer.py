"""A ParquetWriter for the event loop: it works in threads, one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Self

import pyarrow as pa

from catalog.model import Table
from storage.parquet.parquet_writer import ParquetWriter
from storage.spark.write import WriteResult
from storage.thread_offload import aside


class WriterAside:
    """`async with WriterAside(…) as writer: await writer.write(…); result = await writer.finish()`.

    If that fails or is cancelled, no file is left. Up to `hot_rows` rows become hot rows, without a file.
    """

    def __init__(self, data_path: str, table: Table, hot_rows: int = 0) -> None:
        self._writer = ParquetWriter(data_path, table, syncs_later=True, hot_rows=hot_rows)

    async def write(self, batch: pa.RecordBatch) -> None:
        """Append rows in lake form."""
        await aside(partial(self._writer.write, batch))

    async def write_made(self, make: Callable[[], Iterable[pa.RecordBatch]]) -> None:
        """Append the rows that `make` yields, in lake form; it runs in the thread too."""

        def write() -> None:
            for batch in make():
                self._writer.write(batch)

        await aside(write)

    async def finish(self) -> WriteResult:
        """Return the files, complete; COMMIT waits for their syncs."""
        files = await aside(self._writer.finish)
        return WriteResult(data_files=files, row_count=sum(file.record_count for file in files))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await aside(self._writer.abort)
