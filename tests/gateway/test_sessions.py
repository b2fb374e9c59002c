"""Whole psql sessions: the same script on PostgreSQL and on the gateway prints the same text, errors included.

On every other day Spark begins with every query, in place of PostgreSQL with queries of few rows, and no row is hot;
`SLUICE_ANSWERS_SEED` stands for the day.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from _pytest.mark import ParameterSet

from tests.gateway.orphans import orphans
from tests.leftovers import Leftovers
from tests.servers import GatewayProcess, Server
from tests.tiers import ROOT

_DAY = int(os.environ.get("SLUICE_ANSWERS_SEED") or datetime.date.today().toordinal())
_SETTINGS = {"sluice.engine": "spark", "sluice.hot_rows": "0"} if _DAY % 2 else {"sluice.engine": "auto"}
_FOLDER = ROOT / "tests" / "golden" / "sessions"
SCRIPTS = sorted(path.name for path in _FOLDER.glob("*.sql"))
# Of the tier `fast` with every commit: rights, transactions, and what finds planted faults. The others by turns.
_NAMES = """
alone cut-anywhere constraint-modes-in-blocks constraints correlated-limits effects-references enums failing-rows
functions-attacked functions-rights guards-before-changes initial-defaults keys orders-of-nulls pending-checks
pipelines procedures-beside-hostile-names procedures-ending-transactions read-only references row-security
row-security-attacks row-security-changes row-security-ddl settings-of-transactions settings-that-mislead transactions
triggers-views
"""
_ALWAYS = _NAMES.split()


def _cases() -> Iterator[ParameterSet]:
    for script in SCRIPTS:
        name, path = script.removesuffix(".sql"), (_FOLDER / script).relative_to(ROOT).as_posix()
        always = name in _ALWAYS or name.endswith("-in-blocks")
        yield pytest.param(script, marks=[] if always else [pytest.mark.turns(path, every=3)])


def printed(server: Server, script: str, settings: Mapping[str, str]) -> list[str]:
    """The lines that psql prints for a script."""
    # Standard error into standard output, so that errors stand where they happened.
    done = server.psql("--echo-all", sql=(_FOLDER / script).read_text(), merge_output=True, settings=settings)
    return done.stdout.splitlines()


@pytest.fixture(scope="module", autouse=True)
def _leaves_no_file(gateway_process: GatewayProcess) -> Iterator[None]:
    """Statements that fail, or are executed again, leave no file behind: no script may."""
    before = orphans(gateway_process)
    yield
    left = set(orphans(gateway_process)) - set(before)
    assert not left


@pytest.fixture
def emptied(oracle: Server, gateway: Server, leftovers: dict[str, Leftovers]) -> Iterator[tuple[Server, Server]]:
    """PostgreSQL and the gateway. What a script has made is dropped: no other sees it, whatever the order."""
    yield oracle, gateway
    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(leftovers[server.name].clear) for server in (oracle, gateway)]:
            done.result()


@pytest.mark.parametrize("script", list(_cases()))
def test_prints_what_it_prints_on_postgresql(emptied: tuple[Server, Server], script: str) -> None:
    """At the same time: some of a script is waiting."""
    with ThreadPoolExecutor() as threads:
        on_postgresql, on_gateway = threads.map(lambda server: printed(server, script, _SETTINGS), emptied)
    assert on_gateway == on_postgresql
