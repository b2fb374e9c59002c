"""A statement that met a change of schema is carried out anew, so that its client never hears of it.

Only where that is the same to the client: nothing of an answer has been sent, and either the statement stands outside
of a block, or in a block it was its analysis alone that had become stale. What decides is the error's class, not its
text.

A long statement might never find a moment's rest beside somebody who keeps changing its tables. After a few attempts it
is carried out in a block that holds their schemas: then it is the change that waits, for this one statement.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.analysis import Analysis
from gateway.execution.schema.array_carrying import carry_arrays
from gateway.statement.array_shapes import UnheldArrayError
from gateway.statement.portal import Portal, run_portal
from gateway.transaction.enlistment import SchemaChangedError

ATTEMPTS_MAX: Final = 10
_ATTEMPTS_UNHELD: Final = 3


async def run_retrying(portal: Portal, limit: int, again: Callable[[bool], Awaitable[Portal | None]]) -> Portal | None:
    """Execute a portal, or another that `again` makes in its place; returns the one that was executed.

    `again` is told whether to hold the schemas of its tables first (`Transaction.hold_schemas`). None where it found
    the statement to be none of the lake any more, and has dealt with it.
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
            if in_block and isinstance(error, UnheldArrayError) and session.backend.status != b"T":
                raise
            met = error
        else:
            return current
        if current is not portal:
            await current.close()
        if not in_block and session.transaction.implicit:
            await session.transaction.roll_back()
        if isinstance(met, UnheldArrayError):
            await carry_arrays(session, met, in_block=in_block)
        current = await again(not in_block and attempt >= _ATTEMPTS_UNHELD)
        if current is None:
            return None
        sent = session.client.sent_bytes
    return current


def must_be_alike(before: Analysis, now: Analysis) -> None:
    """A prepared statement's result is what Describe has said, whatever became of the tables."""
    old = [(column.name, column.type_oid, column.typmod) for column in before.columns or ()]
    new = [(column.name, column.type_oid, column.typmod) for column in now.columns or ()]
    if old != new or before.parameter_types != now.parameter_types:
        raise SluiceError(SqlState.FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
