"""Orphan files, as `sluice check` reports them."""

from __future__ import annotations

from tests.forks import ask_sluice
from tests.servers import GatewayProcess


def orphans(process: GatewayProcess, folder: str = "") -> list[str]:
    """Those below a folder of this name, without their age."""
    checked = ask_sluice("check", "--data-dir", str(process.data_dir))
    found = [line for line in checked.stdout.splitlines() if line.startswith("orphan: ") and folder in line]
    return [line.partition("; ")[0] for line in found]
