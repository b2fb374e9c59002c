"""Work that others add to while it is done, and the rest of which is done while they wait for a lock.

The lock is taken when what is left takes a moment: so who waits, waits for a moment, however long all of it took.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

# What is left takes about as long as the last round.
_MOMENT_SECONDS: Final = 0.3
# Others who add more than is done in the same time would never be caught up with.
_ROUNDS_MAX: Final = 20


async def until_little_is_left(catch_up: Callable[[], Awaitable[object]]) -> None:
    """Carry out what there is to do by now, and again what has come up meanwhile, until that takes but a moment."""
    for _ in range(_ROUNDS_MAX):
        begun = time.monotonic()
        await catch_up()
        if time.monotonic() - begun < _MOMENT_SECONDS:
            return
