"""Bypasses user-defined triggers while rows are copied into shadows or removed.

It sets `session_replication_role`, which clients cannot, to "replica". Triggers that are ENABLEd as ALWAYS or REPLICA
would fire then; to the transaction they are ordinary ones meanwhile (catalog/sql/superuser.sql). PostgreSQL's own do
not fire either, so it is set only if there are user-defined ones.
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
    triggered = [table for table in tables if table.triggered]
    return [copying_role(triggered)] if triggered else []


def copying_role(tables: Iterable[Table]) -> Statement:
    """The same, and past the gateway's own guards (catalog/sql/ddl.sql) in any case."""
    triggered = [table for table in tables if table.triggered]
    stilled = [table.oid for table in triggered if table.stilled]
    return catalog_calls.set_replication_role("replica" if triggered else "local", stilled)


def role_again(role: bytes | None) -> Statement:
    """Triggers fire as they did before: the role that was answered."""
    return catalog_calls.set_replication_role(role)
