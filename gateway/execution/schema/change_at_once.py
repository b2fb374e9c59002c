"""A schema change outside of a block, in one message to PostgreSQL: from BEGIN to COMMIT.

Most changes look at no row, so nothing has to be asked between the statement and its COMMIT. If a change needs more
than that, PostgreSQL undoes all of it: a lock or a turn that others have, or a look at rows. It is made carefully then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from catalog.errors import SqlState
from gateway.backend.lock_backoff import patience_ends, short_patience
from gateway.execution.shadow.function_guard import without_rows
from gateway.transaction.transaction import UNDECIDED
from gateway.transaction.whole_transaction import run_at_once

if TYPE_CHECKING:
    from gateway.backend.connection import Result
    from gateway.backend.own_statement import Statement
    from gateway.statement.portal import StatementPortal

_GIVEN_UP: Final = frozenset({UNDECIDED, SqlState.LOCK_NOT_AVAILABLE})


def is_alone(portal: StatementPortal) -> bool:
    """Whether the statement has a transaction of its own, which ends with it."""
    session = portal.session
    return not session.transaction.open and session.ends_with_statement


async def at_once(
    portal: StatementPortal, first: Sequence[Statement] = (), then: Sequence[Statement] = ()
) -> Result | None:
    """Carry out the client's statement, which is alone, between these; return PostgreSQL's answer to it.

    None if nothing was done, because the change has to be made carefully. `first` and `then` wait for nothing: a lock
    that is not to be had is one of the statement's.
    """
    session, statement = portal.session, without_rows(portal)
    if statement is None or session.transaction.read_only.is_default:
        return None
    sent = (*first, short_patience(), statement, patience_ends(), *then)
    answers = await run_at_once(session.transaction, session.backend, sent, _GIVEN_UP)
    return None if answers is None else answers[len(first) + 1]
