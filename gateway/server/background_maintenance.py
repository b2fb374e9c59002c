"""Background maintenance: compacts tables that are due and expires snapshots past the retention, at an interval.

Many new files make it start earlier. It takes one table at a time, and none that another gateway works on. After each
merge it rests, so that it uses a share of one core at most. An error is logged, and the next round tries again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from catalog.background import end
from catalog.errors import SluiceError
from catalog.maintenance.compaction import tables_with_files
from catalog.maintenance.expiry import expire
from catalog.maintenance.maintenance_settings import maintenance_settings
from catalog.postgres.pool import log_fault
from gateway.node.compaction import Compaction, Pace
from storage.maintenance.compaction import Policy

if TYPE_CHECKING:
    from catalog.maintenance.maintenance_settings import MaintenanceSettings
    from gateway.node.gateway_context import GatewayContext

_LOG: Final = logging.getLogger("sluice.maintenance")
# How soon it notices a change of the interval, in seconds.
_NOTICE_SECONDS_MAX: Final = 5.0
_PATIENCE_SECONDS: Final = 1.0
# New files committed here that make it start earlier.
_NEW_FILES_MAX: Final = 250


class Maintainer:
    """`start` begins it; `close` ends it at any point."""

    def __init__(self, gateway: GatewayContext) -> None:
        self._gateway = gateway
        self._working: asyncio.Task[None] | None = None
        # Tables with nothing to do, each with the last snapshot that changed it.
        self._seen: dict[int, int] = {}

    def start(self) -> None:
        """Begin the background task."""
        self._working = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Stop."""
        working, self._working = self._working, None
        await end(working)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        looked = loop.time()
        while True:
            try:
                settings = await maintenance_settings(self._gateway.store.pool)
                until = looked + settings.interval_seconds
                early = self._gateway.new_files >= _NEW_FILES_MAX
                if settings.interval_seconds <= 0 or (loop.time() < until and not early):
                    rest = until - loop.time() if settings.interval_seconds > 0 else _NOTICE_SECONDS_MAX
                    await asyncio.sleep(min(rest, _NOTICE_SECONDS_MAX))
                    continue
                looked = loop.time()
                self._gateway.new_files = 0
                await self._look(settings)
            except Exception as fault:  # noqa: BLE001  whatever it is: the log hears of it
                log_fault(_LOG, "maintenance is left to the next look", fault)
                await asyncio.sleep(_PATIENCE_SECONDS)

    async def _look(self, settings: MaintenanceSettings) -> None:
        store = self._gateway.store
        failure: SluiceError | None = None
        for relid, (changed, has_old_rows) in (await tables_with_files(store.pool, settings.hot_rows_age)).items():
            if self._seen.get(relid) == changed and not has_old_rows:
                continue
            policy = Policy(
                settings.min_files,
                settings.small_bytes,
                settings.waste,
                hot_rows=has_old_rows,
                file_bytes=settings.file_bytes,
            )
            turn = await store.take_turn(relid)
            if turn is None:
                continue
            try:
                done = await Compaction(self._gateway, turn, Pace(_PATIENCE_SECONDS, settings.rest)).run(relid, policy)
            except SluiceError as error:  # other tables are compacted, and snapshots expire, all the same
                failure = failure or error
                continue
            finally:
                await turn.close()
            if done.gave_way is None and not done.files_before:
                self._seen[relid] = changed
        await expire(store.pool, settings.retention, self._gateway.engine.remove)
        await store.undone_rows.look()
        if failure is not None:
            raise failure
