"""Indexes: how long they take to make, and what a look at a few rows takes before and after."""

from __future__ import annotations

import time

import asyncpg

from tests.servers import Server

# What it is, and the statement; `{table}` is lineitem without its constraints.
INDEXES = (
    ("CREATE INDEX, integers", "CREATE INDEX by_order ON {table} (l_orderkey, l_linenumber)"),
    ("CREATE INDEX, text", "CREATE INDEX by_comment ON {table} (l_comment)"),
    ("CREATE INDEX, expression", "CREATE INDEX by_lower ON {table} (lower(l_shipmode), l_shipdate)"),
    ("CREATE INDEX, partial", "CREATE INDEX by_part ON {table} (l_partkey) WHERE l_quantity > 45"),
)
POINT = "SELECT * FROM {table} WHERE l_orderkey = $1"
RANGE = "SELECT count(*), sum(l_quantity) FROM {table} WHERE l_orderkey BETWEEN $1 AND $1 + 1000"


async def make(server: Server, table: str) -> list[float]:
    """The seconds of each of `INDEXES`."""
    connection = await asyncpg.connect(server.url)
    taken = []
    try:
        for _, statement in INDEXES:
            begin = time.perf_counter()
            await connection.execute(statement.format(table=table))
            taken.append(time.perf_counter() - begin)
    finally:
        await connection.close()
    return taken


async def look(server: Server, table: str, sql: str, times: int) -> list[float]:
    """The seconds of a prepared statement, for one key after another; the first tenth warms up and is not counted."""
    connection = await asyncpg.connect(server.url)
    taken = []
    try:
        statement = await connection.prepare(sql.format(table=table))
        for number in range(times + times // 10):
            begin = time.perf_counter()
            await statement.fetch(1 + 32 * number)
            taken.append(time.perf_counter() - begin)
    finally:
        await connection.close()
    return taken[times // 10 :]
