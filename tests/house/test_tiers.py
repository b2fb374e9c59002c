"""The tiers: each test is in one, and the tests of a commit stay within their time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests import tiers

_TESTS = {f"tests/test_{number}.py::test": float(number) for number in range(1, 30)}


def test_a_part_keeps_to_its_budget() -> None:
    for seed in map(str, range(50)):
        part = tiers.part_of(_TESTS, seed, 60.0)
        assert 30.0 < sum(_TESTS[name] for name in part) <= 60.0


def test_a_test_that_exceeds_the_budget_has_its_turn_too() -> None:
    assert set().union(*(tiers.part_of(_TESTS, str(seed), 5.0) for seed in range(300))) == _TESTS.keys()


def test_a_seed_has_one_part() -> None:
    assert tiers.part_of(_TESTS, "a", 60.0) == tiers.part_of(dict(reversed(_TESTS.items())), "a", 60.0)
    assert tiers.part_of(_TESTS, "a", 60.0) != tiers.part_of(_TESTS, "b", 60.0)


def test_each_process_chooses_the_same_part() -> None:
    """Also where a part takes its budget to the last tenth: 0.1 + 0.2 + 0.3 exceeds 0.6 in one order of adding."""
    tenths = {f"tests/test_{number}.py::test": number / 10 for number in range(1, 4)}
    assert all(tiers.part_of(tenths, str(seed), 0.6) == tenths.keys() for seed in range(30))


def test_seconds_are_of_files_that_are_there() -> None:
    assert all((tiers.ROOT / path).is_file() for path in tiers.read_seconds())


def _collected(*arguments: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:randomly", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "SLUICE_SOAK_SEED"}
    told = subprocess.run(command, cwd=tiers.ROOT, capture_output=True, text=True, check=False, env=environment).stdout
    return {line for line in told.splitlines() if "::" in line}


def test_a_tier_is_taken_or_a_file() -> None:
    """A file or folder that is named is run whole; what is soak is not fast."""
    folder = "tests/simulation"
    by_tier = {tier: _collected("--tier", tier, folder) for tier in tiers.TIERS}
    assert by_tier["unit"] <= by_tier["fast"]
    assert len(by_tier["unit"]) > 1
    assert by_tier["soak"]
    assert not by_tier["fast"] & by_tier["soak"]
    assert by_tier["all"] == by_tier["fast"] | by_tier["soak"] | by_tier["suites"] == _collected(folder)
    assert _collected("--tier", "fast", "--soak-seed", "a", "--soak-seconds", "1e9", folder) == by_tier["all"]


def test_tests_by_turns_are_of_fast_with_one_commit_and_of_soak_with_others() -> None:
    path = "tests/planner/test_nested_calls.py"
    fast, soak = (_collected("--tier", tier, "--turn", "a", path) for tier in ("fast", "soak"))
    assert fast
    assert soak
    assert not fast & soak
    assert fast | soak == _collected(path)
    assert fast != _collected("--tier", "fast", "--turn", "b", path)


def test_what_changed_has_its_turn(request: pytest.FixtureRequest) -> None:
    item = request.node
    item.add_marker(pytest.mark.turns("tests/golden/a.sql"))
    names = list(map(str, range(20)))
    assert {tiers.Turn(name).has(item) for name in names} == {False, True}
    for changed in ("tests/golden/a.sql", "tests/house/test_tiers.py"):
        turns = [tiers.Turn(name, frozenset({changed})) for name in names]
        assert all(tiers.selected([item], "fast", turn, None, 0.0) == [item] for turn in turns)


def test_a_commit_that_changes_all_keeps_to_its_time() -> None:
    turn = tiers.Turn("a", frozenset(name.partition("::")[0] for name in _TESTS))
    assert 60.0 < sum(_TESTS[name] for name in turn.changed_too(_TESTS)) <= 120.0


def test_a_file_that_is_all_of_soak_is_taken_whole() -> None:
    """Its tests share what is prepared for them."""
    chosen = _collected("--tier", "fast", "--soak-seed", "a", "--soak-seconds", "1", "tests/chaos")
    files = {line.partition("::")[0] for line in chosen}
    assert len(files) == 1
    assert chosen == _collected(*files)
