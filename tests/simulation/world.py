"""A simulated world of N gateways and a catalog: a seed decides clocks, messages, pauses, crashes, clients.

The gateways run catalog/schema/synchronisation.py itself; the code around it only sends and waits. Time is virtual.
Every served operation is recorded, and `judge` compares it with the log at the end.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from catalog.schema.clock import HybridClock, Timestamp
from catalog.schema.synchronisation import Replica, Settings, Update, Word
from tests.simulation.ledger import Ledger

SECOND = 1_000_000
SETTINGS = Settings(delay=2.0, heartbeat=0.5, clock_skew=0.25)
DELAY = round(SETTINGS.delay * SECOND)
SKEW = round(SETTINGS.clock_skew * SECOND)
HORIZON = 8 * DELAY
OBJECTS = 2


@dataclass(frozen=True)
class Faults:
    """What is done wrongly on purpose. `checks`: those of the catalog's that are left out."""

    skips_wait: bool = False
    checks: frozenset[str] = frozenset()


@dataclass(slots=True)
class Served:
    """An operation: taken up at `begun` and served at `at`, both in true time, by that version."""

    node: int
    of: int
    top: Timestamp
    version: int
    begun: int
    at: int
    newest: int  # the last update that was written by then, active or not


@dataclass(slots=True)
class Committed:
    """Rows that the catalog has published: by which version, and which was the newest then."""

    of: int
    version: int
    newest: Sequence[int]
    lease_held: bool


@dataclass
class World:
    """`run` it, then `judge` it. `wild`: clocks differ by more than they may."""

    seed: int
    faults: Faults = Faults()
    wild: bool = False
    served: list[Served] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    returned: dict[int, int] = field(default_factory=dict)  # update → when its client heard of it
    refused: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.now = 0
        self.healed = False
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        checks = Ledger.checks - self.faults.checks
        self.ledger = Ledger(SETTINGS, self._clock(), checks=checks)
        self.nodes: list[Node] = []
        self.outages = self._intervals(0.15)
        self.living: list[Node] = []  # from the horizon on

    # ── time and the network ────────────────────────────────────────────────────────────────────────────

    def at(self, when: int, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, what))

    def _clock(self) -> Callable[[], int]:
        """A machine's time: off, too fast or too slow, sometimes set anew; within CSmax of all others, or wild."""
        bound = SKEW * 8 if self.wild else SKEW // 2
        first, second = self.chance.randint(-bound, bound), self.chance.randint(-bound, bound)
        changes, drifts = self.chance.randint(0, 2 * HORIZON), self.chance.random() < 0.5
        base = 1_700_000_000 * SECOND

        def read() -> int:
            if drifts:
                offset = first + (second - first) * min(self.now, 3 * HORIZON) // (3 * HORIZON)
            else:
                offset = first if self.now < changes else second
            return base + self.now + offset

        return read

    def _intervals(self, likely: float) -> list[tuple[int, int]]:
        found = []
        while self.chance.random() < likely:
            begin = self.chance.randint(0, HORIZON)
            found.append((begin, begin + self.chance.randint(SECOND // 100, 2 * DELAY)))
        return found

    def within(self, intervals: list[tuple[int, int]]) -> bool:
        return not self.healed and any(begin <= self.now < end for begin, end in intervals)

    def travel(self) -> int | None:
        """How long a message takes; None for one that is lost."""
        chance = self.chance.random()
        if self.healed or chance < 0.85:
            return self.chance.randint(100, 20_000)
        if chance < 0.93:
            return self.chance.randint(20_000, DELAY // 2)
        return self.chance.randint(DELAY // 2, 3 * DELAY) if chance < 0.96 else None

    def run(self) -> World:
        for _ in range(self.chance.randint(1, 4)):
            self.start_node()
        for _ in range(self.chance.randint(1, 5)):
            self.at(self.chance.randint(0, HORIZON), lambda: self.anybody(Node.change))
        for _ in range(self.chance.randint(4, 16)):
            self.at(self.chance.randint(0, HORIZON), lambda: self.anybody(Node.operate))
        self.at(HORIZON, self._heal)
        while self._events:
            self.advance()
        return self

    def advance(self) -> None:
        """The next event."""
        self.now, _, what = heapq.heappop(self._events)
        what()

    def start_node(self) -> None:
        node = Node(self, len(self.nodes) + 1)
        self.nodes.append(node)

    def anybody(self, what: Callable[[Node], None]) -> None:
        alive = [node for node in self.nodes if node.alive]
        if alive:
            what(self.chance.choice(alive))

    def _heal(self) -> None:
        """From here on nothing fails; what was begun must get done, and so must a change of everything."""
        self.healed = True
        if not any(node.alive for node in self.nodes):
            self.start_node()
        alive = self.living = [node for node in self.nodes if node.alive]
        for of in range(OBJECTS):
            self.at(self.now + 3 * DELAY, partial(alive[0].change, of))
        for node in alive:
            for of in range(OBJECTS):
                self.at(self.now + 6 * DELAY, partial(node.operate, of))
        self.at(self.now + 7 * DELAY, self.end)

    def end(self) -> None:
        self._events.clear()

    # ── the judgement ───────────────────────────────────────────────────────────────────────────────────

    def judge(self) -> str | None:
        """What is wrong; None for nothing."""
        updates = sorted(self.ledger.updates.values(), key=lambda update: update.version)
        for each in self.served:
            right = max(
                (u.version for u in updates if each.of in u.objects and u.active(SETTINGS) <= each.top), default=0
            )
            if each.version != right:
                return f"atomicity: node {each.node} served {each.of} at {each.top} by {each.version}, not {right}"
        for row in self.committed:
            if row.version not in row.newest[-2:]:
                return f"two versions: {row.of} was committed by {row.version} when there were {row.newest}"
            if not row.lease_held:
                return f"lease: {row.of} was committed after the gateway's lease"
        if not self.wild:
            fault = self._judge_clients(updates)
            if fault is not None:
                return fault
        for update in updates:
            if not update.settled:
                return f"progress: update {update.version} was never settled"
        done = {(each.node, each.of) for each in self.served if each.begun >= HORIZON + 6 * DELAY}
        if done != {(node.number, of) for node in self.living for of in range(OBJECTS)}:
            return "progress: a gateway that lives does not serve"
        if {of for u in updates for of in u.objects if self.returned.get(u.version, 0) >= HORIZON + 3 * DELAY} != set(
            range(OBJECTS)
        ):
            return "progress: a change was never returned"
        return None

    def _judge_clients(self, updates: list[Update]) -> str | None:
        """Own updates are seen everywhere, and two adjacent versions are in use at any moment."""
        chains = {of: [0] + [u.version for u in updates if of in u.objects] for of in range(OBJECTS)}
        for each in self.served:
            if chains[each.of].index(each.newest) - chains[each.of].index(each.version) > 1:
                return f"two versions: {each.of} was served by {each.version} after {each.newest} was written"
            for version, when in self.returned.items():
                if each.of in self.ledger.updates[version].objects and each.begun >= when and each.version < version:
                    return f"own updates: update {version} had returned, and node {each.node} served {each.version}"
        return None


class Node:
    """A gateway. Everything that it does is an event that waits while it is paused and is lost when it crashes."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.alive = True
        chance = world.chance
        self.replica = Replica(SETTINGS, HybridClock(world._clock()))
        self.pauses = world._intervals(0.3)
        self.cuts = world._intervals(0.3)
        self.waiting: list[Callable[[], bool]] = []
        self.begun: set[int] = set()
        world.ledger.register(number)
        if world.now < HORIZON and chance.random() < 0.25:
            world.at(chance.randint(world.now, HORIZON), self._crash)
        self.beat()

    def _crash(self) -> None:
        if self.world.healed:
            return
        self.alive = False
        if self.world.chance.random() < 0.5:
            self.world.at(self.world.now + self.world.chance.randint(0, DELAY), self.world.start_node)

    def do(self, what: Callable[[], None]) -> None:
        """Now, or when the pause is over."""
        if not self.alive:
            return
        for begin, end in self.pauses:
            if begin <= self.world.now < end and not self.world.healed:
                self.world.at(end, lambda: self.do(what))
                return
        what()

    def ask(self, question: Callable[[], Callable[[], None] | None]) -> None:
        """Something for the catalog to do, whose answer is done here: each way a message."""
        world = self.world
        there = world.travel()
        if there is None or world.within(self.cuts):
            return

        def arrive() -> None:
            if world.within(world.outages) or world.within(self.cuts):
                return
            answer, back = question(), world.travel()
            if answer is not None and back is not None:
                world.at(world.now + back, lambda: self.do(answer))

        world.at(world.now + there, arrive)

    # ── the protocol ────────────────────────────────────────────────────────────────────────────────────

    def beat(self) -> None:
        """A heartbeat, and the next in time."""
        self.do(self.report)
        if self.alive:
            world = self.world
            world.at(world.now + round(SETTINGS.heartbeat * SECOND * world.chance.uniform(0.9, 1.1)), self.beat)

    def report(self) -> None:
        confirmed, clock = self.replica.safe, self.replica.clock.now()
        ledger = self.world.ledger

        def question() -> Callable[[], None]:
            steps = ledger.steps.total()
            word = ledger.report(self.number, confirmed, clock)
            self._tell(ledger.steps.total() > steps)
            return lambda: self.hear(word)

        self.ask(question)

    def hear(self, word: Word) -> None:
        news = self.replica.hear(word)
        self.waiting = [each for each in self.waiting if not each()]
        if any(self.replica.safe >= update.written and word.since < update.written for update in word.updates) and news:
            self.report()  # confirmed at once

    def notified(self) -> None:
        """Word that there is something to be heard."""
        travel = self.world.travel()
        if travel is not None and not self.world.within(self.cuts):
            self.world.at(self.world.now + travel, lambda: self.do(self.report))

    def _tell(self, happened: bool) -> None:
        if happened:
            for node in self.world.nodes:
                node.notified()

    # ── what clients want ───────────────────────────────────────────────────────────────────────────────

    def change(self, of: int | None = None) -> None:
        """A client changes a schema, again until it is let, and is told when that is settled."""
        world, ledger = self.world, self.world.ledger
        objects = frozenset({world.chance.randrange(OBJECTS) if of is None else of})

        def question() -> Callable[[], None]:
            update = ledger.write(self.number, objects)
            self._tell(update is not None)
            if update is None:
                return lambda: world.at(world.now + SECOND // 20, lambda: self.do(lambda: self.change(min(objects))))
            self.begun.add(update.version)
            return lambda: self._await(update.version)

        self.ask(question)

    def _await(self, version: int) -> None:
        """The client waits at this gateway for its update."""
        world = self.world

        def question() -> Callable[[], None]:
            settled = world.ledger.updates[version].settled
            return (lambda: self._return(version)) if settled else self.report

        self.ask(question)
        if version not in world.returned and world.now < HORIZON + 7 * DELAY:
            world.at(world.now + SECOND // 10, lambda: self.do(lambda: self._again(version)))

    def _again(self, version: int) -> None:
        if version not in self.world.returned:
            self._await(version)

    def _return(self, version: int) -> None:
        world = self.world
        if version in world.returned:
            return
        world.returned[version] = world.now
        [of] = world.ledger.updates[version].objects
        for node in world.nodes:  # whoever hears of it may look at it anywhere, and change it again
            if node.alive and world.chance.random() < 0.5:
                world.at(world.now + world.chance.randint(0, 5_000), partial(node.operate, of))
        if world.now < HORIZON and world.chance.random() < 0.5:
            world.at(world.now + world.chance.randint(0, 5_000), lambda: world.anybody(lambda node: node.change(of)))

    def operate(self, of: int | None = None) -> None:
        """A client's operation, which reads, or reads and then commits rows."""
        world, replica = self.world, self.replica
        of = world.chance.randrange(OBJECTS) if of is None else of
        begun = world.now

        def begin() -> None:
            asked = replica.clock.now()

            def serve() -> bool:
                top = asked if world.faults.skips_wait else replica.serve(asked)
                if top is None:
                    if world.now < begun + 2 * DELAY:
                        return False
                    world.refused += 1
                    return True
                version = replica.version_at(top, of)
                newest = max((each.version for each in world.ledger.updates.values() if of in each.objects), default=0)
                world.served.append(Served(self.number, of, top, version, begun, world.now, newest))
                wait = world.chance.choice((0, 1_000, DELAY // 4, 2 * DELAY))
                if wait:
                    world.at(world.now + wait, lambda: self.do(lambda: self.ask(lambda: self._commit(of, version))))
                return True

            if not serve():
                self.waiting.append(serve)
                self.report()

        self.do(begin)

    def _commit(self, of: int, version: int) -> None:
        ledger = self.world.ledger
        newest = [0] + [each.version for each in ledger.updates.values() if of in each.objects]
        held = ledger.holds_lease(self.number, ledger.clock.now())
        if ledger.commit(self.number, of, version):
            self.world.committed.append(Committed(of, version, newest, held))
