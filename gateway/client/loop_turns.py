"""Limits how long one connection may keep the event loop."""

from __future__ import annotations

import asyncio
import time
from typing import Final

_TURN_SECONDS: Final = 0.002


class LoopTurns:
    """The turns of one connection, which may have thousands of received messages. Call `give_way` before each message.

    A task that never waits would otherwise never let other tasks run.
    """

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def begin(self) -> None:
        """The connection has waited, and other tasks have run."""
        self._begun = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether this task may have run for long."""
        return time.monotonic() - self._begun > _TURN_SECONDS

    async def give_way(self) -> None:
        """Let other tasks run, if this one may have run for long. May be cancelled without loss."""
        if self.is_over:
            await asyncio.sleep(0)
            self.begin()
