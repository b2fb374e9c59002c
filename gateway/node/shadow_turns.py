"""Whose rows are in shadows that have unique indexes.

Two transactions that put equal keys there wait for each other, and the second learns nothing while it waits. So who can
do without waits only a moment for those of its own gateway, before it asks PostgreSQL for anything. Who cannot does not
wait here: PostgreSQL has to see what it waits for, to find deadlocks.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection


class ShadowTurns:
    """The turns of one gateway, by the tables' OIDs. A table that nobody uses takes no memory."""

    def __init__(self) -> None:
        self._holders = Counter[int]()
        self._freed = asyncio.Condition()

    async def wait(self, oids: Collection[int], seconds: float) -> None:
        """Until nobody has rows in these shadows; TimeoutError where somebody has for longer."""
        if self._are_free(oids):
            return
        async with asyncio.timeout(seconds), self._freed:
            await self._freed.wait_for(lambda: self._are_free(oids))

    def take(self, oids: Collection[int]) -> None:
        """Rows are about to be put into these shadows. At once after `wait`, it is the one session's turn."""
        self._holders.update(oids)

    async def give_back(self, oids: Collection[int]) -> None:
        """They are gone."""
        for oid in oids:
            self._holders[oid] -= 1
            if not self._holders[oid]:
                del self._holders[oid]
        async with self._freed:
            self._freed.notify_all()

    def _are_free(self, oids: Collection[int]) -> bool:
        return self._holders.keys().isdisjoint(oids)
