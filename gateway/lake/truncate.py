"""TRUNCATE: PostgreSQL truncates the shadows (privileges, RESTART IDENTITY), the lake ends the tables' files."""

from __future__ import annotations

from catalog.publish import RowChange
from gateway.backend import Statement
from gateway.lake.changing import Changing
from gateway.lake.table_locks import ACCESS_EXCLUSIVE
from gateway.messages.backend import CommandComplete
from gateway.portal import StatementPortal
from gateway.visibility import used


class TruncatePortal(StatementPortal):
    """TRUNCATE of lake tables."""

    async def run(self) -> None:
        async with Changing(self, "TRUNCATE TABLE", *self.routed.lake, mode=ACCESS_EXCLUSIVE) as changing:
            for oid in self.routed.lake:
                await used(self.session, oid, self.analysis.mark, changing.mark)
            await self.session.backend.run(Statement(self.analysis.sql))
            for oid in self.routed.lake:
                changing.add(RowChange(oid, truncate=True))
            await changing.finish()
        self.session.client.send(CommandComplete("TRUNCATE TABLE"))
