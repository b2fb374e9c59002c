"""Committed transactions a second, from many sessions at once: here, on PostgreSQL, on DuckDB over its own DuckLake.

Two loads: single-row INSERTs, each a transaction of its own into one table with a primary key; and mixed transactions,
which look a row up by its key, insert one, and update one. DuckDB has no keys over DuckLake, so its table has none; a
commit of its that meets a conflict is tried again, and counts once.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import duckdb

from tests.servers import Server
from tests.witness import extension

SESSIONS = (1, 8, 32)
_TABLE = "CREATE TABLE {name} (id bigint{key}, amount integer, note text)"
# The rows that mixed transactions look up and update.
_ROWS = 1000

Load = str
INSERTS, MIXED = "INSERT", "mixed"


def statements(load: Load, number: int) -> list[str]:
    """One transaction's statements; `number` is its own."""
    insert = f"INSERT INTO {{table}} VALUES ({_ROWS + number}, 1, 'row {number}')"
    if load == INSERTS:
        return [insert]
    key = number * 7919 % _ROWS
    return [
        f"SELECT amount FROM {{table}} WHERE id = {key}",
        insert,
        f"UPDATE {{table}} SET amount = amount + 1 WHERE id = {key}",
    ]


def fill(table: str) -> str:
    """The rows that are there from the beginning."""
    return f"INSERT INTO {table} SELECT n, 0, 'x' FROM generate_series(0, {_ROWS - 1}) g (n)"


async def on_server(server: Server, load: Load, sessions: int, seconds: float) -> float:
    """Transactions a second through PostgreSQL's protocol."""
    table = f"ledger_{load.lower()}_{sessions}"
    numbers = itertools.count()
    connections = [await asyncpg.connect(server.url) for _ in range(sessions)]
    await connections[0].execute(_TABLE.format(name=table, key=" PRIMARY KEY"))
    await connections[0].execute(fill(table))
    committed = 0
    end = 0.0

    async def work(connection: asyncpg.Connection) -> None:
        nonlocal committed
        while time.perf_counter() < end:
            try:
                texts = [text.format(table=table) for text in statements(load, next(numbers))]
                if len(texts) == 1:
                    await connection.execute(texts[0])
                else:
                    async with connection.transaction():
                        for text in texts:
                            await connection.execute(text)
            except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError):
                continue
            committed += 1

    try:
        begin = time.perf_counter()
        end = begin + seconds
        await asyncio.gather(*(work(connection) for connection in connections))
        taken = time.perf_counter() - begin
    finally:
        for connection in connections:
            await connection.close()
    return committed / taken


class DuckLake:
    """DuckDB over a DuckLake of its own, whose catalog is a database of the given PostgreSQL."""

    def __init__(self, server: Server, data_path: Path) -> None:
        self._connection = duckdb.connect()
        for name in ("postgres_scanner", "ducklake"):
            self._connection.execute(f"LOAD '{extension(name)}'")
        catalog = f"host={server.host} port={server.port} user={server.user} dbname={server.database}"
        self._connection.execute(
            f"ATTACH 'ducklake:postgres:{catalog}' AS lake (DATA_PATH '{data_path}/', METADATA_SCHEMA 'duck')"
        )

    def run(self, load: Load, sessions: int, seconds: float) -> float:
        """Transactions a second from as many threads."""
        table = f"lake.ledger_{load.lower()}_{sessions}"
        self._connection.execute(_TABLE.format(name=table, key=""))
        self._connection.execute(fill(table))
        numbers, committed = itertools.count(), itertools.count()
        end = time.perf_counter() + seconds

        def work() -> None:
            with self._session() as cursor:
                while time.perf_counter() < end:
                    texts = [text.format(table=table) for text in statements(load, next(numbers))]
                    if self._committed(cursor, texts):
                        next(committed)

        threads = [threading.Thread(target=work) for _ in range(sessions)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return next(committed) / (time.perf_counter() - begin)

    @contextmanager
    def _session(self) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    @staticmethod
    def _committed(cursor: duckdb.DuckDBPyConnection, texts: list[str]) -> bool:
        try:
            cursor.execute("BEGIN")
            for text in texts:
                cursor.execute(text).fetchall()
            cursor.execute("COMMIT")
        except (duckdb.TransactionException, duckdb.IOException):
            undo(lambda: cursor.execute("ROLLBACK"))
            return False
        return True

    def close(self) -> None:
        """Let go of the catalog."""
        self._connection.close()


def undo(action: Callable[[], object]) -> None:
    """A ROLLBACK, where the failed COMMIT has left anything to roll back."""
    try:
        action()
    except duckdb.TransactionException:
        return
