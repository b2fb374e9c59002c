"""The event loop is everybody's: who finds always something more to do lets others do theirs in between."""

from __future__ import annotations

import asyncio
import time
from typing import Final

_TURN_SECONDS: Final = 0.002


class LoopTurns:
    """Of one connection, that may have thousands of messages at hand. `give_way` before each is taken up.

    What takes none of them does not wait, and so would never let anybody else have the loop.
    """

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def begin(self) -> None:
        """It has waited, and others have had the loop."""
        self._begun = time.monotonic()

    async def give_way(self) -> None:
        """Let others have the loop, where this one may have had it for long. May be cancelled without loss."""
        if time.monotonic() - self._begun > _TURN_SECONDS:
            await asyncio.sleep(0)
            self.begin()
