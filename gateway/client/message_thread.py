"""Runs short work on a message, in a thread if the message is large."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

_A = TypeVar("_A")
_T = TypeVar("_T")


async def aside(work: Callable[[_A], _T], of: _A, *, is_large: bool) -> _T:
    """The result of `work`."""
    return await asyncio.to_thread(work, of) if is_large else work(of)
