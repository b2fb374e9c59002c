"""The catalog's side of the synchronisation, in memory: the decisions of catalog/sql/synchronisation.sql.

`tests/catalog/test_synchronisation.py` runs the same stories through PostgreSQL and this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from catalog.schema.clock import HybridClock, Timestamp, duration
from catalog.schema.synchronisation import Peer, Settings, Update, Word, may_activate, may_settle


@dataclass
class Ledger:
    """`checks` are the ones that are made; a test leaves some out to see that it is found out.

    `settles_alone`: an update that no other gateway can miss is settled when it is written. The simulation does
    without: there, what a gateway's own clients are served by is what its replica has heard.
    """

    settings: Settings
    physical: Callable[[], int]
    peers: dict[int, Peer] = field(default_factory=dict)
    updates: dict[int, Update] = field(default_factory=dict)
    checks: frozenset[str] = frozenset({"lease", "version", "activate", "settle", "adjacent"})

    settles_alone: bool = False

    def __post_init__(self) -> None:
        self.clock = HybridClock(self.physical)

    def register(self, number: int) -> None:
        self.peers[number] = Peer(number, 0, 0)

    def end(self, number: int) -> None:
        """It ends by itself."""
        self.peers[number] = replace(self.peers[number], granted=0)

    def report(self, number: int, confirmed: Timestamp, clock: Timestamp) -> Word:
        """A heartbeat: what it has heard of, and what its clock says."""
        self.clock.hear(clock)
        safe = self.clock.now()
        peer = self.peers[number]
        self.peers[number] = Peer(number, safe, max(confirmed, peer.confirmed))
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

    def activate(self, version: int) -> bool:
        """Whether it is made active now."""
        update, now = self.updates[version], self.clock.now()
        if now > update.active(self.settings) or (
            "activate" in self.checks and not may_activate(update, self.peers.values(), now, self.settings)
        ):
            return False
        self.updates[version] = replace(update, made_active=now)
        return True

    def settle(self, version: int) -> bool:
        update = self.updates[version]
        if "settle" in self.checks and not may_settle(update, self.peers.values(), self.clock.now(), self.settings):
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
