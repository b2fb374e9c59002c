"""One run of a suite against one server: test → outcome."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.suites.catalogue import Suite

ROOT: Final = Path(__file__).parents[2]
SECONDS_PER_TEST_MAX: Final = 120
_WORST_FIRST: Final = ("failed", "skipped", "passed")


def run(suite: Suite, folder: Path, url: str, only: str | None, report: Path) -> Mapping[str, str]:
    """Run it whole, in its own order. What pytest printed is beside the report, as .log."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=native"]
    # A test that hangs ends the run's process; `signal` ends the test alone.
    command += [f"--timeout={SECONDS_PER_TEST_MAX}", "--timeout-method=signal", f"--junitxml={report}"]
    command += [f"--ignore={folder / path}" for path in suite.ignored]
    if only:
        command += ["-k", only]
    environment = {**os.environ, **suite.environment(url), "PYTHONPATH": str(ROOT)}
    with report.with_suffix(".log").open("wb") as log:
        subprocess.run(
            [*command, *suite.arguments(url), *suite.tests],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if not report.exists():
        raise RuntimeError(f"pytest made no report: see {report.with_suffix('.log')}")
    return outcomes(report.read_text(), suite)


def outcomes(report: str, suite: Suite) -> Mapping[str, str]:
    """Of pytest's report in JUnit's form; of what a test did twice (its end beside itself), the worse counts."""
    found: dict[str, str] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if any(name.startswith(left_out) for left_out in suite.deselected):
            continue
        tags = {child.tag for child in case}
        outcome = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        found[name] = min(outcome, found.get(name, "passed"), key=_WORST_FIRST.index)
    return found
