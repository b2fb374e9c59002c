"""Reports the progress of a schema change, and ends it when it is cancelled.

Other gateways see the progress; the client gets a notice if the change takes long.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from catalog.schema.schema_change_progress import Progress
from gateway.client.connection import ClientGoneError
from gateway.wire.messages.backend import NoticeResponse

if TYPE_CHECKING:
    from catalog.schema.schema_changes import SchemaChange
    from gateway.session.session_context import SessionContext

_WATCH_SECONDS: Final = 0.5
# Seconds before the first notice to the client, and between further ones.
_QUIET_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 5.0
# client_min_messages levels without notices.
_QUIET_LEVELS: Final = frozenset({"warning", "error"})


async def watch(session: SessionContext, change: SchemaChange, progress: Progress, client_min_messages: str) -> None:
    """Run until cancelled; if the client cancels the change, end its Spark jobs."""
    store, engine, time = session.gateway.store, session.gateway.engine, asyncio.get_running_loop().time
    wanted = client_min_messages not in _QUIET_LEVELS
    next_notice, said = time() + _QUIET_SECONDS, ""
    while not session.cancelled:
        await asyncio.sleep(_WATCH_SECONDS)
        if progress.looking:
            progress.has_read(await engine.rows_read(session.tag))
        if await store.report(change.change_id, progress):
            break
        if wanted and time() >= next_notice and progress.text != said:
            said = progress.text
            next_notice = time() + _AGAIN_SECONDS
            wanted = _tell(session, f"change {change.change_id}: {said}")
    session.cancelled = change.canceled = True
    engine.cancel(session.tag)


def _tell(session: SessionContext, text: str) -> bool:
    """Send the client a notice; False if it has disconnected, which the session detects itself."""
    try:
        session.client.send_aside(NoticeResponse((("S", "NOTICE"), ("V", "NOTICE"), ("C", "00000"), ("M", text))))
    except ClientGoneError:
        return False
    return True
