"""The part of the JVM's heap that rows on their way to clients may take, whatever the number of statements.

Nobody waits for it, for a statement that has some may compute for long. Each takes no more than half of what is left,
so there is always some; who gets little has smaller windows, or rows that are relayed (see `storage.spark.results`).
"""

from __future__ import annotations

import threading
from typing import Final

_PARTS: Final = 4  # of the heap, of which this is one: a window's rows are there as tasks' results and as the answer


class HeapShare:
    """Its bytes, less those that are taken. Any thread."""

    def __init__(self, heap_bytes: int) -> None:
        self._left = heap_bytes // _PARTS
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """What nobody has."""
        return self._left

    def offered(self, wanted: int) -> int:
        """How many of the bytes that are `wanted` the caller would have now."""
        return min(wanted, self._left // 2)

    def take(self, wanted: int) -> int:
        """How many of the bytes that are `wanted` the caller has from now on, until it gives them back."""
        with self._lock:
            taken = self.offered(wanted)
            self._left -= taken
        return taken

    def give_back(self, taken: int) -> None:
        """The bytes are others' again."""
        with self._lock:
            self._left += taken
