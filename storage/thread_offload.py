"""Blocking work of the event loop, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def aside(work: Callable[[], _T]) -> _T:
    """Run the work in a thread. If the awaiting task is cancelled, it still waits for the thread.

    So no thread runs on unknown, and code that undoes the work finds all of it.
    """
    done = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        raise
