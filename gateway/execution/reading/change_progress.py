"""Reports the progress of a schema change to the catalog, and ends it when it is cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from catalog.schema.schema_change_progress import Progress

if TYPE_CHECKING:
    from catalog.schema.schema_changes import SchemaChange
    from gateway.session.session_context import SessionContext

_WATCH_SECONDS: Final = 0.5


async def watch(session: SessionContext, change: SchemaChange, progress: Progress) -> None:
    """Run until cancelled; if the client cancels the change, end its Spark jobs."""
    store, engine = session.gateway.store, session.gateway.engine
    while not session.cancelled:
        await asyncio.sleep(_WATCH_SECONDS)
        if progress.looking:
            progress.has_read(await engine.rows_read(session.tag))
        if await store.report(change.change_id, progress):
            break
    session.cancelled = change.canceled = True
    engine.cancel(session.tag)
