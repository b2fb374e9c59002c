"""Django, unmodified: the same on PostgreSQL and on the gateway."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers import Server

pytestmark = pytest.mark.turns


def _told(server: Server, story: str) -> list[str]:
    """What a story says of a server."""
    arguments = [server.host, str(server.port), server.user, server.database]
    done = subprocess.run(
        [sys.executable, "-m", f"tests.clients.{story}", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"on {server.name}: {done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


def test_a_day(oracle: Server, gateway: Server) -> None:
    """The ORM, and its `atomic` with nested savepoints."""
    assert _told(gateway, "django_story") == _told(oracle, "django_story")


def test_migrations(oracle: Server, gateway: Server) -> None:
    said = []
    for server in (oracle, gateway):
        server.psql("-qc", "CREATE SCHEMA migrated_by_django")
        said.append(_told(server, "django_migrations_story"))
        server.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA migrated_by_django CASCADE")
    assert said[1] == said[0]
