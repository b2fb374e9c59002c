"""TRUNCATE of shadows past all triggers, among them a guard that refuses it (catalog/sql/ddl.sql)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.backend import catalog_calls
from gateway.backend.own_statement import Statement

if TYPE_CHECKING:
    from gateway.backend.connection import Backend


async def past_guard(backend: Backend, truncate: Statement) -> tuple[Statement, Statement, Statement]:
    """Three statements, the second of which is the TRUNCATE; the session is unchanged afterwards."""
    [before] = await backend.run(Statement("SHOW session_replication_role"))
    return (
        catalog_calls.set_replication_role("replica", None),
        truncate,
        catalog_calls.set_replication_role(before.rows[0][0]),
    )
