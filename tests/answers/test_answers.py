"""Random queries, changes and partitions, with another seed each day: is any answer wrong?

`SLUICE_ANSWERS_SEED` fixes the seed. A failure names its seed, and how to repeat the failing query alone.
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
_QUERIES, _SCANS, _CHANGES, _PARTITIONS = 120, 100, 30, 2
_SHRINK_SECONDS = 20.0


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


def test_queries(sides: tuple[Server, Server]) -> None:
    asker = Asker(*sides, _SHRINK_SECONDS)
    asker.queries(SEED, 0, _QUERIES)
    assert asker.counts.same > _QUERIES * 0.8, asker.counts
    _assert_none_is_wrong(asker.counts)


def test_scans(sides: tuple[Server, Server]) -> None:
    asker = Asker(*sides, _SHRINK_SECONDS)
    asker.scans(SEED, 0, _SCANS)
    assert asker.counts.same > _SCANS * 0.9, asker.counts
    _assert_none_is_wrong(asker.counts)


def test_changes(sides: tuple[Server, Server]) -> None:
    asker = Asker(*sides, _SHRINK_SECONDS)
    Changer(asker).changes(SEED, 0, _CHANGES)
    assert asker.counts.same > _CHANGES * 0.7, asker.counts
    _assert_none_is_wrong(asker.counts)


def test_partitions_at_every_snapshot(sides: tuple[Server, Server]) -> None:
    counts = Counts()
    partitions = Partitions(sides[1], counts.differences, _SHRINK_SECONDS)
    partitions.check(SEED, 0, _PARTITIONS)
    assert partitions.checked - partitions.refused > 20
    _assert_none_is_wrong(counts)
