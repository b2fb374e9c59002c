"""Whole psql sessions: the same script on PostgreSQL and on the gateway prints the same text, errors included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.servers import Server

# On a slow machine, the gateway says how far a change is.
_PROGRESS = re.compile(r"NOTICE:  change \d+: ")
_SCRIPTS = Path(__file__).parent.parent / "golden" / "sessions"


@pytest.mark.parametrize("script", sorted(path.name for path in _SCRIPTS.glob("*.sql")))
def test_prints_what_it_prints_on_postgresql(oracle: Server, gateway: Server, script: str) -> None:
    printed = []
    for server in (oracle, gateway):
        # Standard error into standard output, so that errors stand where they happened.
        done = server.psql("--echo-all", sql=(_SCRIPTS / script).read_text(), merge_output=True)
        printed.append([line for line in done.stdout.splitlines() if not _PROGRESS.match(line)])
    assert printed[1] == printed[0]
