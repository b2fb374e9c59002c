"""A row spool: rows kept for later reads in any order, few in memory, many in a temporary file."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import pyarrow as pa

from storage.spool.spool_file import KeptFile

MEMORY_BYTES: Final = 16 * 2**20


class KeptRows:
    """Append batches; `after` and `before` read any of their rows, a piece at a time.

    Rows are numbered from `first` on, up to `end`. Blocking once `on_disk`: call it in threads then. `close` returns
    the disk space, and so does the end of the object.
    """

    def __init__(self, schema: pa.Schema, first: int = 0, memory_bytes: int = MEMORY_BYTES) -> None:
        self._schema = schema
        self._memory_bytes = memory_bytes
        self._starts: list[int] = []  # the number of each batch's first row
        self._batches: list[pa.RecordBatch] = []
        self.first = first
        self._places: list[tuple[int, int]] = []  # each batch's place and length in the file
        self._file: KeptFile | None = None
        self._file_bytes = 0
        self.end = first
        self.bytes = 0

    @property
    def on_disk(self) -> bool:
        """Whether the rows are in the file."""
        return self._file is not None

    def append(self, batch: pa.RecordBatch) -> None:
        """Append a batch. 53100 if the disk is full, 53400 at the limit."""
        if batch.num_rows == 0:
            return
        self._starts.append(self.end)
        self.end += batch.num_rows
        self.bytes += batch.nbytes
        if self._file is None:
            self._batches.append(batch)
            if self.bytes > self._memory_bytes:
                self._file = KeptFile()
                for each in self._batches:
                    self._write(self._file, each)
                self._batches.clear()
        else:
            self._write(self._file, batch)

    def after(self, start: int, end: int) -> pa.RecordBatch:
        """Return rows from `start` on of one batch, none from `end` on; `start` must be kept."""
        number, batch = self._at(start)
        place = start - self._starts[number]
        return batch.slice(place, end - start)

    def before(self, end: int, start: int) -> pa.RecordBatch:
        """Return rows before `end` of one batch, none before `start`, the last one first."""
        number, batch = self._at(end - 1)
        begin = max(start, self._starts[number])
        rows = batch.slice(begin - self._starts[number], end - begin)
        return rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))

    def close(self) -> None:
        """Give up the rows."""
        self._batches.clear()
        if self._file is not None:
            self._file.close()

    def _at(self, row: int) -> tuple[int, pa.RecordBatch]:
        number = bisect_right(self._starts, row) - 1
        if self._file is None:
            return number, self._batches[number]
        offset, length = self._places[number]
        data = self._file.read(offset, length)
        return number, pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)

    def _write(self, file: KeptFile, batch: pa.RecordBatch) -> None:
        data = batch.serialize()
        file.write(memoryview(data), self._file_bytes)
        self._places.append((self._file_bytes, data.size))
        self._file_bytes += data.size
