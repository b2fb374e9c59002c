"""Executes a statement again after a concurrent schema change, unseen by its client.

This is safe only while no part of the answer has been sent. The statement must also stand outside of a block, or in a
block only its analysis may be stale. The error's class decides, not its text.

Repeated schema changes could delay a long statement for ever. After a few attempts it is executed in a block that
holds the schemas of its tables; the schema change then waits for this statement.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.analysis import Analysis
from gateway.execution.schema.array_carrying import carry_arrays
from gateway.statement.array_shapes import ArrayShapeError
from gateway.statement.portal import Portal, run_portal
from gateway.transaction.enlistment import SchemaChangedError

ATTEMPTS_MAX: Final = 10
_ATTEMPTS_UNHELD: Final = 3


async def run_retrying(portal: Portal, limit: int, again: Callable[[bool], Awaitable[Portal | None]]) -> Portal | None:
    """Execute a portal, or the replacement that `again` makes; return the portal that was executed.

    `again` is told whether to hold the schemas of its tables first (`Transaction.hold_schemas`). It returns None if
    the statement touches no lake table any more and it has answered the statement itself.
    """
    session = portal.session
    in_block = session.transaction.open
    resumed = portal.started
    sent = session.client.sent_bytes
    current: Portal | None = portal
    for attempt in range(1, ATTEMPTS_MAX + 1):
        assert current is not None
        try:
            await run_portal(current, limit)
        except SchemaChangedError as error:
            repeatable = error.stale or not in_block
            if resumed or not repeatable or session.client.sent_bytes != sent or attempt == ATTEMPTS_MAX:
                raise
            if in_block and isinstance(error, ArrayShapeError) and session.backend.status != b"T":
                raise
            met = error
        else:
            return current
        if current is not portal:
            await current.close()
        if not in_block and session.transaction.implicit:
            await session.transaction.roll_back()
        if isinstance(met, ArrayShapeError):
            await carry_arrays(session, met, in_block=in_block)
        current = await again(not in_block and attempt >= _ATTEMPTS_UNHELD)
        if current is None:
            return None
        sent = session.client.sent_bytes
    return current


def must_be_alike(before: Analysis, now: Analysis) -> None:
    """Raise if the result's columns differ from those that Describe has announced."""
    old = [(column.name, column.type_oid, column.typmod) for column in before.columns or ()]
    new = [(column.name, column.type_oid, column.typmod) for column in now.columns or ()]
    if old != new or before.parameter_types != now.parameter_types:
        raise SluiceError(SqlState.FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
