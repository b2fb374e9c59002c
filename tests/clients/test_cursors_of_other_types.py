"""Cursors over columns of types that lake tables lack, in text and in binary, as drivers read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.types.composite import CompositeInfo, register_composite

from tests.servers import Server

_QUERY = "SELECT i AS whole, t::name AS name, 'pg_class'::regclass AS class, n, ROW(n, t) AS record FROM other_types i"
_ORDERED = f"{_QUERY} ORDER BY n"


@pytest.fixture(scope="module")
def table(target: Server) -> Iterator[Server]:
    target.psql("-qc", "CREATE TABLE other_types (n integer, t text)")
    target.psql(
        "-qc", "INSERT INTO other_types SELECT n, nullif('row ' || n, 'row 4') FROM generate_series(1, 50) AS n"
    )
    yield target
    target.psql("-qc", "DROP TABLE other_types")


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg(table: Server, *, binary: bool) -> None:
    with psycopg.connect(table.url) as connection:
        info = CompositeInfo.fetch(connection, "other_types")
        assert info is not None
        register_composite(info, connection)
        with connection.cursor("named", binary=binary, scrollable=True) as cursor:
            cursor.itersize = 7
            cursor.execute(_ORDERED.encode())
            rows: list[Any] = list(cursor)
            assert [(row[0].n, row[0].t) for row in rows] == [(row[3], row[1]) for row in rows]
            assert rows[3][0].t is None
            assert rows[0][2] == ("pg_class" if not binary else rows[1][2])
            cursor.scroll(0, mode="absolute")
            assert cursor.fetchone() == rows[0]


async def test_asyncpg(table: Server) -> None:
    connection = await asyncpg.connect(table.url)
    try:
        async with connection.transaction():
            rows = [row async for row in connection.cursor(f"{_QUERY} WHERE n > $1 ORDER BY n", 3, prefetch=10)]
        assert [row["whole"]["n"] for row in rows] == list(range(4, 51))
        assert [row["record"][1] for row in rows] == [row["name"] for row in rows]
        assert rows[0]["name"] is None
    finally:
        await connection.close()


def test_without_a_binary_form(table: Server) -> None:
    """PostgreSQL has none of `aclitem` at all."""
    with psycopg.connect(table.url) as connection:
        granted = "'=r/sluice'::aclitem"
        with connection.cursor("named") as cursor:
            cursor.execute(f"SELECT i, {granted} AS granted FROM other_types i WHERE n < 3 ORDER BY n".encode())
            assert [row[1] for row in cursor] == ["=r/sluice"] * 2
