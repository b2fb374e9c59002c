"""Vacuum of shadows: dead rows of undone savepoints, which are invisible but slow down each scan of a shadow.

Autovacuum is off, and a shadow is always empty, so VACUUM takes hardly any time. Code that undoes rows reports their
number. Rows that were never reported (a statement failed, a gateway died) make the shadow's file large; `look` finds
them by that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Final

from catalog.background import end
from catalog.postgres.pool import FAULTS, Pool, log_fault

_LOG: Final = logging.getLogger("sluice.undone_rows")
_NAME: Final = """
SELECT c.oid::regclass::text AS name, n.nspname::text AS schema, c.relname::text AS table, c.relpages, c.reltuples
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1
"""
# VACUUM of the shadow must not overwrite what ANALYZE has found in the lake.
_KEEP_SIZE: Final = """
SELECT pg_restore_relation_stats('schemaname', $1::text, 'relname', $2::text, 'relpages', $3::int4,
                                 'reltuples', $4::real)
"""
# Shadows of more bytes than this are vacuumed.
_LARGE: Final = """
SELECT t.relid FROM pg_sluice.published_shape t JOIN pg_class c ON c.oid = t.relid WHERE pg_relation_size(c.oid) > $1
"""
_BYTES_MAX: Final = 1 << 20
# A scan reads this many undone rows in a fraction of a millisecond.
_SWEPT_FROM: Final = 2_000


class UndoneRows:
    """Counts undone rows: `left` reports some, and a background task vacuums shadows with many. `close` ends it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._rows: Counter[int] = Counter()
        self._sweeper: asyncio.Task[None] | None = None

    def left(self, relation_oid: int, rows: int) -> None:
        """Report that so many rows were undone in a shadow."""
        self._rows[relation_oid] += rows
        if self._rows[relation_oid] >= _SWEPT_FROM and (self._sweeper is None or self._sweeper.done()):
            self._sweeper = asyncio.create_task(self._sweep())

    async def look(self) -> None:
        """Vacuum large shadows, whichever gateway has filled them."""
        for row in await self._pool.fetch(_LARGE, _BYTES_MAX):
            self.left(row["relid"], _SWEPT_FROM)

    async def _sweep(self) -> None:
        for oid in [oid for oid, rows in self._rows.items() if rows >= _SWEPT_FROM]:
            del self._rows[oid]
            try:
                row = await self._pool.fetchrow(_NAME, oid)
                if row is not None:
                    await self._pool.execute(f"VACUUM (SKIP_LOCKED) {row['name']}")
                    size = row["relpages"], row["reltuples"]
                    await self._pool.execute(_KEEP_SIZE, row["schema"], row["table"], *size)
            except FAULTS as fault:
                log_fault(_LOG, "undone rows are left to the next sweep", fault)
                return

    async def close(self) -> None:
        """Stop vacuuming."""
        sweeper, self._sweeper = self._sweeper, None
        await end(sweeper)
