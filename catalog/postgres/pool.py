"""Connections of the gateway's own to the catalog, of which several statements share a few.

Contract: where the catalog cannot be reached, or ends a connection, that is 57P03, which clients may try again; what it
refuses is a SluiceError with its own SQLSTATE.
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
# What the catalog, or the way to it, says of itself: whatever was asked may be asked again.
UNREACHABLE: Final = (
    OSError,
    EOFError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that was given up in the midst of something
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
)
# What may go wrong with work in the background, which is done again later.
FAULTS: Final = (SluiceError, *UNREACHABLE, asyncpg.PostgresError)
# The class of what operators do, and of connections.
_INTERVENTIONS: Final = frozenset({"57", "08"})


def log_fault(log: logging.Logger, what: str, fault: BaseException) -> None:
    """A catalog that restarts, or cannot be reached, is told of in a line; whatever else, with where it came from."""
    if isinstance(fault, UNREACHABLE) or (isinstance(fault, SluiceError) and fault.sqlstate[:2] in _INTERVENTIONS):
        log.warning("%s: %s", what, fault)
    else:
        log.error(what, exc_info=fault)


@contextmanager
def reaching() -> Iterator[None]:
    """What asyncpg raises, as a SluiceError."""
    try:
        yield
    except UNREACHABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SluiceError(SqlState.CANNOT_CONNECT_NOW, f"cannot reach the catalog: {reason}") from error
    except asyncpg.PostgresError as error:
        raise SluiceError(error.sqlstate or SqlState.INTERNAL_ERROR, str(error.args[0])) from error


class Pool:
    """`open` it before use; `close` it. `renew` gives up whatever it waits for, and begins anew."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._opened: asyncpg.Pool | None = None

    async def open(self) -> None:
        """57P03 where the catalog cannot be reached."""
        self._opened = await _open(self._dsn)

    async def renew(self) -> None:
        """The catalog is not heard any more: who waits for it meets 57P03 at once."""
        before, self._opened = self._pool, await _open(self._dsn)
        before.terminate()

    async def close(self) -> None:
        """Close every connection. One that is not open stays so."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    @property
    def _pool(self) -> asyncpg.Pool:
        if self._opened is None:
            raise SluiceError(SqlState.CANNOT_CONNECT_NOW, "the catalog is not open")
        return self._opened

    async def fetch(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        """All rows."""
        with reaching():
            rows: list[asyncpg.Record] = await self._pool.fetch(sql, *arguments)
        return rows

    async def fetchrow(self, sql: str, *arguments: object) -> asyncpg.Record | None:
        """The first row."""
        with reaching():
            return await self._pool.fetchrow(sql, *arguments)

    async def fetchval(self, sql: str, *arguments: object) -> Any:
        """The first value of the first row."""
        with reaching():
            return await self._pool.fetchval(sql, *arguments)

    async def execute(self, sql: str, *arguments: object) -> None:
        """Carry out a statement without rows."""
        with reaching():
            await self._pool.execute(sql, *arguments)

    async def executemany(self, sql: str, arguments: Iterable[Sequence[object]]) -> None:
        """Carry out a statement for each of these, in one transaction."""
        with reaching():
            await self._pool.executemany(sql, arguments)

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[asyncpg.pool.PoolConnectionProxy]:
        """One connection, for several statements."""
        with reaching():
            async with self._pool.acquire() as connection:
                yield connection


async def _open(dsn: str) -> asyncpg.Pool:
    """No connection is kept for its own sake: while PostgreSQL restarts, nobody tries to open one in vain."""
    with reaching():
        settings = dict(OWN_SETTINGS)
        return await asyncpg.create_pool(dsn, min_size=0, max_size=_CONNECTIONS_MAX, server_settings=settings)
