"""Many CancelRequests for one session count as one: each was a connection to PostgreSQL, and work for Spark's
driver."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from gateway.session.session_context import SessionContext


class _Backend:
    """Is asked to cancel, and takes its time."""

    def __init__(self) -> None:
        self.requests = 0
        self.gone_on = asyncio.Event()

    async def request_cancel(self) -> None:
        self.requests += 1
        await self.gone_on.wait()


def _session(backend: _Backend) -> SessionContext:
    found = SimpleNamespace(answering=True, cancelled=False, lake_active=False, backend=backend, thoughts=set())
    found._cancels = set()
    found._cancel_sent = lambda request: SessionContext._cancel_sent(cast(SessionContext, found), request)
    return cast(SessionContext, found)


async def test_those_that_come_while_one_is_under_way_wait_for_it() -> None:
    backend = _Backend()
    session = _session(backend)
    waiting = [asyncio.create_task(SessionContext.cancel(session)) for _ in range(100)]
    await asyncio.sleep(0.01)
    assert backend.requests == 1
    assert session.cancelled
    assert not any(task.done() for task in waiting)
    waiting[0].cancel()  # who sent the first does not wait for it
    await asyncio.sleep(0)
    backend.gone_on.set()
    await asyncio.gather(*waiting[1:])
    assert backend.requests == 1


async def test_one_that_comes_later_is_another() -> None:
    backend = _Backend()
    backend.gone_on.set()
    session = _session(backend)
    await SessionContext.cancel(session)
    await SessionContext.cancel(session)
    assert backend.requests == 2
