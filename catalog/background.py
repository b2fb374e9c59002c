"""Background tasks: how to end one."""

from __future__ import annotations

import asyncio
from typing import Any


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task, if there is one, and wait until it has ended. Its outcome is not reported."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
