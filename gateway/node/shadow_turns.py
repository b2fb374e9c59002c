"""Orders sessions of one gateway that put rows into shadows with unique indexes.

Two transactions that insert equal keys there wait for each other, and the second can do nothing meanwhile. A session
that can avoid the shadow waits only a moment for sessions of its own gateway, before it asks PostgreSQL for anything.
Other sessions do not wait here: PostgreSQL must see their waiting to find deadlocks.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection


class ShadowTurns:
    """The turns of one gateway, by the tables' OIDs. Unused tables take no memory."""

    def __init__(self) -> None:
        self._holders = Counter[int]()
        self._freed = asyncio.Condition()

    async def wait(self, oids: Collection[int], seconds: float) -> None:
        """Wait until no session has rows in these shadows; TimeoutError after `seconds`."""
        if self._are_free(oids):
            return
        async with asyncio.timeout(seconds), self._freed:
            await self._freed.wait_for(lambda: self._are_free(oids))

    def take(self, oids: Collection[int]) -> None:
        """Announce rows in these shadows. Called directly after `wait`, it takes the turn exclusively."""
        self._holders.update(oids)

    async def give_back(self, oids: Collection[int]) -> None:
        """The rows are removed."""
        for oid in oids:
            self._holders[oid] -= 1
            if not self._holders[oid]:
                del self._holders[oid]
        async with self._freed:
            self._freed.notify_all()

    def _are_free(self, oids: Collection[int]) -> bool:
        return self._holders.keys().isdisjoint(oids)
