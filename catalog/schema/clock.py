"""A hybrid logical clock: physical time where clocks agree, and never behind what was heard, where they do not.

Source: Kulkarni et al., "Logical Physical Clocks" (2014), as IEP-98 uses it. A timestamp is one integer, microseconds
since 1970 with a counter below them: so timestamps are totally ordered and fit PostgreSQL's bigint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# Counts what happens within one microsecond. 2^51 microseconds last until 2041.
LOGICAL_BITS: Final = 12
Timestamp = int


def duration(seconds: float) -> int:
    """What to add to a timestamp."""
    return round(seconds * 1_000_000) << LOGICAL_BITS


def seconds(length: int) -> float:
    """How long the time between two timestamps is."""
    return (length >> LOGICAL_BITS) / 1_000_000


class HybridClock:
    """`physical` is the machine's time in microseconds, which may be wrong, stand still or go back; this does not."""

    def __init__(self, physical: Callable[[], int]) -> None:
        self._physical = physical
        self._last: Timestamp = 0

    def now(self) -> Timestamp:
        """Later than all that was given or heard."""
        self._last = max(self._physical() << LOGICAL_BITS, self._last + 1)
        return self._last

    def hear(self, timestamp: Timestamp) -> None:
        """Something has happened then, elsewhere."""
        self._last = max(self._last, timestamp)
