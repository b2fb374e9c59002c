"""Connections to PostgreSQL and to the gateway, each with a schema of the same tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.servers import Server


@contextmanager
def both_sides(
    oracle: Server, gateway: Server, schema: str, tables: str
) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """Make the schema and its `tables` on both, with connections whose search path it is; drop it in the end."""
    connections = []
    for server in (oracle, gateway):
        server.psql("-qc", f"CREATE SCHEMA {schema}")
        connections.append(psycopg.connect(server.url, autocommit=True, options=f"-c search_path={schema}"))
        connections[-1].execute(tables.encode())
    yield connections[0], connections[1]
    for server, connection in zip((oracle, gateway), connections, strict=True):
        connection.close()
        server.psql("-qc", f"DROP SCHEMA {schema} CASCADE")
