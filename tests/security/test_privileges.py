"""Roles as PostgreSQL has them, over lake tables: scripts of tests/golden/rights, by the same roles on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.security.two_sides import differences
from tests.servers import GatewayProcess, Server

_SCRIPTS: Final = sorted((Path(__file__).parents[1] / "golden" / "rights").glob("*.sql"))


@pytest.mark.parametrize("script", _SCRIPTS, ids=lambda path: path.stem)
def test_as_in_postgresql(oracle: Server, gateway: Server, gateway_process: GatewayProcess, script: Path) -> None:
    found = differences(oracle, gateway, gateway_process, f"rights_{script.stem}", script.read_text())
    assert not found, "\n".join(found)
