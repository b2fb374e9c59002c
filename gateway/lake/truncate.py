"""TRUNCATE: PostgreSQL truncates the shadows (privileges, RESTART IDENTITY), the lake ends the tables' files."""

from __future__ import annotations

from functools import partial
from typing import Final

from catalog.publish import RowChange
from gateway.analysis import SAVEPOINT, UNDO
from gateway.arrays import number_array
from gateway.attention import check
from gateway.backend import Result, Statement
from gateway.enlistment import SchemaChangedError
from gateway.lake.changing import Changing
from gateway.lake.table_locks import ACCESS_EXCLUSIVE, lock_tables, may
from gateway.messages.backend import CommandComplete
from gateway.patience import patiently
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
_RELEASE: Final = Statement("RELEASE SAVEPOINT pg_sluice")


class TruncatePortal(StatementPortal):
    """TRUNCATE of lake tables. Nobody waits behind it while it waits for those who use them."""

    async def run(self) -> None:
        async with Changing(self, "TRUNCATE TABLE") as changing:
            run = self.session.backend.run
            await run(SAVEPOINT)
            truncated, closure = await patiently(self.session.backend, self._truncate, partial(check, self.session))
            try:
                for oid in self.routed.lake:
                    await used(self.session, oid, self.analysis.mark, changing.mark)
            except SchemaChangedError:
                await run(*UNDO)
                raise
            await run(_RELEASE)
            self.session.client.send(*truncated.notices)
            for (found,) in closure.rows:
                assert found is not None
                changing.add(RowChange(int(found), truncate=True))
            await changing.finish()
        self.session.client.send(CommandComplete("TRUNCATE TABLE"))

    async def _truncate(self) -> tuple[Result, Result]:
        """The tables are locked, and their shadows truncated; what PostgreSQL says, and all tables that it takes."""
        session, tables = self.session, self.routed.lake
        lake = number_array(tables)
        statement = Statement(self.analysis.sql)
        async with session.cursors.occupying(tables):
            if not await may(session, tables, "TRUNCATE"):
                await session.backend.run(statement)
            _, truncated, closure = await session.backend.run(
                lock_tables(session.gateway.token, tables, ACCESS_EXCLUSIVE),
                statement,
                Statement(_REFERRING, (lake,)),
            )
        return truncated, closure
