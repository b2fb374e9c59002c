"""Take one step of a schema element, over a connection that serves only steps.

In a step the table's owner adds a constraint or creates an index, and PostgreSQL may run users' code for it, as the
owner (pg_sluice.as_owner in catalog/sql/superuser.sql). Such code may change the connection's session, settings and
named statements; these are discarded before another step (`step_connections`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import asyncpg

from catalog.errors import SluiceError, SqlState
from catalog.postgres.backends import BackendId
from catalog.schema.states import Step
from catalog.schema.step_connections import StepConnections

_ENTER: Final = "SELECT pg_sluice.enter(pg_backend_pid(), $1)"
_NAMES: Final = """
SELECT n.nspname, quote_ident(n.nspname) AS schema, quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS table,
       quote_ident($2) AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::bigint::oid
"""
_LOCK_TIMEOUT: Final = "SET LOCAL lock_timeout = '50ms'"
_TAKE: Final = "SELECT pg_sluice.take_step($1, $2, $3, $4, $5, $6, $7, $8)"


@dataclass(frozen=True, slots=True)
class Steps:
    """Takes steps. `worker` is the backend that works on the change: if it has gone, no step is taken any more."""

    connections: StepConnections
    worker: BackendId
    gateway_number: int | None = None

    async def take(self, element_id: int, relid: int, name: str, definition: str, step: Step) -> bool:
        """Commit a step of the element with this name and definition; false if others hold the shadow's lock.

        If the table is gone, there is nothing to do.
        """
        try:
            async with self.connections.one() as connection:
                if self.gateway_number is not None:
                    await connection.execute(_ENTER, self.gateway_number)
                return await self._take(connection, element_id, relid, name, definition, step)
        except asyncpg.PostgresError as error:
            raise SluiceError(error.sqlstate or SqlState.INTERNAL_ERROR, str(error)) from error

    async def _take(  # noqa: PLR0917
        self, connection: asyncpg.Connection, element_id: int, relid: int, name: str, definition: str, step: Step
    ) -> bool:
        try:
            async with connection.transaction():
                await connection.execute(_LOCK_TIMEOUT)
                names = await connection.fetchrow(_NAMES, relid, name)
                if names is None:
                    return True
                statement = step.statement.format(definition=definition, **dict(names))
                index = (names["nspname"], name) if step.ready is not None else (None, None)
                worker = self.worker.process_id, self.worker.started
                await connection.execute(_TAKE, element_id, *worker, step.after, statement, *index, step.ready)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            return False
        return True
