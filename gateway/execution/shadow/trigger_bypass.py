"""Rows that are put into shadows, or taken out, for PostgreSQL to work on: no trigger of a user's fires for them.

`session_replication_role` says so, which clients cannot set: while it is "replica", triggers do not fire but those that
the lake refuses (catalog/sql/triggers.sql). Nor do PostgreSQL's own then, so it is set only where there are others.
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
    """What to run, within a savepoint, before rows of these tables are put into shadows: nothing for most. It is
    answered with the role that there was."""
    return [Statement(_ROLE, ("replica",))] if any(table.triggered for table in tables) else []


def copying_role(tables: Iterable[Table]) -> Statement:
    """The same, and past the gateway's own guards (catalog/sql/ddl.sql) in any case."""
    return Statement(_ROLE, ("replica" if any(table.triggered for table in tables) else "local",))


def role_again(role: bytes | None) -> Statement:
    """Triggers fire as they did before: the role that was answered."""
    return Statement(_ROLE, (role,))
