"""Whole psql sessions: the same script on PostgreSQL and on the gateway prints the same text, errors included.

On every other day Spark begins with every query, in place of PostgreSQL with queries of few rows, and no row is hot;
`SLUICE_ANSWERS_SEED` stands for the day.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.leftovers import Leftovers
from tests.servers import Server

# On a slow machine, the gateway says how far a change is.
_PROGRESS = re.compile(r"NOTICE:  change \d+: ")
_DAY = int(os.environ.get("SLUICE_ANSWERS_SEED") or datetime.date.today().toordinal())
_SETTINGS = {"sluice.engine": "spark", "sluice.hot_rows": "0"} if _DAY % 2 else {"sluice.engine": "auto"}
_SCRIPTS = Path(__file__).parent.parent / "golden" / "sessions"


@pytest.fixture
def emptied(oracle: Server, gateway: Server, leftovers: dict[str, Leftovers]) -> Iterator[tuple[Server, Server]]:
    """PostgreSQL and the gateway. What a script has made is dropped: no other sees it, whatever the order."""
    yield oracle, gateway
    for server in (oracle, gateway):
        leftovers[server.name].clear()


@pytest.mark.parametrize("script", sorted(path.name for path in _SCRIPTS.glob("*.sql")))
def test_prints_what_it_prints_on_postgresql(emptied: tuple[Server, Server], script: str) -> None:
    printed = []
    for server in emptied:
        # Standard error into standard output, so that errors stand where they happened.
        text = (_SCRIPTS / script).read_text()
        done = server.psql("--echo-all", sql=text, merge_output=True, settings=_SETTINGS)
        printed.append([line for line in done.stdout.splitlines() if not _PROGRESS.match(line)])
    assert printed[1] == printed[0]
