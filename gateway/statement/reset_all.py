"""RESET ALL in a block, without losing the gateway's own settings at the backend, which savepoints restore."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from gateway.backend.arrays import text_array
from gateway.backend.own_statement import Statement
from gateway.session import constraint_modes
from gateway.transaction import isolation_level, transactional_ddl

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_OWN: Final = (constraint_modes.NAME, transactional_ddl.NAME, *isolation_level.NAMES)
_ASK: Final = Statement(
    "SELECT name, coalesce(pg_sluice.backend_setting(name, true), '')"
    " FROM pg_catalog.unnest($1::pg_catalog.text[]) name",
    (text_array(_OWN),),
)
_SET: Final = "SELECT pg_catalog.set_config($1, $2, true)"


async def relay_reset_all(session: SessionContext, relay: Callable[[], Awaitable[bool]]) -> bool:
    """Execute RESET ALL, which `relay` sends; False if the backend has refused it."""
    [kept] = await session.backend.run(_ASK)
    good = await relay()
    if good and session.transaction.open:
        await session.backend.run(*(Statement(_SET, (name, value)) for name, value in kept.rows))
    return good
