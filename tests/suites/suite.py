"""What a suite is: its source, what a server must hold before it, and the command that writes its report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

SECONDS_PER_TEST_MAX: Final = 120

Settings = Callable[[str], Mapping[str, str]]  # URL of a server → environment


@dataclass(frozen=True)
class Run:
    """One run of a suite: where its files are, against which server, which tests, and the report in JUnit's form."""

    folder: Path
    url: str
    only: str | None
    report: Path


def libpq_settings(url: str) -> Mapping[str, str]:
    """The variables that libpq reads, and most drivers beside it."""
    parts = urlsplit(url)
    return {
        "PGHOST": parts.hostname or "",
        "PGPORT": str(parts.port),
        "PGUSER": parts.username or "",
        "PGDATABASE": parts.path.strip("/"),
    }


def _none(_: str) -> Mapping[str, str]:
    return {}


def _no_arguments(_: str) -> tuple[str, ...]:
    return ()


def pytest_command(suite: Suite, run: Run) -> list[str]:
    """Pytest, with the tests in the suite's own order."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "--tb=native"]
    # A test that hangs ends the run's process; `signal` ends the test alone.
    command += [f"--timeout={SECONDS_PER_TEST_MAX}", "--timeout-method=signal", f"--junitxml={run.report}"]
    command += [f"--ignore={run.folder / path}" for path in suite.ignored]
    if run.only:
        command += ["-k", run.only]
    return [*command, *suite.arguments(run.url), *suite.tests]


@dataclass(frozen=True)
class Suite:
    """One suite. Its files are the source distribution of the installed package, or a checkout: `--source`."""

    package: str
    folders: tuple[str, ...]  # what of the distribution is needed: no package that would hide the installed one
    tests: tuple[str, ...]  # arguments of the suite's own runner, relative to the suite's folder
    environment: Settings = _none
    arguments: Callable[[str], tuple[str, ...]] = _no_arguments
    deselected: Mapping[str, str] = field(default_factory=dict)  # the beginning of a test's name → why
    ignored: Mapping[str, str] = field(default_factory=dict)  # file → why
    statements: tuple[str, ...] = ()  # what its manual tells to run at the server once
    libraries: tuple[str, ...] = ()  # what its tests import beside what is installed
    repository: str | None = None  # no distribution has its tests: `--source` has to name a checkout of this
    version: Callable[[Path], str] | None = None  # of the checkout; else that of the installed package
    make_folder: Callable[[Path, Path], None] | None = None  # the work folder, of the checkout; else it is the checkout
    command: Callable[[Suite, Run], list[str]] = pytest_command
