"""TRUNCATE: PostgreSQL truncates the shadows (privileges, RESTART IDENTITY), the lake ends the tables' files."""

from __future__ import annotations

from catalog.publish import RowChange
from gateway.backend import Statement
from gateway.lake.transaction import LakeTransaction
from gateway.messages.backend import CommandComplete
from gateway.portal import StatementPortal


class TruncatePortal(StatementPortal):
    """TRUNCATE of lake tables."""

    async def run(self) -> None:
        async with LakeTransaction(self, "TRUNCATE") as transaction:
            await self.session.backend.run(Statement(self.analysis.sql))
            for oid in self.routed.lake:
                transaction.add(RowChange(oid, truncate=True))
            await transaction.commit()
        self.session.client.send(CommandComplete("TRUNCATE TABLE"))
