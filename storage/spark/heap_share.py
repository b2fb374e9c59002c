"""The share of the JVM's heap for rows on their way to clients, whatever the number of statements.

No statement waits for it, because its holder may compute for long. Each takes at most half of the rest, so there is
always some. A statement that gets little has smaller windows, or rows that are relayed (see `storage.spark.results`).
"""

from __future__ import annotations

import threading
from typing import Final

_PARTS: Final = 4  # one such part of the heap: a window's rows exist as tasks' results and as the answer


class HeapShare:
    """The bytes of the share, less those taken. Any thread may call it."""

    def __init__(self, heap_bytes: int) -> None:
        self._left = heap_bytes // _PARTS
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """The bytes that are not taken."""
        return self._left

    def offered(self, wanted: int) -> int:
        """Return how many of the bytes `wanted` the caller would get now."""
        return min(wanted, self._left // 2)

    def take(self, wanted: int) -> int:
        """Take up to `wanted` bytes; the caller has them until it gives them back."""
        with self._lock:
            taken = self.offered(wanted)
            self._left -= taken
        return taken

    def give_back(self, taken: int) -> None:
        """Return the bytes."""
        with self._lock:
            self._left += taken
