"""One run of a suite against one server: test → outcome."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import psycopg

from tests.suites.suite import Run, Suite

ROOT: Final = Path(__file__).parents[2]
_WORST_FIRST: Final = ("failed", "skipped", "passed")


def run(suite: Suite, one: Run, libraries: Path | None, seconds: float | None) -> Mapping[str, str]:
    """Run it in its own order, for so many seconds at most. What it printed is beside the report, as .log."""
    _prepare(suite, one.url)
    one.report.unlink(missing_ok=True)
    # A plug-in is not found as `tests.suites…`: some suites are packages of the name `tests` themselves.
    plugins = Path(__file__).parent / "plugins"
    path = os.pathsep.join(map(str, (ROOT, plugins, *([libraries] if libraries else []))))
    environment = {**os.environ, "PYTHONPATH": path, "SUITE_REPORT": str(one.report), **suite.environment(one.url)}
    with one.report.with_suffix(".log").open("wb") as log:
        subprocess.run(
            ["timeout", "--signal=INT", str(seconds or 0), *suite.command(suite, one)],  # 0 is without a limit
            cwd=one.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if not one.report.exists():
        raise RuntimeError(f"the suite made no report: see {one.report.with_suffix('.log')}")
    return outcomes(one.report.read_text(), suite)


def _prepare(suite: Suite, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in suite.statements:
            connection.execute(statement.encode())


def outcomes(report: str, suite: Suite) -> Mapping[str, str]:
    """Of the report in JUnit's form; of what a test did twice (its end beside itself), the worse counts."""
    found: dict[str, str] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if any(name.startswith(left_out) for left_out in suite.deselected):
            continue
        tags = {child.tag for child in case}
        outcome = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        found[name] = min(outcome, found.get(name, "passed"), key=_WORST_FIRST.index)
    return found
