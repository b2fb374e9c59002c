"""TRUNCATE: PostgreSQL truncates the shadows (privileges, RESTART IDENTITY), the lake ends the tables' files."""

from __future__ import annotations

from typing import Final

from catalog.publish import RowChange
from gateway.backend import Statement
from gateway.lake.changing import Changing
from gateway.lake.table_locks import ACCESS_EXCLUSIVE
from gateway.messages.backend import CommandComplete
from gateway.portal import StatementPortal
from gateway.visibility import used

# With the tables that CASCADE takes along; without it PostgreSQL has refused to leave any of them out.
_REFERRING: Final = """
WITH RECURSIVE truncated (oid) AS (
    SELECT unnest($1::pg_catalog.oid[])
    UNION SELECT k.conrelid FROM pg_catalog.pg_constraint k JOIN truncated t ON k.confrelid = t.oid
          WHERE k.contype = 'f')
SELECT oid::pg_catalog.int8 FROM truncated
"""


class TruncatePortal(StatementPortal):
    """TRUNCATE of lake tables."""

    async def run(self) -> None:
        async with Changing(self, "TRUNCATE TABLE", *self.routed.lake, mode=ACCESS_EXCLUSIVE) as changing:
            for oid in self.routed.lake:
                await used(self.session, oid, self.analysis.mark, changing.mark)
            lake = "{" + ",".join(map(str, self.routed.lake)) + "}"
            async with self.session.cursors.occupying(self.routed.lake):
                truncated, closure = await self.session.backend.run(
                    Statement(self.analysis.sql), Statement(_REFERRING, (lake,))
                )
            self.session.client.send(*truncated.notices)
            for (found,) in closure.rows:
                assert found is not None
                changing.add(RowChange(int(found), truncate=True))
            await changing.finish()
        self.session.client.send(CommandComplete("TRUNCATE TABLE"))
