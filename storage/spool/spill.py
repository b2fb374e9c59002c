"""A spill: rows kept until the end of a statement, few in memory, many in a temporary file.

A session has one such statement at a time, so the limit of each file is the session's.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import ClassVar, Final

import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from storage.parquet.file_errors import file_error

MEMORY_BYTES: Final = 16 * 2**20
TEMP_FILE_LIMIT_BYTES: Final = 8 * 2**30


class Spill:
    """Write batches, then read them back once by `reader`. The engine sets `limit_bytes` of the file."""

    limit_bytes: ClassVar[int] = TEMP_FILE_LIMIT_BYTES

    def __init__(self, schema: pa.Schema, memory_bytes: int = MEMORY_BYTES) -> None:
        self._schema = schema
        self._memory_bytes = memory_bytes
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file_bytes = 0
        self._source: pa.NativeFile | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch. 53100 if the temporary folder is full, 53400 if the file would exceed its limit."""
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._memory_bytes:
            self._flush()

    def reader(self) -> pa.RecordBatchReader:
        """Return all batches, in order. The disk space is returned when the reader is gone."""
        if self._writer is None:
            return pa.RecordBatchReader.from_batches(self._schema, self._batches)
        self._flush()
        self._writer.close()
        return pa.ipc.open_stream(self._source)

    def _flush(self) -> None:
        self._file_bytes += self._bytes
        if self._file_bytes > self.limit_bytes:
            raise SluiceError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f'temporary file size exceeds "temp_file_limit" ({self.limit_bytes // 1024}kB)',
                hint="Have --temp-file-limit raised, or ask for fewer rows.",
            )
        try:
            if self._writer is None:
                self._writer = self._open()
            for batch in self._batches:
                self._writer.write_batch(batch)
        except OSError as error:
            raise file_error(error, tempfile.gettempdir()) from error
        self._batches.clear()
        self._bytes = 0

    def _open(self) -> pa.ipc.RecordBatchStreamWriter:
        """Open a temporary file for writing and reading; its name is removed at once."""
        descriptor, path = tempfile.mkstemp(prefix="sluice-")
        os.close(descriptor)
        try:
            sink = pa.OSFile(path, "wb")
            self._source = pa.OSFile(path, "rb")
        finally:
            Path(path).unlink()
        return pa.ipc.new_stream(sink, self._schema)
