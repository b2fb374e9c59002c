"""The catalog's side of the synchronisation, in memory: the decisions of catalog/sql/synchronisation.sql.

`tests/catalog/test_synchronisation.py` runs the same stories through PostgreSQL and this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from catalog.schema.clock import HybridClock, Timestamp, duration
from catalog.schema.synchronisation import Settings, Update, Word


@dataclass(frozen=True, slots=True)
class Peer:
    """A gateway as the catalog knows it: the safe time that it was last told, and the one that it has confirmed.

    `granted` is 0 for a gateway that has not been told any yet, or that has ended by itself: it serves nothing.
    """

    number: int
    granted: Timestamp
    confirmed: Timestamp

    def serves_until(self, update: Update, settings: Settings) -> Timestamp:
        """Return the time, by its own clock, up to which it may serve operations without knowing that the update is
        active."""
        known = update.active(settings) if self.confirmed >= update.written else update.written
        return min(self.granted, known) + duration(settings.delay)


def may_activate(update: Update, peers: Iterable[Peer], at: Timestamp, settings: Settings) -> bool:
    """Whether it can be made active at that time, which is later than all times that gateways have reported."""
    if at > update.active(settings):
        return False
    return all(peer.confirmed >= update.written or at > peer.serves_until(update, settings) for peer in peers)


def may_settle(update: Update, peers: Iterable[Peer], at: Timestamp, settings: Settings) -> bool:
    """Whether no gateway can still serve by the version before the update."""
    active, skew = update.active(settings), duration(settings.clock_skew)
    return at > active and all(
        peer.confirmed >= active or at > peer.serves_until(update, settings) + skew for peer in peers
    )


@dataclass
class Ledger:
    """`checks` are the ones that are made; a test leaves some out to see that it is found out.

    `settles_alone`: an update that no other gateway can miss is settled when it is written. The simulation does
    without: there, what a gateway's own clients are served by is what its replica has heard. `steps` counts what
    heartbeats have brought about.
    """

    settings: Settings
    physical: Callable[[], int]
    peers: dict[int, Peer] = field(default_factory=dict)
    updates: dict[int, Update] = field(default_factory=dict)
    checks: frozenset[str] = frozenset({"lease", "version", "activate", "settle", "adjacent"})

    settles_alone: bool = False
    steps: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.clock = HybridClock(self.physical)

    def register(self, number: int) -> None:
        self.peers[number] = Peer(number, 0, 0)

    def end(self, number: int) -> None:
        """It ends by itself."""
        self.peers[number] = replace(self.peers[number], granted=0)

    def report(self, number: int, confirmed: Timestamp, clock: Timestamp) -> Word:
        """A heartbeat: what it has heard of, and what its clock says. Takes the steps that are possible then."""
        self.clock.hear(clock)
        safe = self.clock.now()
        peer = self.peers[number]
        self.peers[number] = Peer(number, peer.granted, max(confirmed, peer.confirmed))
        for update in self.unsettled():
            step = "activate" if self.activate(update.version, safe) else "settle"
            if step == "activate" or self.settle(update.version, safe):
                self.steps[step] += 1
        self.peers[number] = replace(self.peers[number], granted=safe)
        since = confirmed - 2 * duration(self.settings.delay)
        updates = [update for update in self.updates.values() if max(update.written, update.made_active or 0) > since]
        told = {update.version for update in updates}
        # The last before these of each object serves what is done until they are active.
        latest: dict[int, Update] = {}
        for update in self.updates.values():
            if update.version not in told:
                latest.update(dict.fromkeys(update.objects, update))
        return Word(confirmed, safe, [*latest.values(), *updates])

    def holds_lease(self, number: int, now: Timestamp) -> bool:
        granted = self.peers[number].granted
        return granted > 0 and now <= granted + duration(self.settings.delay)

    def write(self, number: int, objects: frozenset[int]) -> Update | None:
        """An update is published; None where that is refused."""
        now = self.clock.now()
        if "lease" in self.checks and not self.holds_lease(number, now):
            return None
        unsettled = any(not each.settled and each.objects & objects for each in self.updates.values())
        if "adjacent" in self.checks and unsettled:
            return None
        update = Update(len(self.updates) + 1, objects, now)
        if self.settles_alone and self._is_alone(number, now):
            update = replace(update, made_active=now, settled=True)
        self.updates[update.version] = update
        return update

    def _is_alone(self, number: int, now: Timestamp) -> bool:
        patience = duration(self.settings.delay) + duration(self.settings.clock_skew)
        return all(peer.granted + patience < now for peer in self.peers.values() if peer.number != number)

    def activate(self, version: int, now: Timestamp) -> bool:
        """Whether it is made active now."""
        update = self.updates[version]
        checked = "activate" not in self.checks or may_activate(update, self.peers.values(), now, self.settings)
        if now > update.active(self.settings) or not checked:
            return False
        self.updates[version] = replace(update, made_active=now)
        return True

    def settle(self, version: int, now: Timestamp) -> bool:
        update = self.updates[version]
        checked = "settle" not in self.checks or may_settle(update, self.peers.values(), now, self.settings)
        if now <= update.active(self.settings) or not checked:
            return False
        self.updates[version] = replace(update, settled=True)
        return True

    def commit(self, number: int, of: int, version: int) -> bool:
        """Rows that were made by that version of the object: whether they are published."""
        if "lease" in self.checks and not self.holds_lease(number, self.clock.now()):
            return False
        versions = [each.version for each in self.updates.values() if of in each.objects]
        return "version" not in self.checks or version in ([0, *versions])[-2:]

    def unsettled(self) -> list[Update]:
        return [update for update in self.updates.values() if not update.settled]
