"""Schema synchronisation: which schema version serves an operation at each gateway.

No I/O: clock and network are parameters. Source: IEP-98, "Schema synchronization", whose names are kept: DD, CSmax, Tm,
Tu, Top, safe time.

The catalog keeps a log of schema updates. An update is *written* at Tm and *active* from Tu on: an operation at Top is
served by the last update with Tu <= Top. A gateway's *safe time* says up to when it has heard everything. Then

- Tu = Tm + DD, unless the update is made active before;
- a gateway serves an operation at Top once its safe time has reached Top - DD: an update that it has not heard of was
  written after that, and so is not active at Top. This is a lease: a gateway that hears nothing stops serving. An
  operation that had to wait is served at a later Top, up to the safe time;
- while the gateway knows of an update that is not active yet, it serves only once its safe time has reached Top itself,
  because the update may have been made active meanwhile;
- an update is made active before Tm + DD when every gateway either has confirmed that it knows it, or can no longer
  serve by what it knew before;
- it is *settled* when in addition every gateway has confirmed that, or has no lease any more, by its own clock, which
  is wrong by CSmax at most. Then DDL returns, and only then is the next update of the same object written. So at most
  two adjacent versions are in use.

The catalog takes these two steps while it answers the heartbeat that makes them possible
(catalog/sql/synchronisation.sql).

No clock must be right for all gateways to give the same answer for the same Top. A client sees its own update at every
gateway if clocks differ by CSmax at most. A single gateway never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from catalog.schema.clock import HybridClock, Timestamp, duration


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings, in seconds; all gateways of a catalog have the same (`pg_sluice.setting`).

    `delay` is DD: how long a gateway that hears nothing may serve, and the longest delay that a dead one causes to a
    change. `clock_skew` is CSmax: the greatest difference of two clocks.
    """

    delay: float = 2.0
    heartbeat: float = 0.5
    clock_skew: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat <= self.delay / 2:
            raise ValueError("the heartbeat must be half of the delay at most")
        if not 0 <= self.clock_skew <= self.delay:
            raise ValueError("the clock skew must not exceed the delay")


@dataclass(frozen=True, slots=True)
class Update:
    """A change of objects' schemas. `made_active` is when it was made active before its time, else None."""

    version: int
    objects: frozenset[int]
    written: Timestamp
    made_active: Timestamp | None = None
    settled: bool = False

    def active(self, settings: Settings) -> Timestamp:
        """Return Tu."""
        due = self.written + duration(settings.delay)
        return due if self.made_active is None else min(self.made_active, due)


@dataclass(frozen=True, slots=True)
class Word:
    """The catalog's answer to a gateway: all that has happened to updates after `since` and until `safe`.

    Updates up to version `base` have been active for so long that they are left out.
    """

    since: Timestamp
    safe: Timestamp
    updates: Sequence[Update] = ()
    base: int = 0


_KEPT_MAX: Final = 256
_KEPT_DELAYS: Final = 10


class Replica:
    """One gateway's copy of the log. `hear` the catalog's answers; then `serve` operations, each by `version_at`.

    `safe` is to be confirmed to the catalog with the next heartbeat.
    """

    def __init__(self, settings: Settings, clock: HybridClock) -> None:
        self._settings: Final = settings
        self._delay: Final = duration(settings.delay)
        self.clock: Final = clock
        self.safe: Timestamp = 0
        self.updates: dict[int, Update] = {}
        self.heard = 0  # news of updates
        self._pending_until: Timestamp = 0
        self._base = 0

    def hear(self, word: Word) -> bool:
        """Take in an answer, in any order of arrival; return whether it had news. An answer behind a gap has none."""
        self.clock.hear(word.safe)
        if word.since > self.safe or word.safe <= self.safe:
            return False
        for update in word.updates:
            self.heard += self.updates.get(update.version) != update
            self.updates[update.version] = update
        self.safe = word.safe
        self._base = max(self._base, word.base)
        self._forget()
        return True

    def _forget(self) -> None:
        pending = [
            update.written + self._delay
            for update in self.updates.values()
            if update.made_active is None and update.written + self._delay > self.safe
        ]
        self._pending_until = max(pending, default=0)
        if len(self.updates) > _KEPT_MAX:
            # An update whose objects were all updated again long ago serves no operation.
            long_ago = self.safe - _KEPT_DELAYS * self._delay
            followed: set[int] = set()
            for version in sorted(self.updates, reverse=True):
                update = self.updates[version]
                if update.objects <= followed:
                    del self.updates[version]
                elif update.active(self._settings) < long_ago:
                    followed |= update.objects

    @property
    def lease(self) -> Timestamp:
        """The time up to which operations are served by what is known now."""
        return self.safe + self._delay

    def serve(self, top: Timestamp) -> Timestamp | None:
        """Return the time at which an operation that began at `top` is served now; None while it must wait."""
        if self.clock.now() > self.lease or (top < self._pending_until and self.safe < top):
            return None
        return max(top, self.safe)

    def version_at(self, top: Timestamp, of: int) -> int:
        """Return the version of an object's schema in force at a time that `serve` has returned."""
        versions = [
            update.version
            for update in self.updates.values()
            if of in update.objects and update.active(self._settings) <= top
        ]
        return max(versions, default=0)

    @property
    def version(self) -> int:
        """The last update that this gateway has heard of."""
        return max(self.updates, default=self._base)


def physical_microseconds(time_ns: Callable[[], int]) -> Callable[[], int]:
    """Return the machine's time as a `HybridClock` takes it."""
    return lambda: time_ns() // 1000
