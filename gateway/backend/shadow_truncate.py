"""TRUNCATE of shadows, which a guard refuses to clients (catalog/sql/ddl.sql)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.backend.connection import Statement
from gateway.backend.own_message import own

if TYPE_CHECKING:
    from gateway.backend.connection import Backend

_ROLE: Final = own("SELECT pg_sluice.set_replication_role($1)")


async def past_guard(backend: Backend, truncate: Statement) -> tuple[Statement, Statement, Statement]:
    """Three statements, the second of which is the TRUNCATE; the session is unchanged afterwards."""
    [before] = await backend.run(Statement("SHOW session_replication_role"))
    return (
        Statement(_ROLE, ("local",)),
        truncate,
        Statement(_ROLE, (before.rows[0][0],)),
    )
