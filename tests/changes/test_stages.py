"""Every long schema change, held in each of its states: other sessions' reads and writes beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.changes.stages import expected, read, run
from tests.isolation.straddled import as_claimed
from tests.servers import GatewayProcess

_SCRIPTS = sorted((Path(__file__).parent.parent / "golden" / "changes").glob("*.txt"))


@pytest.mark.turns
@pytest.mark.parametrize("path", _SCRIPTS, ids=lambda path: path.stem)
def test_transcript(gateway_process: GatewayProcess, schema: str, path: Path) -> None:
    with as_claimed(gateway_process, path):
        transcript = run(gateway_process, gateway_process.server, schema, read(path, schema))
    assert transcript == expected(path, schema)
