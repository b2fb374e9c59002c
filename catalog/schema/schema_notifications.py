"""Notifications of committed schema changes, by whichever gateway made them.

They only hasten discovery: a transaction's next statement finds the change anyway. A notification that is missed while
the catalog restarts does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from catalog.background import end
from catalog.connection import connect
from catalog.notifications import About, Paced, listen
from catalog.postgres.pool import FAULTS

_AGAIN_SECONDS: Final = 1.0


class SchemaNews:
    """From `start` on, `heard` is called for each notification; `close` ends that."""

    def __init__(self, dsn: str, heard: Callable[[], None]) -> None:
        self._dsn = dsn
        self._words = Paced(heard)
        self._listening: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to listen, and listen again whenever the connection was lost."""
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except FAULTS:
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _listen_once(self) -> None:
        connection = await connect(self._dsn)
        try:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            await listen(connection, self._words, About.SCHEMA)
            self._words.hear()  # for notifications sent before
            await lost.wait()
        finally:
            connection.terminate()

    async def close(self) -> None:
        """Stop listening."""
        listening, self._listening = self._listening, None
        await end(listening)
        self._words.close()
