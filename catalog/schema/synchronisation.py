"""Many gateways, one schema: which version of it an operation is served by. No I/O: clock and network are handed in.

Source: IEP-98, "Schema synchronization", whose names are kept: DD, CSmax, Tm, Tu, Top, safe time.

The catalog keeps a log of updates of schemas. An update is *written* at Tm and *active* from Tu on: an operation at Top
is served by the last update with Tu <= Top. A gateway's *safe time* says up to when it has heard everything. Then

- Tu = Tm + DD, unless it is made active before that;
- a gateway serves an operation at Top once its safe time has reached Top - DD: an update that it has not heard of was
  written after that, and so is not active at Top. This is a lease: who hears nothing stops serving. An operation that
  had to wait is served at a later Top, up to the safe time;
- as long as it knows of an update that is not active yet, only once its safe time has reached Top itself, for the
  update may have been made active meanwhile;
- an update is made active before Tm + DD when every gateway either has confirmed that it knows it, or cannot serve any
  more by what it knew before (`may_activate`);
- it is *settled* when in addition every gateway has confirmed that, or has no lease any more, by its own clock, which
  is wrong by CSmax at most (`may_settle`). Then DDL returns, and only then is the next update of the same object
  written: so at most two adjacent versions are in use.

That all gateways give the same answer for the same Top does not depend on any clock's being right; that a client sees
its own update wherever it goes does, by CSmax. A gateway that is alone waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from catalog.schema.clock import HybridClock, Timestamp, duration


@dataclass(frozen=True, slots=True)
class Settings:
    """In seconds; all gateways of a catalog have the same (`pg_sluice.setting`).

    `delay` is DD: how long a gateway that hears nothing may serve, and the most that one which is gone delays a change.
    `clock_skew` is CSmax: how far any two clocks may differ.
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
        """Tu."""
        due = self.written + duration(settings.delay)
        return due if self.made_active is None else min(self.made_active, due)


@dataclass(frozen=True, slots=True)
class Word:
    """What the catalog tells a gateway: all that has happened to updates after `since` and until `safe`.

    `base`: updates up to this version have been active for so long that they are told no more.
    """

    since: Timestamp
    safe: Timestamp
    updates: Sequence[Update] = ()
    base: int = 0


@dataclass(frozen=True, slots=True)
class Peer:
    """A gateway as the catalog knows it: the safe time that it was last told, and the one that it has confirmed.

    `granted` is 0 for one that has not been told any yet, or that has ended by itself: it serves nothing.
    """

    number: int
    granted: Timestamp
    confirmed: Timestamp

    def serves_until(self, update: Update, settings: Settings) -> Timestamp:
        """By its own clock, it serves no operation later than this without knowing that the update is active."""
        known = update.active(settings) if self.confirmed >= update.written else update.written
        return min(self.granted, known) + duration(settings.delay)


class Step(StrEnum):
    """What becomes of an update next."""

    WAIT = "wait"
    ACTIVATE = "activate"
    SETTLE = "settle"
    DONE = "done"


def may_activate(update: Update, peers: Iterable[Peer], at: Timestamp, settings: Settings) -> bool:
    """Whether it can be made active at that time, which is later than all that gateways have told of their clocks."""
    return not _unaware(update, peers, at, settings)


def _unaware(update: Update, peers: Iterable[Peer], at: Timestamp, settings: Settings) -> list[Peer]:
    return [peer for peer in peers if peer.confirmed < update.written and at <= peer.serves_until(update, settings)]


def may_settle(update: Update, peers: Iterable[Peer], now: Timestamp, settings: Settings) -> bool:
    """Whether no gateway can still serve by what was before the update."""
    return now > update.active(settings) and not _behind(update, peers, now, settings)


def _behind(update: Update, peers: Iterable[Peer], now: Timestamp, settings: Settings) -> list[Peer]:
    active, skew = update.active(settings), duration(settings.clock_skew)
    return [peer for peer in peers if peer.confirmed < active and now <= peer.serves_until(update, settings) + skew]


def next_step(update: Update, peers: Sequence[Peer], now: Timestamp, settings: Settings) -> tuple[Step, list[Peer]]:
    """What any gateway may do for an update now, or whom it waits for."""
    if update.settled:
        return Step.DONE, []
    if now <= update.active(settings):
        unaware = _unaware(update, peers, now, settings)
        return (Step.WAIT, unaware) if unaware else (Step.ACTIVATE, [])
    behind = _behind(update, peers, now, settings)
    return (Step.WAIT, behind) if behind else (Step.SETTLE, [])


_KEPT_MAX: Final = 256
_KEPT_DELAYS: Final = 10


class Replica:
    """One gateway's copy of the log. `hear` what the catalog tells; then `serve` operations, each by `version_at`.

    `safe` is what to confirm to the catalog with the next heartbeat.
    """

    def __init__(self, settings: Settings, clock: HybridClock) -> None:
        self._settings: Final = settings
        self._delay: Final = duration(settings.delay)
        self.clock: Final = clock
        self.safe: Timestamp = 0
        self.updates: dict[int, Update] = {}
        self._pending_until: Timestamp = 0
        self._base = 0

    def hear(self, word: Word) -> bool:
        """Take it in, in whatever order words come; whether there was news in it. One with a gap before it is none."""
        self.clock.hear(word.safe)
        if word.since > self.safe or word.safe <= self.safe:
            return False
        for update in word.updates:
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
            # What was followed by another update of each of its objects long ago serves no operation.
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
        """No operation later than this is served by what is known now."""
        return self.safe + self._delay

    def serve(self, top: Timestamp) -> Timestamp | None:
        """The time at which an operation that was begun at `top` is to be served now; None while it has to wait."""
        if self.clock.now() > self.lease or (top < self._pending_until and self.safe < top):
            return None
        return max(top, self.safe)

    def version_at(self, top: Timestamp, of: int) -> int:
        """The version of an object's schema that is in force then; only where `serve` has given it."""
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


class VersionsError(Exception):
    """More than two adjacent versions of an object's schema would be in use. It is a fault of Sluice's own."""


def check_adjacent(updates: Iterable[Update], objects: frozenset[int]) -> None:
    """Before another update of these objects is written: all those before it are settled."""
    for update in updates:
        if not update.settled and update.objects & objects:
            raise VersionsError(f"update {update.version} of the schema is not known to all gateways yet")


def physical_microseconds(time_ns: Callable[[], int]) -> Callable[[], int]:
    """The machine's time as a `HybridClock` takes it."""
    return lambda: time_ns() // 1000
