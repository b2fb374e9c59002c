"""The migrations of tests/clients, by Alembic and by Django, as these send them: how long they wait for the server.

In turns with PostgreSQL. Python's own work, which is the same with both, does not count.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench.report import Figure, Report
from tests.servers import Server

_SHOWN: Final = 10
# A kind of statement, and the seconds that it took.
Taken = Sequence[tuple[str, float]]


def run(report: Report, ours: Server, other: Server, repeat: int) -> None:
    """Both stories, so many times."""
    for name, tell in (("Alembic", _alembic), ("Django", _django)):
        rounds = [(tell(ours), tell(other)) for _ in range(repeat)]
        report.heading(f"migrations by {name}, waiting for the server, other: PostgreSQL 18")
        whole = [[sum(seconds for _, seconds in taken) for taken in sides] for sides in zip(*rounds, strict=True)]
        mine, theirs = (statistics.median(each) for each in whole)
        report.add(Figure(f"all {len(rounds[0][0])} statements", mine, theirs, "s", "PostgreSQL"))
        here, there = (_by_kind(sides) for sides in zip(*rounds, strict=True))
        for kind in sorted(here, key=lambda each: -sum(here[each]))[:_SHOWN]:
            label = f"  {kind}, {len(here[kind]) // repeat} times"
            report.add(Figure(label, _mean(here[kind]) * 1e3, _mean(there.get(kind, ())) * 1e3, "ms"))


def _mean(seconds: Sequence[float]) -> float:
    return statistics.mean(seconds) if seconds else 0.0


def _by_kind(stories: Sequence[Taken]) -> dict[str, list[float]]:
    found = defaultdict(list)
    for kind, seconds in (each for taken in stories for each in taken):
        found[kind].append(seconds)
    return found


def _alembic(server: Server) -> Taken:
    url = f"{server.url.replace('postgresql:', 'postgresql+psycopg:')}?options=-csearch_path%3Dmigrated"
    return _told(server, ("migrated", "archive"), lambda file: [file, "tests.clients.alembic_story", url])


def _django(server: Server) -> Taken:
    place = (server.host, str(server.port), server.user, server.database)
    return _told(server, ("migrated_by_django",), lambda file: [file, "tests.clients.django_migrations_story", *place])


def _told(server: Server, schemas: Sequence[str], arguments: Callable[[str], Sequence[str]]) -> Taken:
    server.psql("-qc", f"CREATE SCHEMA {schemas[0]}")
    try:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "taken"
            command = [sys.executable, "-m", "bench.timed_story", *arguments(str(file))]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            return [(kind, seconds) for kind, seconds in json.loads(file.read_text())]
    finally:
        dropped = f"DROP SCHEMA IF EXISTS {', '.join(schemas)} CASCADE"
        server.psql("-qc", f"SET client_min_messages = warning; {dropped}")
