"""What undone savepoints leave in the shadows' files: nobody sees it, but whoever scans a shadow reads past it.

Autovacuum is off, and a shadow is empty at all times, so VACUUM takes no time to speak of. Who undoes rows tells how
many; of those that nobody has told of (a statement failed, a gateway died) the file is large, which `look` finds.
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
# What ANALYZE has said of the lake is not to become what VACUUM says of the shadow.
_KEEP_SIZE: Final = """
SELECT pg_restore_relation_stats('schemaname', $1::text, 'relname', $2::text, 'relpages', $3::int4,
                                 'reltuples', $4::real)
"""
# Shadows that are larger than so many bytes are swept whoever filled them.
_LARGE: Final = """
SELECT t.relid FROM pg_sluice.published_shape t JOIN pg_class c ON c.oid = t.relid WHERE pg_relation_size(c.oid) > $1
"""
_BYTES_MAX: Final = 1 << 20
# A scan reads so many undone rows in a fraction of a millisecond.
_SWEPT_FROM: Final = 2_000


class UndoneRows:
    """`left` is told of rows; a task of its own sweeps where there are many. `close` ends it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._rows: Counter[int] = Counter()
        self._sweeper: asyncio.Task[None] | None = None

    def left(self, relation_oid: int, rows: int) -> None:
        """So many rows were undone in a shadow."""
        self._rows[relation_oid] += rows
        if self._rows[relation_oid] >= _SWEPT_FROM and (self._sweeper is None or self._sweeper.done()):
            self._sweeper = asyncio.create_task(self._sweep())

    async def look(self) -> None:
        """Sweep the shadows that are large, whoever filled them."""
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
        """No sweeping any more."""
        sweeper, self._sweeper = self._sweeper, None
        await end(sweeper)
