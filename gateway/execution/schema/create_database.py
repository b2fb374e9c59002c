"""CREATE DATABASE, which is refused: a lake is one database. In a transaction block PostgreSQL refuses it first."""

from __future__ import annotations

from gateway.statement.passthrough_command import refuse_in_block
from gateway.statement.portal import StatementPortal
from planner.syntax.databases import no_databases


class CreateDatabasePortal(StatementPortal):
    """Raises the error at the statement's execution, as PostgreSQL does."""

    async def run(self) -> None:
        refuse_in_block(self.session, "CREATE DATABASE")
        raise no_databases("CREATE DATABASE")
