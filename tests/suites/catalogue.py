"""The suites: their sources, how pytest runs them, and the excluded tests with reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

Settings = Callable[[str], Mapping[str, str]]  # URL of a server → environment


def _libpq(url: str) -> Mapping[str, str]:
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


@dataclass(frozen=True)
class Suite:
    """One suite, from the source distribution of a package at the version that is installed."""

    package: str
    folders: tuple[str, ...]  # what of the distribution is needed: no package that would hide the installed one
    tests: tuple[str, ...]  # pytest's arguments, relative to the suite's folder
    environment: Settings = _none
    arguments: Callable[[str], tuple[str, ...]] = _no_arguments
    deselected: Mapping[str, str] = field(default_factory=dict)  # the beginning of a test's name → why
    ignored: Mapping[str, str] = field(default_factory=dict)  # file → why


_SQLALCHEMY: Final = ("lib", "test", "setup.cfg", "pyproject.toml")


def _database_url(url: str) -> tuple[str, ...]:
    driver_url = url.replace("postgresql://", "postgresql+psycopg://")
    return ("--dburi", driver_url, "--maxfail=100000", "-p", "tests.suites.without_extensions")


SUITES: Final[Mapping[str, Suite]] = {
    "asyncpg": Suite(
        "asyncpg",
        ("tests",),
        ("tests",),
        environment=_libpq,
        ignored={
            "tests/test_connect.py": "starts clusters of its own, by the server's programs (and needs `distro`)",
            "tests/test__sourcecode.py": "checks asyncpg's own source with flake8 and mypy",
            "tests/test__environment.py": "checks the environment of asyncpg's own continuous integration",
        },
    ),
    "sqlalchemy-suite": Suite(
        "sqlalchemy",
        _SQLALCHEMY,
        ("test/dialect/test_suite.py",),
        arguments=_database_url,
    ),
    "sqlalchemy-postgresql": Suite(
        "sqlalchemy",
        _SQLALCHEMY,
        ("test/dialect/postgresql",),
        arguments=_database_url,
    ),
}
