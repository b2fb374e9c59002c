"""Each schedule at each level gives the same transcript on PostgreSQL and on the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.isolation.schedule import own_schema, read, run, run_on_all
from tests.servers import Server
from tests.tiers import ROOT

_SCHEDULES = sorted((Path(__file__).parent.parent / "golden" / "isolation").glob("*.txt"))
_LEVELS = ("READ COMMITTED", "REPEATABLE READ")
# Those to which the level makes no difference: one of the two is of the tier `fast`, by turns.
_NAMES = """
advisory-locks commit-waits conflict-meets-key-change conflict-waits constraint-rolled-back cursor-for-update
deadlock deletion-after-own-change deletion-waits-for-reference dirty-read error-frees-locks for-key-share
for-share for-update-deadlock for-update-of for-update-read-only for-update-rolled-back for-update-savepoint
key-change-rolled-back key-deadlock key-follows-computed-change key-follows-merge key-freed key-savepoint
key-set-to-itself key-waits lock-table-conflicts lock-table-deadlock lock-table many-rows merge-inserts-meet nowait
queue-in-one-statement queue-of-joined-jobs read-only-anomaly reference-and-row-locks reference-deadlock
reference-left-alone reference-of-a-changed-row row-locks-after-key-share row-locks-conflict savepoint-frees-rows
sequence-changed shared-row-changed skip-locked table-lock-in-front table-upgrade-deadlock
tables-in-a-circle-deadlock timeouts-of-keys timeouts truncate-by-functions truncate-by-role truncate-waits
update-after-rollback upgrades weaker-lock-kept write-skew
"""
_SAME_AT_BOTH = _NAMES.split()


def _cases() -> Iterator[ParameterSet]:
    for path in _SCHEDULES:
        for level in _LEVELS:
            marks: list[pytest.MarkDecorator] = []
            if path.stem in _SAME_AT_BOTH:
                rests = level != _LEVELS[_SAME_AT_BOTH.index(path.stem) % 2]
                marks = [pytest.mark.soak if rests else pytest.mark.turns(path.relative_to(ROOT).as_posix(), every=3)]
            yield pytest.param(path, level, marks=marks, id=f"{path.stem}-{level}")


@pytest.mark.parametrize(("path", "level"), list(_cases()))
def test_same_transcript(oracle: Server, gateway: Server, path: Path, level: str) -> None:
    schema = f"isolation_{path.stem.replace('-', '_')}"
    transcripts = run_on_all((oracle, gateway), schema, read(path, level))
    assert transcripts[1] == transcripts[0]
    assert ("deadlock" in path.stem) == any("40P01" in line for line in transcripts[0])


@pytest.mark.soak
@pytest.mark.parametrize("name", _SAME_AT_BOTH)
def test_the_level_makes_no_difference(oracle: Server, name: str) -> None:
    transcripts = []
    for level in _LEVELS:
        [path] = [path for path in _SCHEDULES if path.stem == name]
        with own_schema(oracle, f"isolation_{name.replace('-', '_')}") as schema:
            transcript = run(oracle, schema, read(path, level))
        transcripts.append([line.replace(level, "") for line in transcript])
    assert transcripts[0] == transcripts[1]
