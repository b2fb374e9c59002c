"""Work that goes on beside statements, in tasks of its own, until whoever began it ends it."""

from __future__ import annotations

import asyncio
from typing import Any


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task, where there is one, and wait until it has ended. How it ended is not told."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
