"""Batch widths: how many rows make a batch, and how many batches a window, by the observed width of rows.

Spark's guess of a row's size counts twenty bytes for any string. So the width of rows with strings is unknown until
some were seen: the first batches have a hundred rows, two of them for each partition. A larger result is read again
with batches of half a megabyte. A window may have `WINDOW_BATCHES` of them per core, if the heap has room for results
(`storage.spark.heap_share`): each of its tasks may have as many rows as the whole window. Rows that suddenly become
many times as wide as all before them exceed these limits.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_BATCH_BYTES: Final = 2**19
_BATCH_ROWS_MAX: Final = 10_000
_FIRST_ROWS: Final = 100
FIRST_BATCHES: Final = 2
WINDOW_BATCHES: Final = 160
# The bytes of a batch beside its rows. In a small batch they matter, so that it alone says nothing about width.
_TELLING_ROWS: Final = 16


class Widths:
    """Learns from the batches of one result, and says how large the next ones should be."""

    def __init__(self, schema: pa.Schema, guess: int, parallelism: int) -> None:
        """`guess` is Spark's of a row's bytes, which is right if all columns are of fixed width."""
        self._row_bytes = max(guess, 1)
        self._parallelism = parallelism
        self._seen = 0
        self.known = all(pa.types.is_primitive(field.type) or pa.types.is_null(field.type) for field in schema)
        self.rows = self._wanted_rows()

    def _wanted_rows(self) -> int:
        rows = min(max(_BATCH_BYTES // self._row_bytes, 1), _BATCH_ROWS_MAX)
        return rows if self.known else min(rows, _FIRST_ROWS)

    def learn(self, batch: pa.RecordBatch) -> None:
        """Record the width of the rows of a batch."""
        if self.known and self._seen == 0:
            return  # of fixed width
        width = batch.nbytes // max(batch.num_rows, _TELLING_ROWS)
        self._row_bytes = max(width, 1) if self._seen == 0 else max(self._row_bytes, width)
        self._seen += batch.num_rows
        self.known = self._seen >= _FIRST_ROWS

    def changed(self) -> bool:
        """Whether batches should have another number of rows from now on; `rows` is then that number."""
        wanted = self._wanted_rows()
        if self.rows / 2 <= wanted <= self.rows or wanted == self.rows:
            return False
        self.rows = wanted
        return True

    @property
    def batch_bytes(self) -> int:
        """The size of a batch, as far as known."""
        return self.rows * self._row_bytes

    def window_batches(self, partitions: int) -> int:
        """Return how many batches a window of so many partitions may have, if the heap has room."""
        if not self.known:
            return FIRST_BATCHES * partitions
        return WINDOW_BATCHES * min(partitions, self._parallelism)
