"""A transaction's use of shadows before a statement with functions, and the watch over them that begins then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.backend.own_statement import Statement
from gateway.execution.functions.opened_cursors import CURSORS
from gateway.execution.functions.shadow_touches import TOUCHES, Touch, touches
from gateway.execution.shadow.function_guard import NEWEST, SCANS, WATCHED, written

if TYPE_CHECKING:
    from gateway.backend.connection import Backend, Result


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
