"""TRUNCATE of shadows, past the guard that refuses it to whoever else does that (catalog/sql/ddl.sql)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.backend.connection import Statement
from gateway.backend.own_message import own

if TYPE_CHECKING:
    from gateway.backend.connection import Backend

_ROLE: Final = own("SELECT pg_sluice.set_replication_role($1)")


async def past_guard(backend: Backend, truncate: Statement) -> tuple[Statement, Statement, Statement]:
    """What has to be run for a TRUNCATE, the second of these, to be carried out. The session is as it was after it."""
    [before] = await backend.run(Statement("SHOW session_replication_role"))
    return (
        Statement(_ROLE, ("local",)),
        truncate,
        Statement(_ROLE, (before.rows[0][0],)),
    )
