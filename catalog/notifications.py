"""Notifications among gateways, by NOTIFY: each says that there may be news, and has no content.

All clients may use NOTIFY. So the channels have names that no client is told. A notification only makes a gateway look
earlier than at its next heartbeat: at once for a few, later together for many. Nothing depends on one. If a client has
filled PostgreSQL's queue, none is sent, because that would fail a commit (catalog/sql/words.sql).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import asyncpg

_CHANNEL: Final = "SELECT pg_sluice.channel($1)"
_SAY: Final = "SELECT pg_sluice.say('{}')"
# This many notifications in a row are acted on at once; further ones, one per this many seconds.
_AT_ONCE: Final = 50
_SECONDS: Final = 0.01


class About(StrEnum):
    """The kinds of news. SCHEMA: a commit has changed a schema. ADVANCED: such a change is active, or settled.
    READERS: expiry asks for the oldest snapshots in use."""

    SCHEMA = "schema"
    ADVANCED = "advanced"
    READERS = "readers"

    @property
    def say(self) -> str:
        """Return the statement that sends the notification when it is committed."""
        return _SAY.format(self.value)


class Paced:
    """Calls `act` after every notification, but once for many together. `close` ends that."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._allowed = float(_AT_ONCE)
        self._asked_at = 0.0
        self._later: asyncio.TimerHandle | None = None

    def hear(self) -> None:
        """Take in a notification."""
        if self._later is not None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._allowed = min(_AT_ONCE, self._allowed + (now - self._asked_at) / _SECONDS)
        self._asked_at = now
        at_once = self._allowed >= 1
        self._allowed -= 1  # a later look counts too, so that no pause has two
        if at_once:
            self._act()
        else:
            self._later = loop.call_later(_SECONDS, self._act_late)

    def _act_late(self) -> None:
        self._later = None
        self._act()

    def close(self) -> None:
        """Drop notifications that were not acted on."""
        if self._later is not None:
            self._later.cancel()
            self._later = None


async def listen(connection: asyncpg.Connection, paced: Paced, *about: About) -> None:
    """Have `paced` hear the notifications about these."""
    for each in about:
        channel: str = await connection.fetchval(_CHANNEL, each.value)
        await connection.add_listener(channel, lambda *_: paced.hear())
    # pg_stat_activity shows the last statement: it must not be one with a channel's name.
    await connection.execute("SELECT")
