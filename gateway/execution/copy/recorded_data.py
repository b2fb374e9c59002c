"""Records a client's data, which it sends once, for a second read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

# Bytes that are recorded at most; of longer data, nothing is kept.
_BYTES_MAX: Final = 16 << 20


class RecordedData:
    """The pieces of `data`; a second read begins with the recorded ones."""

    def __init__(self, data: AsyncIterator[bytes], *, kept: bool) -> None:
        self._data = data
        self._pieces: list[bytes] | None = [] if kept else None
        self._size = 0

    @property
    def is_whole(self) -> bool:
        """Whether everything received is still recorded."""
        return self._pieces is not None

    async def pieces(self) -> AsyncIterator[bytes]:
        """The recorded pieces, if complete, then new ones."""
        for piece in list(self._pieces or ()):
            yield piece
        async for piece in self._data:
            if self._pieces is not None:
                self._pieces.append(piece)
                self._size += len(piece)
                if self._size > _BYTES_MAX:
                    self._pieces = None
            yield piece
