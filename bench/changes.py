"""Changes of schemas: how long they take, and what sessions that use the table notice meanwhile.

Three views: statements that touch no rows, one after another; statements that look at all rows of lineitem, or write
them anew; and the reads and writes of several sessions while such a statement is at work. PostgreSQL makes the same
changes to the same rows: there the others wait, but for CONCURRENTLY.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import asyncpg

from tests.servers import Server

READERS = WRITERS = 4
# Each is undone by the one that follows it.
METADATA = (
    "ALTER TABLE part ADD COLUMN extra integer",
    "ALTER TABLE part ALTER COLUMN extra SET DEFAULT 7",
    "ALTER TABLE part RENAME COLUMN extra TO other",
    "ALTER TABLE part DROP COLUMN other",
)
# What it is, the statement, and what takes it back.
CHANGES = (
    ("ADD CHECK", "ADD CONSTRAINT c CHECK (l_quantity > 0)", "DROP CONSTRAINT c"),
    ("SET NOT NULL", "ALTER COLUMN l_comment SET NOT NULL", "ALTER COLUMN l_comment DROP NOT NULL"),
    ("ADD FOREIGN KEY", "ADD CONSTRAINT c FOREIGN KEY (l_orderkey) REFERENCES orders", "DROP CONSTRAINT c"),
    ("ADD UNIQUE", "ADD CONSTRAINT c UNIQUE (l_orderkey, l_linenumber)", "DROP CONSTRAINT c"),
    ("ADD COLUMN, volatile", "ADD COLUMN u uuid DEFAULT gen_random_uuid()", "DROP COLUMN u"),
    ("integer to bigint", "ALTER COLUMN l_linenumber TYPE bigint", ""),
    ("bigint to text", "ALTER COLUMN l_linenumber TYPE text", ""),
)
# What the others notice: the change, and what takes it back.
BESIDE = (
    ("CREATE INDEX", "CREATE INDEX by_part ON {table} (l_partkey)", "DROP INDEX by_part"),
    ("the same CONCURRENTLY", "CREATE INDEX CONCURRENTLY by_part ON {table} (l_partkey)", "DROP INDEX by_part"),
    (
        "ADD UNIQUE",
        "ALTER TABLE {table} ADD CONSTRAINT c UNIQUE (l_orderkey, l_linenumber)",
        "ALTER TABLE {table} DROP CONSTRAINT c",
    ),
    (
        "ADD COLUMN, volatile",
        "ALTER TABLE {table} ADD COLUMN u uuid DEFAULT gen_random_uuid()",
        "ALTER TABLE {table} DROP COLUMN u",
    ),
    ("date to text", "ALTER TABLE {table} ALTER COLUMN l_commitdate TYPE text", ""),
)


@dataclass
class Noticed:
    """What the others noticed: seconds that each read and each write took, and errors by their SQLSTATE."""

    reads: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


async def metadata(server: Server, rounds: int) -> list[float]:
    """The seconds of each statement that touches no rows; the first round warms up and is not counted."""
    connection = await asyncpg.connect(server.url)
    taken = []
    try:
        for _ in range(rounds + 1):
            for statement in METADATA:
                begin = time.perf_counter()
                await connection.execute(statement)
                taken.append(time.perf_counter() - begin)
    finally:
        await connection.close()
    return taken[len(METADATA) :]


async def over_rows(server: Server, table: str) -> list[float]:
    """The seconds of each of `CHANGES`."""
    connection = await asyncpg.connect(server.url)
    taken = []
    try:
        for _, change, back in CHANGES:
            begin = time.perf_counter()
            await connection.execute(f"ALTER TABLE {table} {change}")
            taken.append(time.perf_counter() - begin)
            if back:
                await connection.execute(f"ALTER TABLE {table} {back}")
    finally:
        await connection.close()
    return taken


async def beside(server: Server, table: str, change: str | None, back: str, seconds: float) -> Noticed:
    """Several sessions read and write single rows for as long as the change takes, or, without one, for so many
    seconds. The change is taken back afterwards."""
    noticed, ended = Noticed(), asyncio.Event()
    altering, *others = [await asyncpg.connect(server.url) for _ in range(1 + READERS + WRITERS)]
    lines = itertools.count(await altering.fetchval(f"SELECT max(l_linenumber::integer) + 1 FROM {table}"))
    insert = f"INSERT INTO {table} (l_orderkey, l_linenumber, l_quantity, l_comment) VALUES (1, {{}}, 1, 'new')"
    select = f"SELECT count(*), sum(l_quantity) FROM {table} WHERE l_orderkey = {{}}"
    try:
        async with asyncio.TaskGroup() as group:
            for number, connection in enumerate(others):
                sql, taken = (select, noticed.reads) if number < READERS else (insert, noticed.writes)
                group.create_task(_use(connection, sql, lines, taken, noticed.errors, ended))
            try:
                if change is None:
                    await asyncio.sleep(seconds)
                else:
                    await altering.execute(change.format(table=table))
            finally:
                ended.set()
        if back:
            await altering.execute(back.format(table=table))
    finally:
        for connection in (altering, *others):
            await connection.close()
    return noticed


async def _use(  # noqa: PLR0917
    connection: asyncpg.Connection,
    sql: str,
    numbers: Iterator[int],
    taken: list[float],
    errors: list[str],
    ended: asyncio.Event,
) -> None:
    while not ended.is_set():
        begin = time.perf_counter()
        try:
            await connection.execute(sql.format(next(numbers)))
        except asyncpg.PostgresError as error:
            errors.append(error.sqlstate or "")
        else:
            taken.append(time.perf_counter() - begin)


def rate(taken: Sequence[float], sessions: int) -> float:
    """How many a second of all sessions together, from the time that each took."""
    return sessions * len(taken) / max(sum(taken), 1e-9)
