"""Data that a client sends once, and that may have to be read twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

# So much is kept for a second time; where more has come, there is none.
_BYTES_MAX: Final = 16 << 20


class RecordedData:
    """The pieces of `data`; `again` begins with those that have been there already."""

    def __init__(self, data: AsyncIterator[bytes], *, kept: bool) -> None:
        self._data = data
        self._pieces: list[bytes] | None = [] if kept else None
        self._size = 0

    @property
    def is_whole(self) -> bool:
        """Whether all that has come is still there."""
        return self._pieces is not None

    async def pieces(self) -> AsyncIterator[bytes]:
        """All that has come, if it is still there, then what comes."""
        for piece in list(self._pieces or ()):
            yield piece
        async for piece in self._data:
            if self._pieces is not None:
                self._pieces.append(piece)
                self._size += len(piece)
                if self._size > _BYTES_MAX:
                    self._pieces = None
            yield piece
