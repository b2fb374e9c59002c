"""Sessions over an object store print what they print on PostgreSQL: with each day others of the golden ones, all rows
in files, and Spark for every query that it can compute."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator

import pytest

from tests.gateway.test_sessions import SCRIPTS, printed
from tests.leftovers import Leftovers
from tests.servers import GatewayProcess, Server

pytestmark = pytest.mark.turns(together=True)

_DAY = int(os.environ.get("SLUICE_ANSWERS_SEED") or datetime.date.today().toordinal())
# The scripts of one day: one of so many.
_PARTS = 20
_SETTINGS = {"sluice.engine": "spark", "sluice.hot_rows": "0"}


@pytest.fixture(scope="module")
def of_stored(stored: GatewayProcess) -> Leftovers:
    """What was on the gateway at the beginning."""
    return Leftovers(stored.server, stored.catalog_url)


@pytest.fixture
def emptied(
    oracle: Server, stored: GatewayProcess, leftovers: dict[str, Leftovers], of_stored: Leftovers
) -> Iterator[tuple[Server, Server]]:
    """PostgreSQL and the gateway. What a script has made is dropped."""
    yield oracle, stored.server
    leftovers[oracle.name].clear()
    of_stored.clear()


@pytest.mark.parametrize("script", SCRIPTS[_DAY % _PARTS :: _PARTS])
def test_prints_what_it_prints_on_postgresql(emptied: tuple[Server, Server], script: str) -> None:
    on_postgresql, on_gateway = [printed(server, script, _SETTINGS) for server in emptied]
    assert on_gateway == on_postgresql
