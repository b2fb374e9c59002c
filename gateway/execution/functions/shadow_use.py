"""A transaction's use of shadows before a statement with functions, and the watch over them that begins then."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog.errors import SluiceError, SqlState
from gateway.backend import catalog_calls
from gateway.backend.own_statement import Statement
from gateway.execution.constraints.constraint_validation import Obligation, obligations_of
from gateway.execution.filling.opened_cursors import CURSORS
from gateway.execution.filling.shadow_touches import TOUCHES, Touch, touches
from gateway.execution.shadow.function_guard import NEWEST, REFUSE_REWRITING, UNWATCHED, WATCHED
from gateway.session.constraint_modes import KEEP_OWN
from gateway.session.pending_constraints import pending_checks, refuse_answered

if TYPE_CHECKING:
    from gateway.backend.connection import Backend, Result
    from gateway.session.session_context import SessionContext


@dataclass(frozen=True, slots=True)
class ShadowUse:
    """The number of the newest table, the backend's cursors, what the transaction has done to each shadow `before` the
    statement, and the answers to what was asked `then`.
    """

    newest: bytes | None
    cursors: Result
    before: Mapping[int, Touch]
    then: Sequence[Result]


async def use_until_now(backend: Backend, *then: Statement) -> ShadowUse:
    """The use until now, from which on it is watched; `then` is executed behind."""
    asked = NEWEST, CURSORS, Statement(TOUCHES, (None,)), WATCHED, *then
    newest, cursors, touched, _, *rest = await backend.run(*asked)
    return ShadowUse(newest.rows[0][0], cursors, touches(touched), rest)


class DoesMoreError(Exception):
    """A statement that was built from parts does more than use rows."""


async def end_watch(session: SessionContext, truncated: Collection[int], *, guessed: bool) -> list[Obligation]:
    """End the watch: what existing rows must keep, after the schemas that the statement has changed.

    DoesMoreError if that is something though it was `guessed` to use rows alone. 55006 if one of the `truncated` tables
    has checks pending.
    """
    asked = UNWATCHED, KEEP_OWN, REFUSE_REWRITING, catalog_calls.obligations(), pending_checks(truncated)
    *_, owed, pending = await session.backend.run(*asked)
    wanted = obligations_of(owed)
    if wanted and guessed:
        raise DoesMoreError
    refuse_answered("TRUNCATE", pending)
    return wanted


def is_of_guard(error: SluiceError | None) -> bool:
    """Whether the guard of a shadow may be what forbade a TRUNCATE: it waits until the end of the transaction for rows
    that are in the shadow of a table that the statement itself has made.
    """
    pending = "it has pending trigger events"
    return error is not None and error.sqlstate == SqlState.OBJECT_IN_USE and error.message.endswith(pending)
