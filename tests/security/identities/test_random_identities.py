"""Some random scripts, one seed always and, in the tier `soak`, one of the day; more by hand, see `__main__`."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pytest

from tests.security.identities.judge import findings
from tests.security.identities.script import script_of
from tests.security.identities.stage import Side, started
from tests.security.identities.statements import PATHS

_FIXED = "fixed"
_SEEDS = (_FIXED, pytest.param(datetime.datetime.now(datetime.UTC).date().isoformat(), marks=pytest.mark.soak))
_DONE_SHARE_MIN = 0.6


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    with started() as found:
        yield found


@pytest.mark.parametrize("seed", _SEEDS)
def test_no_other_identity_than_postgresqls(sides: tuple[Side, Side], seed: str) -> None:
    oracle, lake = sides
    script = script_of(seed, 0)
    theirs, ours = oracle.run(script), lake.run(script)
    assert findings(script, theirs, ours) == [], script.replay
    assert lake.witness.lost == 0
    # A script of which all is refused shows nothing.
    assert ours.done > _DONE_SHARE_MIN * ours.outcomes.total(), (script.replay, ours.outcomes)
    if seed != _FIXED:
        return  # chance decides which ways one script takes
    assert len({kind for kind, outcome in ours.outcomes if outcome == "done"}) > 8, (script.replay, ours.outcomes)
    assert len(ours.records) > 10, script.replay
    assert ours.paths.keys() >= set(PATHS.values()), (script.replay, ours.paths)
