"""Cursors that lock rows pass over those that their own transaction has changed: portals of the protocol, LIMIT.

Scripts beside PostgreSQL: `cursors-locking.sql`, and the isolation schedule `cursor-beside-own-changes.txt`.
"""

from __future__ import annotations

import asyncio

import asyncpg
import psycopg
import pytest

from tests.servers import Server

_MAKE = "CREATE TABLE portal_rows (id integer PRIMARY KEY, n integer); INSERT INTO portal_rows VALUES {0}"
_ROWS = ", ".join(f"({n}, 0)" for n in range(1, 9))


def test_a_named_portal_passes_over_changed_rows(oracle: Server, gateway: Server) -> None:
    async def fetched(server: Server) -> list[list[int]]:
        connection = await asyncpg.connect(server.url)
        try:
            await connection.execute(_MAKE.format(_ROWS))
            async with connection.transaction():
                cursor = await connection.cursor("SELECT id FROM portal_rows WHERE id < $1 ORDER BY id FOR UPDATE", 8)
                found = [await cursor.fetch(1)]
                await connection.execute("UPDATE portal_rows SET n = 1 WHERE id IN (2, 6)")
                await connection.execute("DELETE FROM portal_rows WHERE id = 3")
                found.append(await cursor.fetch(2))
                found.append(await cursor.fetch(5))
            return [[row["id"] for row in rows] for rows in found]
        finally:
            await connection.execute("DROP TABLE IF EXISTS portal_rows")
            await connection.close()

    told = [asyncio.run(fetched(server)) for server in (oracle, gateway)]
    assert told == [[[1], [4, 5], [7]]] * 2


def test_no_row_takes_the_place_of_a_changed_one_within_limit(gateway: Server) -> None:
    """PostgreSQL would lock a further row then. Rows that the transaction changed before the first FETCH are no
    matter."""
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        run = connection.execute
        run(_MAKE.format(_ROWS).encode())
        try:
            run("BEGIN; DECLARE c CURSOR FOR SELECT id FROM portal_rows ORDER BY id OFFSET 1 LIMIT 3 FOR SHARE")
            run("UPDATE portal_rows SET n = 1 WHERE id = 3")
            assert run("FETCH FROM c").fetchall() == [(2,)]
            run("DELETE FROM portal_rows WHERE id = 4")
            assert run("FETCH FROM c").fetchall() == [(5,)]
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="LIMIT"):
                run("FETCH FROM c")
            run("ROLLBACK; BEGIN; DECLARE c CURSOR FOR SELECT id FROM portal_rows ORDER BY id LIMIT 9 FOR SHARE")
            assert run("FETCH FROM c").fetchall() == [(1,)]
            run("DELETE FROM portal_rows WHERE id < 8")
            assert run("FETCH ALL FROM c").fetchall() == [(8,)]
            run("ROLLBACK")
        finally:
            run("ROLLBACK; DROP TABLE portal_rows")
