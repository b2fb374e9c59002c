"""What one session keeps from being cleaned up (catalog/snapshot_pins.py): what it is reading, and the snapshot of its
`sluice.as_of`.

A session counts as reading from the first message of a transaction until it is idle outside of one: as long as a
snapshot, a cursor, a portal or a statement of it may be looking at files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog.snapshot_pins import Readers, Reading


class SessionReading:
    """`begin` and `end` may be called as often as one likes."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._reading: Reading | None = None
        self._chosen: int | None = None

    def begin(self) -> None:
        """The session is going to read, maybe."""
        if self._reading is None:
            self._reading = self._readers.begin()

    def end(self) -> None:
        """The session is idle, outside of a transaction."""
        if self._reading is not None:
            self._readers.end(self._reading)
            self._reading = None

    async def choose(self, snapshot: int | None) -> None:
        """The session reads that snapshot until it chooses another, or (None) none; 22023 where it is gone."""
        if snapshot == self._chosen:
            return
        if snapshot is not None:
            await self._readers.pin(snapshot)
        before, self._chosen = self._chosen, snapshot
        if before is not None:
            await self._readers.unpin(before)

    async def close(self) -> None:
        """The session is over."""
        self.end()
        await self.choose(None)
