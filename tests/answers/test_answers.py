"""Random queries, changes and partitions, with another seed each day: is any answer wrong?

`SLUICE_ANSWERS_SEED` fixes the seed. A failure names its seed, and how to repeat the failing query alone. The first
part of each kind is of the tier `fast`, the others are of `soak`.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator

import pytest

from tests.answers.asking import Asker, Counts
from tests.answers.changing import Changer
from tests.answers.partitions import Partitions
from tests.answers.sides import Server
from tests.servers import Server as Address

SEED = os.environ.get("SLUICE_ANSWERS_SEED") or str(datetime.date.today().toordinal())
_QUERIES, _SCANS, _CHANGES = 60, 60, 20  # each part has tables of its own
_SHRINK_SECONDS = 20.0


_parts = pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.soak) for part in range(1, 4))])


def _assert_none_is_wrong(counts: Counts) -> None:
    print(counts)
    shown = "\n".join(map(str, counts.differences))
    assert not counts.differences, f"seed {SEED}: PostgreSQL answers otherwise\n{shown}"


@pytest.fixture(scope="module", params=["-c sluice.engine=spark -c sluice.hot_rows=0", "-c sluice.engine=auto"])
def sides(request: pytest.FixtureRequest, oracle: Address, gateway: Address) -> Iterator[tuple[Server, Server]]:
    found = Server(oracle.url, seconds=5), Server(gateway.url, options=request.param)
    yield found
    for side in found:
        side.ask("SET client_min_messages = warning; DROP SCHEMA IF EXISTS answers CASCADE")
        side.close()


@_parts
def test_queries(sides: tuple[Server, Server], part: int) -> None:
    asker = Asker(*sides, _SHRINK_SECONDS)
    asker.queries(SEED, part * _QUERIES, _QUERIES)
    assert asker.counts.same > _QUERIES * 0.8, asker.counts
    _assert_none_is_wrong(asker.counts)


@pytest.mark.turns
@_parts
def test_scans(sides: tuple[Server, Server], part: int) -> None:
    asker = Asker(*sides, _SHRINK_SECONDS)
    asker.scans(SEED, part * _SCANS, _SCANS)
    assert asker.counts.same > _SCANS * 0.9, asker.counts
    _assert_none_is_wrong(asker.counts)


@pytest.mark.turns
@_parts
def test_changes(sides: tuple[Server, Server], part: int) -> None:
    asker = Asker(*sides, _SHRINK_SECONDS)
    Changer(asker).changes(SEED, part * _CHANGES, _CHANGES)
    assert asker.counts.same > _CHANGES * 0.7, asker.counts
    _assert_none_is_wrong(asker.counts)


@pytest.mark.turns
@_parts
def test_partitions_at_every_snapshot(sides: tuple[Server, Server], part: int) -> None:
    counts = Counts()
    partitions = Partitions(sides[1], counts.differences, _SHRINK_SECONDS)
    partitions.check(SEED, part, 1)
    assert partitions.checked - partitions.refused > 10
    _assert_none_is_wrong(counts)
