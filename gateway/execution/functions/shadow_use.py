"""A transaction's use of shadows before a statement with functions, and the watch over them that begins then."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.backend import catalog_calls
from gateway.backend.own_statement import Statement
from gateway.execution.constraints.constraint_validation import Obligation, obligations_of
from gateway.execution.functions.opened_cursors import CURSORS
from gateway.execution.functions.shadow_touches import TOUCHES, Touch, touches
from gateway.execution.shadow.function_guard import NEWEST, REFUSE_REWRITING, SCANS, UNWATCHED, WATCHED, written
from gateway.session.constraint_modes import KEEP_OWN
from gateway.session.pending_constraints import pending_checks, refuse_answered

if TYPE_CHECKING:
    from gateway.backend.connection import Backend, Result
    from gateway.session.session_context import SessionContext


@dataclass(frozen=True, slots=True)
class ShadowUse:
    """The number of the newest table, the backend's cursors, the answers to `SCANS` and `written`, what the transaction
    has done to each shadow `before` the statement, and the answers to what was asked `then`.
    """

    newest: bytes | None
    cursors: Result
    scanned: Result
    wrote: Result
    before: Mapping[int, Touch]
    then: Sequence[Result]


async def use_until_now(backend: Backend, *then: Statement) -> ShadowUse:
    """The use until now, from which on it is watched; `then` is executed behind."""
    asked = NEWEST, CURSORS, SCANS, written(()), Statement(TOUCHES, (None,)), WATCHED, *then
    newest, cursors, scanned, wrote, touched, _, *rest = await backend.run(*asked)
    return ShadowUse(newest.rows[0][0], cursors, scanned, wrote, touches(touched), rest)


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
