"""Words that gateways send each other by NOTIFY: each says that there may be news, and nothing else.

NOTIFY is free for all clients. So the channels have names that no client is told, a word has no content, and to hear
one is no more than to look earlier than by the next heartbeat: at once for a few, later together for many. Nobody
depends on a word. Where a client has filled PostgreSQL's queue of them, none is sent, for that would fail a commit
(catalog/sql/words.sql).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import asyncpg

_CHANNEL: Final = "SELECT pg_sluice.channel($1)"
_SAY: Final = "SELECT pg_sluice.say('{}')"
# So many words that come together are each acted upon at once; of more, one in so many seconds.
_AT_ONCE: Final = 50
_SECONDS: Final = 0.01


class About(StrEnum):
    """What there may be news of. SCHEMA: a commit has changed one. CONFIRMED: a gateway has heard of that, or all have.
    READERS: who cleans up asks how far everybody is."""

    SCHEMA = "schema"
    CONFIRMED = "confirmed"
    READERS = "readers"

    @property
    def say(self) -> str:
        """The statement that sends the word, when it is committed."""
        return _SAY.format(self.value)


class Paced:
    """Calls `act` after every word, but for many words together once. `close` ends that."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._allowed = float(_AT_ONCE)
        self._asked_at = 0.0
        self._later: asyncio.TimerHandle | None = None

    def hear(self) -> None:
        """There was a word."""
        if self._later is not None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._allowed = min(_AT_ONCE, self._allowed + (now - self._asked_at) / _SECONDS)
        self._asked_at = now
        at_once = self._allowed >= 1
        self._allowed -= 1  # a later look is paid for as well: there are no two in one pause
        if at_once:
            self._act()
        else:
            self._later = loop.call_later(_SECONDS, self._act_late)

    def _act_late(self) -> None:
        self._later = None
        self._act()

    def close(self) -> None:
        """Words that are not acted upon yet are not any more."""
        if self._later is not None:
            self._later.cancel()
            self._later = None


async def listen(connection: asyncpg.Connection, paced: Paced, *about: About) -> None:
    """From now on, `paced` hears the words about these."""
    for each in about:
        channel: str = await connection.fetchval(_CHANNEL, each.value)
        await connection.add_listener(channel, lambda *_: paced.hear())
    # pg_stat_activity shows the last statement: that is not to be one with a channel's name.
    await connection.execute("SELECT")
