"""Django's ORM and its `atomic` with nested savepoints, unmodified: the same day on PostgreSQL and on the gateway."""

from __future__ import annotations

import subprocess
import sys

from tests.servers import Server


def test_a_day(oracle: Server, gateway: Server) -> None:
    said = []
    for server in (oracle, gateway):
        arguments = [server.host, str(server.port), server.user, server.database]
        done = subprocess.run(
            [sys.executable, "-m", "tests.clients.django_story", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"on {server.name}: {done.stdout}\n{done.stderr}"
        said.append(done.stdout.splitlines())
    assert said[1] == said[0]
