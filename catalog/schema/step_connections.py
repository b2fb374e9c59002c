"""Connections for steps of schema changes: a used one serves the next step, as if it were new.

The caches of a new PostgreSQL backend are cold, so a step costs many times as much as on a used one. A step may run
code of the table's owner (`steps`). So everything that DISCARD ALL discards is discarded, before and after a connection
waits for its next step, except the plans of functions: PostgreSQL itself makes these anew if the search path, the role
or a table has changed. Source: PostgreSQL documentation, DISCARD.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import asyncpg

from catalog.connection import connect
from catalog.postgres.pool import UNREACHABLE

# The number of waiting connections. More simultaneous steps than this are rare.
_IDLE_MAX: Final = 2
# The steps of one connection: then the memory that a backend keeps for many tables is freed.
_STEPS_MAX: Final = 200
_AS_NEW: Final = (
    "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DEALLOCATE ALL; UNLISTEN *;"
    " SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES"
)


@dataclass(slots=True)
class StepConnections:
    """The step connections of one gateway; `close` at its end."""

    dsn: str
    _idle: list[tuple[asyncpg.Connection, int]] = field(default_factory=list)
    _closed: bool = False

    @asynccontextmanager
    async def one(self) -> AsyncIterator[asyncpg.Connection]:
        """Lend a connection for one step. If the step raises, or is cancelled, the connection is closed."""
        connection, steps = await self._take()
        try:
            yield connection
        except BaseException:
            connection.terminate()
            raise
        as_new = steps < _STEPS_MAX and await _is_as_new(connection)
        # Others may have come, or the end, while it was reset.
        if as_new and not self._closed and len(self._idle) < _IDLE_MAX:
            self._idle.append((connection, steps + 1))
        else:
            connection.terminate()

    async def _take(self) -> tuple[asyncpg.Connection, int]:
        while self._idle:
            connection, steps = self._idle.pop()
            if await _is_as_new(connection):
                return connection, steps
        # No statement cache: DEALLOCATE ALL would remove the statements that asyncpg keeps.
        return await connect(self.dsn, statement_cache_size=0), 1

    async def close(self) -> None:
        """Close waiting connections, and those in use after their step."""
        self._closed = True
        for connection, _ in self._idle:
            await connection.close()
        self._idle.clear()


async def _is_as_new(connection: asyncpg.Connection) -> bool:
    """Reset the session. If it is lost, or the caller is cancelled, the connection is closed; the step that was taken
    on it is committed all the same.
    """
    try:
        await connection.execute(_AS_NEW)
    except (*UNREACHABLE, asyncpg.PostgresError):
        connection.terminate()
        return False
    except BaseException:
        connection.terminate()
        raise
    return True
