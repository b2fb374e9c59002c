"""Changes of schemas: how long they take, and what sessions that write to the table notice meanwhile.

Three views: statements that touch no rows, one after another; statements that look at all rows of lineitem, or write
them anew; and the writes of several sessions while such a statement is at work. PostgreSQL makes the same changes to
the same rows, plainly: there the others wait.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import asyncpg

from tests.servers import Server

WRITERS = 8
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


@dataclass
class Noticed:
    """What writers noticed: seconds that each write took, and errors by their SQLSTATE."""

    taken: list[float] = field(default_factory=list)
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


async def beside(server: Server, table: str, change: str | None, seconds: float) -> Noticed:
    """Several sessions write single rows for as long as the change takes, or, without one, for so many seconds."""
    noticed, ended = Noticed(), asyncio.Event()
    altering, *connections = [await asyncpg.connect(server.url) for _ in range(1 + WRITERS)]
    highest = await altering.fetchval(f"SELECT max(l_linenumber::integer) FROM {table}")
    lines = itertools.count(highest + 1)
    try:
        async with asyncio.TaskGroup() as writers:
            for connection in connections:
                writers.create_task(_write(connection, table, lines, noticed, ended))
            try:
                if change is None:
                    await asyncio.sleep(seconds)
                else:
                    await altering.execute(f"ALTER TABLE {table} {change}")
            finally:
                ended.set()
    finally:
        for connection in (altering, *connections):
            await connection.close()
    return noticed


async def _write(
    connection: asyncpg.Connection, table: str, lines: Iterator[int], noticed: Noticed, ended: asyncio.Event
) -> None:
    while not ended.is_set():
        line = next(lines)
        begin = time.perf_counter()
        try:
            await connection.execute(
                f"INSERT INTO {table} (l_orderkey, l_linenumber, l_quantity, l_comment) VALUES (1, {line}, 1, 'new')"
            )
        except asyncpg.PostgresError as error:
            noticed.errors.append(error.sqlstate or "")
        noticed.taken.append(time.perf_counter() - begin)


def rate(noticed: Noticed) -> float:
    """Writes a second of all writers together, from the time that each write took."""
    return WRITERS * len(noticed.taken) / max(sum(noticed.taken), 1e-9)


def slowest(noticed: Noticed) -> float:
    """The seconds of the slowest write."""
    return max(noticed.taken)
