"""Work that others add to while it is done, and the rest of which is done while they wait for a lock.

The lock is taken when what is left takes a moment: so who waits, waits for a moment, however long all of it took. Where
rounds get no shorter, others add as much as is done meanwhile, or each takes that long whatever there is to do: then
further rounds would leave no less.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from typing import Final

# What is left takes about as long as the last round.
_MOMENT_SECONDS: Final = 0.3
# One may take long by chance.
_NO_SHORTER_MAX: Final = 2
# Rounds that get shorter by ever so little.
_ROUNDS_MAX: Final = 20


async def until_little_is_left(catch_up: Callable[[], Awaitable[object]]) -> None:
    """Carry out what there is to do by now, and again what has come up meanwhile, until that takes but a moment, or no
    less than before."""
    shortest, no_shorter = math.inf, 0
    for _ in range(_ROUNDS_MAX):
        begun = time.monotonic()
        await catch_up()
        seconds = time.monotonic() - begun
        no_shorter = 0 if seconds < shortest else no_shorter + 1
        if seconds < _MOMENT_SECONDS or no_shorter == _NO_SHORTER_MAX:
            return
        shortest = min(shortest, seconds)
