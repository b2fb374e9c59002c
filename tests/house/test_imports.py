"""Imports run one way, and each foreign library belongs to one floor: the contracts of pyproject.toml."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_contracts_are_kept() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run([*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken." in done.stdout


def test_the_codec_contract_covers_the_whole_codec() -> None:
    """The rooms of the codec do no I/O, new modules included."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (codec,) = [contract for contract in contracts if contract["name"] == "the wire codec does no I/O"]
    pure = {name.removeprefix("gateway.") for name in codec["source_modules"]}
    assert {"wire", "values", "copy_format"} <= pure
