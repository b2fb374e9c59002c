"""Keeps a session's backend waiting while Spark works for it, so that pg_cancel_backend cancels the Spark job.

PostgreSQL forgets a cancel signal for an idle backend. The wait (catalog/sql/attention.sql) ends at any cancel signal,
from a user or from the gateway when Spark is done. It ends without an error, because an error would abort the
transaction. pg_stat_activity shows the session as active meanwhile, and pg_terminate_backend ends it as usual.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from catalog.background import end
from catalog.errors import SluiceError, SqlState
from gateway.backend.encoded_statement import encoded_parts
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.wire.framing import Frame
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend

if TYPE_CHECKING:
    import pyarrow as pa

    from gateway.session.session_context import SessionContext

# Shorter work needs no wait.
_AFTER_SECONDS: Final = 0.2
# The wait's statement name at the backend; clients cannot guess it.
_NAME: Final = f"{OWN}_attend"
_WAIT: Final = Statement("SELECT pg_sluice.attend()")


@asynccontextmanager
async def attending(session: SessionContext, *, leaves_window: bool = True) -> AsyncIterator[None]:
    """Surrounds work that does not use the session's backend. A cancel signal ends the Spark job with 57014; other
    work calls `check` now and then.

    If `leaves_window`, the window of a block with deferred changes is closed, which undoes the backend's work in it.
    If a statement still needs that work, the window stays and the backend does not wait.
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
    """The batches that Spark makes. Between two batches the backend is free, in the same window or another."""
    rest = aiter(batches)
    while True:
        async with attending(session, leaves_window=leaves_window):
            batch = await anext(rest, None)
        if batch is None:
            return
        yield batch


def check(session: SessionContext) -> None:
    """Raise 57014 if the session's statement has been cancelled."""
    if session.cancelled:
        raise cancelled()


def cancelled() -> SluiceError:
    """The error of a cancelled statement."""
    return SluiceError(SqlState.QUERY_CANCELED, "canceling statement due to user request")


class _Wait:
    """A wait that begins after a while, unless it was ended before."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._sent = self._ending = False
        self._begun = asyncio.Event()
        self._waiting = asyncio.create_task(self._wait())
        # The task that ends the wait may be cancelled before it learns the result.
        self._waiting.add_done_callback(lambda waiting: waiting.cancelled() or waiting.exception())

    async def _wait(self) -> None:
        await asyncio.sleep(_AFTER_SECONDS)
        session, backend = self._session, self._session.backend
        backend.send(*encoded_parts(_WAIT, _NAME, backend.comment), frontend.Sync().encode())
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
        """End the wait. Raises PostgreSQL's error if the connection has ended."""
        if not self._sent:
            await end(self._waiting)
            return
        # PostgreSQL would forget a signal sent before the wait begins.
        begun = asyncio.create_task(self._begun.wait())
        await asyncio.wait((begun, self._waiting), return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if not self._waiting.done():
            self._ending = True
            await self._session.backend.request_cancel()
        await self._waiting
