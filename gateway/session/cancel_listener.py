"""While Spark works for a session, its backend waits: so pg_cancel_backend reaches what the session does.

PostgreSQL forgets a signal that comes to a backend at rest. The wait (catalog/sql/attention.sql) ends with any signal
to cancel, somebody's or, when Spark is done, the gateway's own; without an error, for that would end the transaction.
pg_stat_activity has the session as active meanwhile, and pg_terminate_backend ends it as ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from catalog.background import end
from catalog.errors import SluiceError, SqlState
from gateway.backend.own_names import OWN
from gateway.wire.framing import Frame
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend

if TYPE_CHECKING:
    import pyarrow as pa

    from gateway.session.session_context import SessionContext

# What takes no longer is not worth the wait.
_AFTER_SECONDS: Final = 0.2
# The wait's name at the backend; clients choose no such names.
_NAME: Final = f"{OWN}_attend"
_WAIT: Final = b"".join(
    message.encode()
    for message in (
        frontend.Close(b"S", _NAME),
        frontend.Close(b"P", _NAME),
        frontend.Parse(_NAME, "SELECT pg_sluice.attend()", ()),
        frontend.Bind(_NAME, _NAME, (), (), ()),
        frontend.Execute(_NAME),
        frontend.Close(b"P", _NAME),
        frontend.Close(b"S", _NAME),
        frontend.Sync(),
    )
)


@asynccontextmanager
async def attending(session: SessionContext, *, leaves_window: bool = True) -> AsyncIterator[None]:
    """Around work during which nobody uses the session's backend. A signal ends what runs in Spark, with 57014; what
    else is done meanwhile looks now and then (`check`).

    The window of a block that has deferred changes is left for it, with all that the backend has done there; where
    that is still needed, the backend does not wait.
    """
    check(session)
    needed = session.transaction.deferred.is_open and not leaves_window
    if needed or session.unsynced or session.backend.status not in (b"I", b"T"):
        yield
        return
    assert not session.attended, "its backend waits already"
    async with session.transaction.deferred.suspended():
        session.attended = True
        wait = _Wait(session)
        try:
            yield
        finally:
            try:
                await wait.end()
            finally:
                session.attended = False


async def attended(
    session: SessionContext, batches: AsyncIterable[pa.RecordBatch], *, leaves_window: bool = False
) -> AsyncIterator[pa.RecordBatch]:
    """The batches that Spark makes; the backend is free again for whoever takes them, in the same window or another."""
    rest = aiter(batches)
    while True:
        async with attending(session, leaves_window=leaves_window):
            batch = await anext(rest, None)
        if batch is None:
            return
        yield batch


def check(session: SessionContext) -> None:
    """57014 where the session's statement has been cancelled."""
    if session.cancelled:
        raise cancelled()


def cancelled() -> SluiceError:
    """What a statement says that somebody has cancelled."""
    return SluiceError(SqlState.QUERY_CANCELED, "canceling statement due to user request")


class _Wait:
    """Begins by itself after a while, unless it has been ended before."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._sent = self._ending = False
        self._begun = asyncio.Event()
        self._waiting = asyncio.create_task(self._wait())
        # Who ends it may be ended himself, before he hears how it went.
        self._waiting.add_done_callback(lambda waiting: waiting.cancelled() or waiting.exception())

    async def _wait(self) -> None:
        await asyncio.sleep(_AFTER_SECONDS)
        session, backend = self._session, self._session.backend
        backend.send(_WAIT)
        self._sent = True
        error: SluiceError | None = None
        while True:
            item = await backend.next()
            if not isinstance(item, Frame):
                continue
            if item.type == answers.ReadyForQuery.type:
                break
            if item.type == answers.NoticeResponse.type:
                self._begun.set()
            elif item.type == answers.ErrorResponse.type:
                error = answers.ErrorResponse.decode(item.body, strict=False).to_error()
            elif item.type in (answers.ParameterStatus.type, answers.NotificationResponse.type):
                backend.forward(item.data)
        if not self._ending:
            session.cancelled = True
            session.gateway.engine.cancel(session.running)
        if error is not None:
            raise error

    async def end(self) -> None:
        """The backend is free again. Raises what PostgreSQL said where it has ended the connection."""
        if not self._sent:
            await end(self._waiting)
            return
        # A signal that comes before it waits would be forgotten.
        begun = asyncio.create_task(self._begun.wait())
        await asyncio.wait((begun, self._waiting), return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if not self._waiting.done():
            self._ending = True
            await self._session.backend.request_cancel()
        await self._waiting
