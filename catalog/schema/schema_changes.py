"""Long schema changes, step by step: each step is its own commit, over the change's own connection.

A change runs while the backend of its connection lives, which its row names. Until then no other session changes the
table (catalog/sql/schema_changes.sql). A dead gateway's change is undone by the next gateway that changes the same
table, or that starts; that gateway first records itself as the worker.

No step makes other sessions wait for long: it asks for the shadow's lock for a moment, and tries again if it fails.

Contract: if the connection to the catalog fails, the error is 57P03; the change is undone like a dead gateway's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Self

import asyncpg

from catalog.connection import connect
from catalog.errors import SluiceError, SqlState
from catalog.postgres.backends import BackendId
from catalog.postgres.pool import reaching
from catalog.schema.changing_elements import ChangingElement, element_from_json
from catalog.schema.states import State, Step, step, undo_path
from catalog.schema.step_connections import StepConnections
from catalog.schema.steps import Steps

_STARTED: Final = "SELECT pg_sluice.backend_started(pg_backend_pid())"
_TRY_ORDER: Final = "SELECT pg_sluice.try_order($1::bigint::oid)"
_ABANDONED: Final = """
SELECT DISTINCT relid::bigint FROM pg_sluice.schema_change
WHERE finished IS NULL AND ($1::bigint IS NULL OR relid = $1::bigint::oid)
    AND NOT pg_sluice.lives(worker_id, worker_started)
"""
# While the table's turn is held, an unfinished change has no other worker.
_TAKE_OVER: Final = """
UPDATE pg_sluice.schema_change
SET worker_id = pg_backend_pid(), worker_started = pg_sluice.backend_started(pg_backend_pid())
WHERE relid = $1::bigint::oid AND finished IS NULL RETURNING change_id
"""
_INSERT_CHANGE: Final = """
INSERT INTO pg_sluice.schema_change (relid, relation, statement, started_by, process_id, worker_id, worker_started)
SELECT c.oid, format('%I.%I', n.nspname, c.relname), $2, $3, $4,
       pg_backend_pid(), pg_sluice.backend_started(pg_backend_pid())
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::bigint::oid RETURNING change_id
"""
_INSERT_ELEMENT: Final = """
INSERT INTO pg_sluice.element
    (change_id, relid, other_relid, kind, name, of_column, definition, origin, previous, state)
VALUES ($1, $2::bigint::oid, $3::bigint::oid, $4, $5, $6, $7, $8, $8, $8) RETURNING element_id
"""
_ELEMENTS: Final = """
SELECT element_id, relid::bigint, other_relid::bigint, kind, name::text, of_column::text, definition, origin, state
FROM pg_sluice.element WHERE change_id = $1 ORDER BY element_id
"""
_FINISH: Final = """
UPDATE pg_sluice.schema_change SET finished = clock_timestamp(), error = $2 WHERE change_id = $1 AND finished IS NULL
"""
_STEERED: Final = (
    "SELECT paused, canceled, finished IS NOT NULL AS finished FROM pg_sluice.schema_change WHERE change_id = $1"
)
_RETRY_SECONDS: Final = 0.02
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a change: its table and statement, and the client's session by its process number."""

    relid: int
    statement: str
    user: str
    process_id: int


@dataclass(slots=True)
class SchemaChange:
    """A running change. `begin` starts one; `close` ends it. `canceled`: its own session wants its end."""

    change_id: int
    elements: list[ChangingElement]
    _connection: asyncpg.Connection = field(repr=False)
    _steps: Steps = field(repr=False)
    canceled: bool = False

    @classmethod
    async def begin(
        cls,
        connections: StepConnections,
        origin: Origin,
        elements: Sequence[ChangingElement],
        gateway_number: int | None = None,
    ) -> Self:
        """Wait for other changes of the table, and record this one. 42P01 if the table is gone."""
        connection = await connect(connections.dsn)
        try:
            with reaching():
                steps = await _steps(connections, connection, gateway_number)
                change_id = await _begin(connection, steps, origin, elements)
        except BaseException:
            await connection.close()
            raise
        return cls(change_id, list(elements), connection, steps)

    async def close(self) -> None:
        """Let others change the table."""
        await self._connection.close()

    async def proceed(self) -> None:
        """Wait while the change is paused; 57014 if it is canceled."""
        while True:
            paused, canceled, _ = await self._steered()
            if canceled or self.canceled:
                raise SluiceError(SqlState.QUERY_CANCELED, "canceling statement due to user request")
            if not paused:
                break
            await asyncio.sleep(_POLL_SECONDS)

    async def advance(self, element: ChangingElement, after: State) -> None:
        """Take one step when the change may proceed."""
        taken = step(element.kind, element.state, after)
        await self.proceed()
        while not await self._take(element, taken):
            await asyncio.sleep(_RETRY_SECONDS)
            await self.proceed()

    async def undo(self, error: str) -> None:
        """Go back through the states that the element has passed, unless the change has been concluded."""
        _, _, finished = await self._steered()
        if not finished:
            with reaching():
                await _undo(self._connection, self._steps, self.change_id, error)

    async def _take(self, element: ChangingElement, taken: Step) -> bool:
        with reaching():
            return await _take(self._steps, element, taken)

    async def _steered(self) -> tuple[bool, bool, bool]:
        """Whether it is paused, canceled, finished."""
        with reaching():
            row = await self._connection.fetchrow(_STEERED, self.change_id)
        assert row is not None
        return row["paused"], row["canceled"], row["finished"]


async def undo_abandoned(dsn: str, relid: int | None = None) -> None:
    """Undo the changes that dead gateways have left, of one table or of all."""
    connection, connections = await connect(dsn), StepConnections(dsn)
    try:
        with reaching():
            await _undo_dead(connection, await _steps(connections, connection), relid)
    finally:
        await connections.close()
        await connection.close()


async def _steps(connections: StepConnections, worker: asyncpg.Connection, gateway_number: int | None = None) -> Steps:
    started = await worker.fetchval(_STARTED)
    return Steps(connections, BackendId(worker.get_server_pid(), started), gateway_number)


async def _begin(
    connection: asyncpg.Connection, steps: Steps, origin: Origin, elements: Sequence[ChangingElement]
) -> int:
    """Record the change and its elements, which get their numbers; return the change's number."""
    while True:
        async with connection.transaction():
            abandoned = await _take_turn(connection, origin.relid)
            if abandoned == []:
                return await _write_down(connection, origin, elements)
        await _go_on(connection, steps, abandoned)


async def _write_down(connection: asyncpg.Connection, origin: Origin, elements: Sequence[ChangingElement]) -> int:
    change_id: int | None = await connection.fetchval(
        _INSERT_CHANGE, origin.relid, origin.statement, origin.user, origin.process_id
    )
    if change_id is None:
        raise SluiceError(SqlState.UNDEFINED_TABLE, "the table was dropped meanwhile")
    for each in elements:
        each.element_id = await connection.fetchval(
            _INSERT_ELEMENT,
            change_id,
            each.relid,
            each.other_relid,
            each.kind,
            each.name,
            each.of_column,
            each.definition,
            each.origin,
        )
    return change_id


async def _undo_dead(connection: asyncpg.Connection, steps: Steps, relid: int | None) -> None:
    for row in await connection.fetch(_ABANDONED, relid):
        taken = False
        while not taken:
            async with connection.transaction():
                abandoned = await _take_turn(connection, row["relid"])
            await _go_on(connection, steps, abandoned)
            taken = abandoned is not None


async def _take_turn(connection: asyncpg.Connection, relid: int) -> list[int] | None:
    """In a transaction: keep others from changing the table until it ends.

    Returns the abandoned changes, which belong to this connection from now on; None while another change runs.
    """
    if not await connection.fetchval(_TRY_ORDER, relid):
        return None
    return [row["change_id"] for row in await connection.fetch(_TAKE_OVER, relid)]


async def _go_on(connection: asyncpg.Connection, steps: Steps, abandoned: Sequence[int] | None) -> None:
    """After `_take_turn`: undo abandoned changes, or wait a little.

    No transaction is open meanwhile: a change may take hours, during which others clean up.
    """
    if abandoned is None:
        await asyncio.sleep(_RETRY_SECONDS)
    for change_id in abandoned or ():
        await _undo(connection, steps, change_id, "the gateway died")


async def _undo(connection: asyncpg.Connection, steps: Steps, change_id: int, error: str) -> None:
    for row in reversed(await connection.fetch(_ELEMENTS, change_id)):
        element = element_from_json(dict(row))
        for before, after in pairwise(undo_path(element.kind, element.state, element.origin)):
            taken = step(element.kind, before, after)
            while not await _take(steps, element, taken):  # noqa: ASYNC110  others' locks send no word
                await asyncio.sleep(_RETRY_SECONDS)
    async with connection.transaction():
        await connection.execute("DELETE FROM pg_sluice.element WHERE change_id = $1", change_id)
        await connection.execute(_FINISH, change_id, error)


async def _take(steps: Steps, element: ChangingElement, taken: Step) -> bool:
    if not await steps.take(element.element_id, element.relid, element.name, element.definition, taken):
        return False
    element.state = taken.after
    return True
