"""Bypasses user-defined triggers while rows are copied into shadows or removed.

It sets `session_replication_role`, which clients cannot, to "replica". Then only the triggers fire that the lake
refuses (catalog/sql/triggers.sql). PostgreSQL's own do not fire either, so it is set only if there are user-defined
ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gateway.backend.connection import Statement
from gateway.backend.own_message import own

if TYPE_CHECKING:
    from catalog.model import Table

_ROLE: Final = own("SELECT pg_sluice.set_replication_role($1)")


def past_triggers(tables: Iterable[Table]) -> list[Statement]:
    """What to run, in a savepoint, before rows of these tables are put into shadows; nothing for most tables. The
    answer is the present role.
    """
    return [Statement(_ROLE, ("replica",))] if any(table.triggered for table in tables) else []


def copying_role(tables: Iterable[Table]) -> Statement:
    """The same, and always past the gateway's own guards (catalog/sql/ddl.sql)."""
    return Statement(_ROLE, ("replica" if any(table.triggered for table in tables) else "local",))


def role_again(role: bytes | None) -> Statement:
    """Restore the answered role, so that triggers fire as before."""
    return Statement(_ROLE, (role,))
