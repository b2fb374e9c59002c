"""A hybrid logical clock: physical time if clocks agree, and never behind a heard timestamp if they do not.

Source: Kulkarni et al., "Logical Physical Clocks" (2014), as IEP-98 uses it. A timestamp is one integer, microseconds
since 1970 with a counter below them. So timestamps are totally ordered and fit PostgreSQL's bigint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# The counter of events within one microsecond. 2^51 microseconds last until 2041.
LOGICAL_BITS: Final = 12
Timestamp = int


def duration(seconds: float) -> int:
    """Return the difference of timestamps for so many seconds."""
    return round(seconds * 1_000_000) << LOGICAL_BITS


def seconds(length: int) -> float:
    """Return the seconds between two timestamps."""
    return (length >> LOGICAL_BITS) / 1_000_000


class HybridClock:
    """A hybrid clock that never stands still or goes back. `physical` is the machine's time in microseconds, which may
    be wrong."""

    def __init__(self, physical: Callable[[], int]) -> None:
        self._physical = physical
        self._last: Timestamp = 0

    def now(self) -> Timestamp:
        """Return a timestamp later than all that were given or heard."""
        self._last = max(self._physical() << LOGICAL_BITS, self._last + 1)
        return self._last

    def hear(self, timestamp: Timestamp) -> None:
        """Take in the timestamp of an event elsewhere."""
        self._last = max(self._last, timestamp)
