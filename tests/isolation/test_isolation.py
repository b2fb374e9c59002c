"""Each schedule at each level gives the same transcript on PostgreSQL and on the gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.isolation.schedule import read, run_on_all
from tests.servers import Server

_SCHEDULES = sorted((Path(__file__).parent.parent / "golden" / "isolation").glob("*.txt"))


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("path", _SCHEDULES, ids=lambda path: path.stem)
def test_same_transcript(oracle: Server, gateway: Server, path: Path, level: str) -> None:
    schema = f"isolation_{path.stem.replace('-', '_')}"
    transcripts = run_on_all((oracle, gateway), schema, read(path, level))
    assert transcripts[1] == transcripts[0]
    assert ("deadlock" in path.stem) == any("40P01" in line for line in transcripts[0])
