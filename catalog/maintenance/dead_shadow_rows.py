"""Vacuum of shadows: dead rows of undone savepoints, which are invisible but slow down each scan of a shadow.

Autovacuum is off, and a shadow is always empty, so VACUUM takes hardly any time. Code that reads rows and undoes them
reports their number. Rows that were never reported (a statement failed, a gateway died) make the shadow's file large;
`look` finds them by that.

VACUUM shortens the file only in a moment when no session uses the shadow. So it is repeated while the file is large.
"""

from __future__ import annotations

import asyncio
import logging
import time
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
_SIZE: Final = "SELECT pg_relation_size($1::oid)"
# Reported rows are dead once their statement has undone them: soon after the last report.
_QUIET_SECONDS: Final = 0.5
_WAIT_SECONDS_MAX: Final = 5.0
_TRIES: Final = 6
# A scan reads this many undone rows in a fraction of a millisecond.
_SWEPT_FROM: Final = 2_000


class UndoneRows:
    """Counts undone rows: `left` reports some, and a background task vacuums shadows with many. `close` ends it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._rows: Counter[int] = Counter()
        self._tries: Counter[int] = Counter()
        self._reported = 0.0
        self._sweeper: asyncio.Task[None] | None = None

    def left(self, relation_oid: int, rows: int) -> None:
        """Report that so many rows are, or soon will be, undone in a shadow."""
        self._rows[relation_oid] += rows
        self._reported = time.monotonic()
        if self._rows[relation_oid] >= _SWEPT_FROM and (self._sweeper is None or self._sweeper.done()):
            self._sweeper = asyncio.create_task(self._sweep())

    async def look(self) -> None:
        """Vacuum large shadows, whichever gateway has filled them."""
        for row in await self._pool.fetch(_LARGE, _BYTES_MAX):
            self.left(row["relid"], _SWEPT_FROM)

    async def _sweep(self) -> None:
        while oids := [oid for oid, rows in self._rows.items() if rows >= _SWEPT_FROM]:
            await self._quiet()
            for oid in oids:
                del self._rows[oid]
                try:
                    await self._vacuum(oid)
                except FAULTS as fault:
                    self._tries.clear()
                    log_fault(_LOG, "undone rows are left to the next sweep", fault)
                    return

    async def _quiet(self) -> None:
        latest = time.monotonic() + _WAIT_SECONDS_MAX
        while True:
            rest = min(self._reported + _QUIET_SECONDS, latest) - time.monotonic()
            if rest <= 0:
                return
            await asyncio.sleep(rest)

    async def _vacuum(self, oid: int) -> None:
        row = await self._pool.fetchrow(_NAME, oid)
        if row is None:
            self._tries.pop(oid, None)
            return
        await self._pool.execute(f"VACUUM (SKIP_LOCKED) {row['name']}")
        await self._pool.execute(_KEEP_SIZE, row["schema"], row["table"], row["relpages"], row["reltuples"])
        if (await self._pool.fetchval(_SIZE, oid) or 0) <= _BYTES_MAX:
            self._tries.pop(oid, None)
        elif self._tries[oid] < _TRIES:
            self._tries[oid] += 1
            self.left(oid, _SWEPT_FROM)
        else:
            del self._tries[oid]

    async def close(self) -> None:
        """Stop vacuuming."""
        sweeper, self._sweeper = self._sweeper, None
        await end(sweeper)
