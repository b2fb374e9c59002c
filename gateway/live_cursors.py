"""The cursors of a gateway whose queries are under way, and who of them may rest.

A cursor that is read holds its query back by not reading on. So does one that nobody reads any more, and with it a
thread, memory of Spark's and one of its few slots, for as long as its client likes; others would wait for them in the
end. So only a few cursors may rest like that: of any more, those that have rested longest read the rest of their rows
into a temporary file, and are done with Spark.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

_LOG: Final = logging.getLogger("sluice.cursors")
RESTING_MAX: Final = 2
REST_SECONDS: Final = 1.0


class LiveCursor(Protocol):
    """Of a cursor (gateway.cursor): `runs` as long as Spark runs its query; `used` is when it was read last, on the
    event loop's clock; `drain` reads its rows to their end, and it is `draining` meanwhile."""

    used: float
    draining: bool

    @property
    def runs(self) -> bool: ...

    async def drain(self) -> None: ...


class LiveCursors:
    """One for each gateway. `started` is called when a cursor's query starts."""

    def __init__(self) -> None:
        self._live: list[LiveCursor] = []
        self._drains: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def started(self, cursor: LiveCursor) -> None:
        """Spark runs the cursor's query from now on."""
        self._live.append(cursor)
        self._look_later()

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(REST_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        self._live = [cursor for cursor in self._live if cursor.runs and not cursor.draining]
        excess = len(self._live) - RESTING_MAX
        if excess <= 0:
            return
        rested = asyncio.get_running_loop().time() - REST_SECONDS
        resting = sorted((cursor for cursor in self._live if cursor.used <= rested), key=lambda cursor: cursor.used)
        for cursor in resting[:excess]:
            task = asyncio.create_task(cursor.drain())
            self._drains.add(task)
            task.add_done_callback(self._drained)
        self._look_later()

    def _drained(self, task: asyncio.Task[None]) -> None:
        self._drains.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _LOG.error("a cursor could not be drained", exc_info=fault)
