"""Deferred triggers of users that may be pending in the transaction.

They are in the backend's own queue, so that savepoints forget them; here is which tables may have some. None may be
left at the backend's COMMIT, which would fire them over empty shadows, beside the lake's publishing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog.publish import RowChange
    from planner.syntax.statements import ConstraintModes


class LateTriggers:
    """`tables` are the OIDs of the changed tables that have DEFERRABLE triggers."""

    # Set by the session: fires what SET CONSTRAINTS … IMMEDIATE names, or, without it, all, as at COMMIT.
    fire: Callable[[ConstraintModes | None], Awaitable[None]]

    def __init__(self) -> None:
        self.tables: set[int] = set()

    async def fire_all(
        self, stage: Callable[..., Awaitable[None]], changes: tuple[RowChange, ...]
    ) -> tuple[RowChange, ...]:
        """Before COMMIT: fire all, which see these changes; return what is still to be staged of them."""
        if not self.tables:
            return changes
        await stage(*changes)
        await self.fire(None)
        return ()
