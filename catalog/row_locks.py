"""The rows of `pg_sluice.row_lock` and `row_move`: inserted before a lock, and removed when they are unlocked.

Rows of `row_move` are removed when every transaction is younger than they are. Any gateway may remove rows at any time;
a session that misses a removed row inserts it again (catalog/sql/row_locks.sql).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from catalog.background import end
from catalog.postgres.pool import FAULTS, Pool, log_fault

_LOG: Final = logging.getLogger("sluice.row_locks")
_PUT: Final = "SELECT pg_sluice.put_row_locks($1, $2, $3, $4)"
_SWEEP: Final = """
DELETE FROM pg_sluice.row_lock WHERE ctid = ANY (ARRAY(SELECT ctid FROM pg_sluice.row_lock FOR UPDATE SKIP LOCKED))
"""
# Two steps: rows visible now were committed earlier, at an unknown time.
_SEE_MOVES: Final = "UPDATE pg_sluice.row_move SET seen = clock_timestamp() WHERE seen IS NULL"
_SWEEP_MOVES: Final = """
DELETE FROM pg_sluice.row_move WHERE seen < (SELECT min(xact_start) FROM pg_stat_activity)
"""
_LEFT: Final = "SELECT EXISTS (SELECT FROM pg_sluice.row_lock) OR EXISTS (SELECT FROM pg_sluice.row_move)"
_SWEEP_SECONDS: Final = 5.0


class RowLocks:
    """Inserts lockable rows by `put`; a background task removes unlocked ones while any may exist. `close` ends it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._sweeper: asyncio.Task[None] | None = None

    async def put(
        self,
        files: Sequence[int],
        positions: Sequence[int],
        constraint_oid: int = 0,
        keys: Sequence[bytes] = (),
    ) -> None:
        """Insert missing lockable rows, for rows of the lake and for keys that a foreign key refers to."""
        await self._pool.execute(_PUT, files, positions, constraint_oid, keys)
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep())

    async def sweep(self) -> bool:
        """Remove unlocked rows and moves that are no longer needed; return whether none is left."""
        for statement in (_SWEEP, _SWEEP_MOVES, _SEE_MOVES):
            await self._pool.execute(statement)
        left: bool = await self._pool.fetchval(_LEFT)
        return not left

    async def _sweep(self) -> None:
        swept = False
        while not swept:
            await asyncio.sleep(_SWEEP_SECONDS)
            try:
                swept = await self.sweep()
            except FAULTS as fault:
                log_fault(_LOG, "row locks are left to the next sweep", fault)
                return

    async def close(self) -> None:
        """Stop removing."""
        sweeper, self._sweeper = self._sweeper, None
        await end(sweeper)
