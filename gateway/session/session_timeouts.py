"""Applies the timeouts that end a session while a statement runs on the lake.

The backend does not know that a statement runs, because it gets questions only now and then. So
- `idle_in_transaction_session_timeout` and `idle_session_timeout` are switched off at the backend meanwhile;
- `transaction_timeout` is the backend's in a block: when it ends its connection, the statement ends too. Outside of
a block, where the backend has no transaction, the gateway counts the time.
`statement_timeout` is the portals' (`limit_time`), `lock_timeout` the backend's, where locks are taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from gateway.backend.connection import BackendLostError
from gateway.backend.own_statement import Statement
from gateway.backend.statement_timeout import transaction_timed_out

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# The milliseconds that a statement may take, or 0.
STATEMENT_TIMEOUT: Final = (
    "(extract(epoch FROM pg_sluice.backend_setting('statement_timeout')::interval) OPERATOR(pg_catalog.*) 1000)::bigint"
)
# The expression that asks the backend for the timeouts; `take` reads the answer.
ASKED: Final = (
    "pg_sluice.backend_setting('idle_in_transaction_session_timeout'),"
    " pg_sluice.backend_setting('idle_session_timeout'),"
    " (extract(epoch FROM pg_sluice.backend_setting('transaction_timeout')::interval)"
    " OPERATOR(pg_catalog.*) 1000)::bigint"
)
_IDLE: Final = "idle_in_transaction_session_timeout"
_SET: Final = "SELECT pg_catalog.set_config($1, $2, $3)"
# Statements shorter than this do not watch their backend's connection.
_UNWATCHED_SECONDS: Final = 0.2


class SessionTimeouts:
    """`running` surrounds the execution of a portal; `take` is called once the settings are known."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._suspended: tuple[str, str, bool] | None = None
        self._deadline: asyncio.Timeout | None = None
        self._begun = 0.0

    async def take(self, idle_in_transaction: str, idle: str, transaction_milliseconds: int) -> None:
        """Take the session's settings at the beginning of a statement."""
        in_block = self._session.transaction.open
        name, value = (_IDLE, idle_in_transaction)
        if not in_block:
            name, value = ("idle_session_timeout", idle)
            if transaction_milliseconds and self._deadline is not None:
                self._deadline.reschedule(self._begun + transaction_milliseconds / 1000)
        if value != "0" and self._suspended is None:
            await self._set(name, "0", local=in_block)
            self._suspended = (name, value, in_block)

    async def _set(self, name: str, value: str, *, local: bool) -> None:
        await self._session.backend.run(Statement(_SET, (name, value, str(local))))

    @asynccontextmanager
    async def out_of_window(self) -> AsyncIterator[None]:
        """While a statement waits for its client: close the window of a block with deferred changes, so that other
        sessions need not wait. The timeouts are switched off outside of the window too.
        """
        deferred = self._session.transaction.deferred
        if not deferred.is_open:
            yield
            return
        async with deferred.suspended():
            [idle] = await self._session.backend.run(Statement("SELECT pg_sluice.backend_setting($1)", (_IDLE,)))
            value = (idle.rows[0][0] or b"0").decode()
            if value != "0":
                await self._set(_IDLE, "0", local=True)
            yield
            if value != "0":
                await self._set(_IDLE, value, local=True)

    async def running(self, execute: Callable[[], Awaitable[None]]) -> None:
        """Execute under these timeouts."""
        loop = asyncio.get_running_loop()
        self._begun = loop.time()
        watching: asyncio.Task[None] | None = None

        def watch() -> None:
            nonlocal watching
            watching = asyncio.create_task(self._watch())

        deadline = asyncio.timeout(None)
        timer = loop.call_later(_UNWATCHED_SECONDS, watch)
        try:
            async with deadline:
                self._deadline = deadline
                await execute()
        except TimeoutError:
            if not deadline.expired():
                raise
            session = self._session
            session.gateway.engine.cancel(session.running)
            if session.backend.ended.is_set():
                await session.backend.next()  # raises PostgreSQL's last error
            raise BackendLostError(transaction_timed_out()) from None
        except BackendLostError:
            raise
        except Exception:
            await self._resume()
            raise
        else:
            await self._resume()
        finally:
            timer.cancel()
            self._deadline = None
            if watching is not None:
                watching.cancel()

    async def _watch(self) -> None:
        backend = self._session.backend
        while not backend.ended.is_set():
            await asyncio.wait((backend.reading(),))
            await asyncio.sleep(_UNWATCHED_SECONDS)  # the caller takes the message that has come
        if self._deadline is not None:
            self._deadline.reschedule(0)

    async def _resume(self) -> None:
        suspended, self._suspended = self._suspended, None
        if suspended is None:
            return
        name, value, local = suspended
        # A failed or ended transaction has restored its own settings.
        if self._session.backend.status == (b"T" if local else b"I"):
            await self._set(name, value, local=local)
