"""TRUNCATE of tables with triggers for it: PostgreSQL executes it, like other statements that fire triggers.

The tables are locked first, so that triggers see the rows that others have committed by then. None are copied, unless
a trigger reads them before they are gone.
"""

from __future__ import annotations

from gateway.backend.own_statement import Statement
from gateway.execution.functions.trigger_statement import TriggeredPortal
from gateway.execution.locks.table_locks import may


class TriggeredTruncatePortal(TriggeredPortal):
    """TRUNCATE of lake tables, also with CASCADE to tables that have triggers."""

    async def prepare(self) -> None:
        """Without the right to truncate, PostgreSQL raises its error before any lock is taken or waited for."""
        session = self.session
        if not await may(session, self.routed.lake, "TRUNCATE"):
            await session.backend.run(Statement(self.analysis.sql))
