"""Bypasses user-defined triggers while rows are copied into shadows or removed.

It sets `session_replication_role`, which clients cannot, to "replica". Then only the triggers fire that the lake
refuses (catalog/sql/triggers.sql). PostgreSQL's own do not fire either, so it is set only if there are user-defined
ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.backend import catalog_calls
from gateway.backend.own_statement import Statement

if TYPE_CHECKING:
    from catalog.model import Table


def bypass_triggers(tables: Iterable[Table]) -> list[Statement]:
    """What to run, within a savepoint, before rows of these tables are put into shadows: nothing for most. It is
    answered with the role that there was."""
    return [catalog_calls.set_replication_role("replica")] if any(table.triggered for table in tables) else []


def copying_role(tables: Iterable[Table]) -> Statement:
    """The same, and past the gateway's own guards (catalog/sql/ddl.sql) in any case."""
    return catalog_calls.set_replication_role("replica" if any(table.triggered for table in tables) else "local")


def role_again(role: bytes | None) -> Statement:
    """Triggers fire as they did before: the role that was answered."""
    return catalog_calls.set_replication_role(role)
