"""Alembic, unmodified: the same 25 migrations on PostgreSQL and on the gateway leave the same schema and rows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from catalog.postgres.embedded import binaries
from tests.servers import Server

pytestmark = pytest.mark.turns

_SCHEMAS = ("migrated", "archive")


def _migrated(server: Server) -> tuple[list[str], list[str]]:
    """What the story says, and what pg_dump says of the schema afterwards."""
    server.psql("-qc", "CREATE SCHEMA migrated")
    url = f"{server.url.replace('postgresql:', 'postgresql+psycopg:')}?options=-csearch_path%3Dmigrated"
    told = subprocess.run(
        [sys.executable, "-m", "tests.clients.alembic_story", url], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, f"on {server.name}: {told.stdout}\n{told.stderr}"
    chosen = [f"--schema={schema}" for schema in _SCHEMAS]
    dumped = server.run(binaries() / "pg_dump", "--schema-only", *chosen).stdout
    server.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {', '.join(_SCHEMAS)} CASCADE")
    return told.stdout.splitlines(), [line for line in dumped.splitlines() if "restrict" not in line]


def test_up_and_down_and_up_again(oracle: Server, gateway: Server) -> None:
    (said, schema), (said_here, schema_here) = _migrated(oracle), _migrated(gateway)
    assert said_here == said
    assert schema_here == schema
