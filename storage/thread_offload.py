"""Work in a thread, for the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def aside(work: Callable[[], _T]) -> _T:
    """Do it in a thread. Where the awaiting task is cancelled, it is waited for: no thread goes on that nobody knows
    of, and whoever undoes the work finds all of it."""
    done = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        raise
