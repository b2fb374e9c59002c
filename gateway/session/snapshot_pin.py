"""Keeps the files that one session reads from removal (catalog/snapshot_pins.py), including those of its
`sluice.as_of`.

A session counts as a reader from the first message of a transaction until it is idle outside of one. Until then a
snapshot, cursor, portal or statement may read files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog.snapshot_pins import Reading, SnapshotPins


class SnapshotPin:
    """`begin` and `end` may be called repeatedly."""

    def __init__(self, readers: SnapshotPins) -> None:
        self._readers = readers
        self._reading: Reading | None = None
        self._chosen: int | None = None

    def begin(self) -> None:
        """The session may begin to read."""
        if self._reading is None:
            self._reading = self._readers.begin()

    def end(self) -> None:
        """The session is idle, outside of a transaction."""
        if self._reading is not None:
            self._readers.end(self._reading)
            self._reading = None

    async def choose(self, snapshot: int | None) -> None:
        """Keep that snapshot until the next call; None keeps none. Raises 22023 if it is removed."""
        if snapshot == self._chosen:
            return
        if snapshot is not None:
            await self._readers.pin(snapshot)
        before, self._chosen = self._chosen, snapshot
        if before is not None:
            await self._readers.unpin(before)

    async def close(self) -> None:
        """The session has ended."""
        self.end()
        await self.choose(None)
