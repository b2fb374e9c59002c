"""Random functions, procedures, DO blocks and triggers, with another seed each day, as PostgreSQL executes them.

`SLUICE_ANSWERS_SEED` fixes the seed. A failure names its seed, and how to repeat the failing case alone.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator

import pytest

from tests.functions.running import Pair, Side, case_of
from tests.servers import Server

SEED = os.environ.get("SLUICE_ANSWERS_SEED") or str(datetime.date.today().toordinal())
_CASES = 60
_SHRINK_SECONDS = 20.0


@pytest.fixture(scope="module", params=["-c sluice.engine=spark -c sluice.hot_rows=0", "-c sluice.engine=auto"])
def pair(request: pytest.FixtureRequest, oracle: Server, gateway: Server) -> Iterator[Pair]:
    found = Pair(Side(oracle.url), Side(gateway.url, request.param), _SHRINK_SECONDS)
    yield found
    for side in (found.oracle, found.sluice):
        side.close()


@pytest.mark.turns
def test_they_do_what_they_do_on_postgresql(pair: Pair) -> None:
    pair.ask(SEED, 0, _CASES)
    assert not pair.differences, "\n".join(pair.differences)
    assert pair.same > _CASES * 0.9, pair.refused


def test_a_seed_makes_the_same_case_again() -> None:
    assert case_of("1", 7) == case_of("1", 7)
    assert case_of("1", 7) != case_of("1", 8)
