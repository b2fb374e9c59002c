"""Repeats long work for concurrent changes, until the rest can be done under a lock.

The lock is taken when the rest takes a moment, so other sessions wait only a moment, however long all of it took. If
rounds do not get shorter, changes arrive as fast as they are processed, or each round has a fixed cost; further rounds
would then not help.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from typing import Final

# The rest is expected to take about as long as the last round.
_MOMENT_SECONDS: Final = 0.3
# One round may be long by chance.
_NO_SHORTER_MAX: Final = 2
# Rounds may get shorter by very little.
_ROUNDS_MAX: Final = 20


async def until_little_is_left(catch_up: Callable[[], Awaitable[object]]) -> None:
    """Process everything so far, and repeat for what was added meanwhile, until a round takes a moment, or no less
    than before.
    """
    shortest, no_shorter = math.inf, 0
    for _ in range(_ROUNDS_MAX):
        begun = time.monotonic()
        await catch_up()
        seconds = time.monotonic() - begun
        no_shorter = 0 if seconds < shortest else no_shorter + 1
        if seconds < _MOMENT_SECONDS or no_shorter == _NO_SHORTER_MAX:
            return
        shortest = min(shortest, seconds)
