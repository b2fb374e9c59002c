"""A pool of the gateway's connections to the catalog, shared by statements.

Contract: if the catalog cannot be reached or ends a connection, the error is 57P03, after which clients may retry. An
error of the catalog is a SluiceError with its own SQLSTATE.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import asyncpg

from catalog.errors import SluiceError, SqlState
from catalog.postgres.own_settings import OWN_SETTINGS

_CONNECTIONS_MAX: Final = 8
# Errors of the catalog's state or of the connection: the request may be repeated.
UNREACHABLE: Final = (
    OSError,
    EOFError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that was given up during an operation
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
)
# Errors after which background work is repeated later.
FAULTS: Final = (SluiceError, *UNREACHABLE, asyncpg.PostgresError)
# The classes "operator intervention" and "connection exception".
_INTERVENTIONS: Final = frozenset({"57", "08"})


def log_fault(log: logging.Logger, what: str, fault: BaseException) -> None:
    """Log a fault: in one line if the catalog restarts or cannot be reached, else with its traceback."""
    if isinstance(fault, UNREACHABLE) or (isinstance(fault, SluiceError) and fault.sqlstate[:2] in _INTERVENTIONS):
        log.warning("%s: %s", what, fault)
    else:
        log.error(what, exc_info=fault)


@contextmanager
def reaching() -> Iterator[None]:
    """Turn what asyncpg raises into a SluiceError."""
    try:
        yield
    except UNREACHABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SluiceError(SqlState.CANNOT_CONNECT_NOW, f"cannot reach the catalog: {reason}") from error
    except asyncpg.PostgresError as error:
        raise SluiceError(error.sqlstate or SqlState.INTERNAL_ERROR, str(error.args[0])) from error


class Pool:
    """A pool: `open` it before use, `close` it after. `renew` gives up all waits and connects again."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._opened: asyncpg.Pool | None = None

    async def open(self) -> None:
        """Connect; 57P03 if the catalog cannot be reached."""
        self._opened = await _open(self._dsn)

    async def renew(self) -> None:
        """Give up all waits: each fails with 57P03 at once."""
        before, self._opened = self._pool, await _open(self._dsn)
        before.terminate()

    async def close(self) -> None:
        """Close every connection. A pool that is not open stays closed."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    @property
    def _pool(self) -> asyncpg.Pool:
        if self._opened is None:
            raise SluiceError(SqlState.CANNOT_CONNECT_NOW, "the catalog is not open")
        return self._opened

    async def fetch(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        """Return all rows."""
        with reaching():
            rows: list[asyncpg.Record] = await self._pool.fetch(sql, *arguments)
        return rows

    async def fetchrow(self, sql: str, *arguments: object) -> asyncpg.Record | None:
        """Return the first row."""
        with reaching():
            return await self._pool.fetchrow(sql, *arguments)

    async def fetchval(self, sql: str, *arguments: object) -> Any:
        """Return the first value of the first row."""
        with reaching():
            return await self._pool.fetchval(sql, *arguments)

    async def execute(self, sql: str, *arguments: object) -> None:
        """Execute a statement without rows."""
        with reaching():
            await self._pool.execute(sql, *arguments)

    async def executemany(self, sql: str, arguments: Iterable[Sequence[object]]) -> None:
        """Execute a statement for each of these arguments, in one transaction."""
        with reaching():
            await self._pool.executemany(sql, arguments)

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[asyncpg.pool.PoolConnectionProxy]:
        """Lend one connection, for several statements."""
        with reaching():
            async with self._pool.acquire() as connection:
                yield connection


async def _open(dsn: str) -> asyncpg.Pool:
    """Open a pool without idle connections: while PostgreSQL restarts, it does not try to connect in vain."""
    with reaching():
        return await asyncpg.create_pool(
            dsn, min_size=0, max_size=_CONNECTIONS_MAX, server_settings=dict(OWN_SETTINGS), reset=_keep
        )


async def _keep(_: asyncpg.Connection) -> None:
    """Nothing beside asyncpg's own ROLLBACK: statements of the pool leave nothing in a session, and a reset is a
    round trip for each of them.
    """
