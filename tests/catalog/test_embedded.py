"""The embedded PostgreSQL starts, belongs to one gateway, and dies with it."""

from __future__ import annotations

import asyncpg

from catalog.postgres.embedded import EmbeddedPostgres


async def test_speaks_and_orders_by_bytes(postgres: EmbeddedPostgres) -> None:
    connection = await asyncpg.connect(host=str(postgres.socket_directory), user="postgres", database="postgres")
    try:
        assert (await connection.fetchval("show server_version_num")).startswith("18")
        assert await connection.fetchval("select array_agg(x order by x) from unnest(array['a','B','b','A']) x") == [
            "A", "B", "a", "b",
        ]  # fmt: skip
    finally:
        await connection.close()
