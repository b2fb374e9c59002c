"""Small statements: what one takes, beside PostgreSQL.

Two tables: `few` of 1,000 rows, and `many` of millions, both with a primary key. Each figure is of prepared statements
on connections that are open already; the first tenth warms up and is not counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from bench import measure
from bench.report import Figure, Report
from tests.servers import Server

_FEW: Final = 1000
_BATCH: Final = 1000
_TABLE: Final = "CREATE TABLE {0} (id bigint PRIMARY KEY, amount integer, kind text, note jsonb)"
_INSERT: Final = "INSERT INTO batch VALUES ($1, 1, 'new', NULL)"
_ROWS: Final = (
    "INSERT INTO {0} SELECT n, n % 97, 'kind ' || n % 7, '{{\"a\": [1, 2]}}' FROM generate_series(0, {1} - 1) g (n)"
)
_CORRELATED: Final = (
    "SELECT kind, (SELECT string_agg(i.id::text, ',' ORDER BY i.id) FROM few i"
    " WHERE i.kind = o.kind AND i.id < 20 AND i.note @@ '$.a[*] > 1'::jsonpath) FROM few o GROUP BY kind"
)


@dataclass(frozen=True)
class Small:
    """A statement of one parameter, which is a number of its own within the table's rows; the aims are of p50, in
    milliseconds, for `few` and for `many`. `times` it is measured."""

    name: str
    sql: str
    aims: tuple[float, ...]
    times: int = 200


STATEMENTS: Final = (
    Small("INSERT of one row", "INSERT INTO {0} VALUES ($1 + 100000000, 1, 'new', NULL)", (3.0,)),
    Small("SELECT by key", "SELECT * FROM {0} WHERE id = $1", (3.0, 6.0)),
    Small("UPDATE by key", "UPDATE {0} SET amount = amount + 1 WHERE id = $1", (6.0, 12.0)),
    Small(
        "upsert by key",
        "INSERT INTO {0} VALUES ($1, 1, 'new', NULL) ON CONFLICT (id) DO UPDATE SET amount = {0}.amount + 1",
        (6.0, 12.0),
    ),
    Small("DELETE by key", "DELETE FROM {0} WHERE id = $1", (6.0, 12.0)),
    Small("count(*)", "SELECT count(*) FROM {0} WHERE $1::bigint IS NOT NULL", (5.0,), 50),
    Small("GROUP BY", "SELECT kind, sum(amount) FROM {0} WHERE id <> $1 GROUP BY kind", (5.0,), 50),
    Small("what Spark cannot say", _CORRELATED + " HAVING min(id) <> $1", (8.0,), 30),
)


def fill(server: Server, rows: int) -> None:
    """Both tables, in the schema that sessions live in."""
    for table, count in (("few", _FEW), ("many", rows)):
        server.psql("-qc", _TABLE.format(table))
        server.psql("-qc", _ROWS.format(table, count))


async def latencies(
    server: Server, sql: str, arguments: Callable[[int], Sequence[object]], times: int
) -> tuple[float, float]:
    """p50 and p99 of a prepared statement, in seconds; the first tenth warms up and is not counted.

    `arguments` gives those of each execution, by its number."""
    connection = await asyncpg.connect(server.url)
    try:
        statement = await connection.prepare(sql)
        taken = []
        for number in range(times + times // 10):
            given = arguments(number)
            begin = time.perf_counter()
            await statement.fetch(*given)
            taken.append(time.perf_counter() - begin)
    finally:
        await connection.close()
    return measure.percentiles(taken[times // 10 :])


async def _one_by_one(connection: asyncpg.Connection) -> None:
    prepared = await connection.prepare(_INSERT)
    async with connection.transaction():
        for number in range(_BATCH):
            await prepared.fetch(number)


async def _piped(connection: asyncpg.Connection) -> None:
    await connection.executemany(_INSERT, [(number,) for number in range(_BATCH)])


async def _batch(server: Server, insert: Callable[[asyncpg.Connection], Awaitable[None]]) -> float:
    """Seconds of many INSERTs in one transaction."""
    connection = await asyncpg.connect(server.url)
    try:
        await connection.execute(_TABLE.format("batch"))
        begin = time.perf_counter()
        await insert(connection)
        return time.perf_counter() - begin
    finally:
        await connection.execute("DROP TABLE batch")
        await connection.close()


def run(report: Report, gateway: Server, postgres: Server, rows: int) -> None:
    """Fill the tables on both servers and measure."""
    for server in (gateway, postgres):
        fill(server, rows)
    report.heading(f"small statements over {_FEW} rows, and over {rows}; other: PostgreSQL 18")
    for small in STATEMENTS:
        for table, count, aim in zip(("few", "many"), (_FEW, rows), small.aims, strict=False):
            sql = small.sql.format(table)

            def spread(number: int, count: int = count) -> tuple[int]:
                return (number * 7919 % count,)

            ours, other = (asyncio.run(latencies(server, sql, spread, small.times)) for server in (gateway, postgres))
            name = f"{small.name}, {table}"
            report.add(Figure(f"{name}, p50", ours[0] * 1e3, other[0] * 1e3, "ms", ours_max=aim))
            report.add(Figure(f"{name}, p99", ours[1] * 1e3, other[1] * 1e3, "ms"))
    for way, insert in (("one by one", _one_by_one), ("piped", _piped)):
        ours_taken, other_taken = (asyncio.run(_batch(server, insert)) for server in (gateway, postgres))
        report.add(Figure(f"{_BATCH} INSERTs in a block, {way}", ours_taken, other_taken, "s", ours_max=1.0))
