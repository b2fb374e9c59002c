"""Schedules of many gateways by the ten thousand, each replayed by its seed: `World(seed).run().judge()`."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.simulation.world import DELAY, SECOND, Faults, World

# So many in all, in parts that may run side by side; any number by hand.
_SCHEDULES = int(os.environ.get("SLUICE_SCHEDULES", "20000"))
_PARTS = 8
_WILD = 10  # every so manieth has clocks that are wrong by more than they may be

# By kind: what is done wrongly, and what must come of it.
_PLANTED = {
    "skip the wait for safe time": (Faults(skips_wait=True), "atomicity"),
    "skip the lease": (Faults(checks=frozenset({"lease"})), "lease"),
    "activate early": (Faults(checks=frozenset({"activate"})), "atomicity"),
    "return early": (Faults(checks=frozenset({"settle"})), "own updates"),
    "skip the version at commit": (Faults(checks=frozenset({"version"})), "two versions"),
    "write before the last one is settled": (Faults(checks=frozenset({"adjacent"})), "two versions"),
}
_FOUND_WITHIN = 1500


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.soak) for part in range(1, _PARTS))])
def test_schedules(part: int) -> None:
    served = returned = committed = refused = 0
    for seed in range(part, _SCHEDULES, _PARTS):
        world = World(seed, wild=seed % _WILD == 0).run()
        assert world.judge() is None, f"World({seed}, wild={world.wild}): {world.judge()}"
        served += len(world.served)
        returned += len(world.returned)
        committed += len(world.committed)
        refused += world.refused
    # That much happened in them.
    count = _SCHEDULES // _PARTS
    assert served > 5 * count
    assert returned > 2 * count
    assert committed > count
    assert refused > 0


@pytest.mark.parametrize("kind", _PLANTED)
@pytest.mark.parametrize("batch", [0, *(pytest.param(batch, marks=pytest.mark.soak) for batch in (1, 2))])
def test_what_is_done_wrongly_is_found(kind: str, batch: int) -> None:
    faults, expected = _PLANTED[kind]
    first = 1_000_000 * (batch + 1)
    found: Counter[str] = Counter()
    for seed in range(first, first + _FOUND_WITHIN):
        judgement = World(seed, faults).run().judge()
        if judgement is not None:
            found[judgement.partition(":")[0]] += 1
            if found[expected]:
                return
    pytest.fail(f"{kind} was not found: {found}")


def test_a_seed_replays() -> None:
    one, other = World(4711).run(), World(4711).run()
    assert one.served == other.served
    assert one.ledger.updates == other.ledger.updates


def test_one_gateway_alone_waits_for_nobody() -> None:
    """Its update is active and settled as soon as its own words have come back, long before DD."""
    world = World(1)
    world.healed = True
    world.start_node()
    [node] = world.nodes
    world.at(SECOND, lambda: node.change(0))
    while not world.returned:
        world.advance()
    assert world.returned[1] < SECOND + DELAY // 4
