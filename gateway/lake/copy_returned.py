"""COPY (INSERT … RETURNING) TO STDOUT, and of the other changes: what the change returns becomes a table of the
session's own, which PostgreSQL copies."""

from __future__ import annotations

from gateway.lake.copy_trial import backend_copies, binary_columns, options_of, try_options
from gateway.lake.with_changes import NUMBERS, WithChangesPortal
from planner.statements import parenthesised


class CopyReturnedPortal(WithChangesPortal):
    """The change is the one part, and the COPY is the main statement."""

    async def carry_out(self) -> None:
        inner, sql = self.routed.inner, self.analysis.sql
        assert inner is not None
        names = [field.name for field in inner.columns or ()]
        await try_options(self.session, sql, names)
        start, end = parenthesised(sql)
        self.tables.clear()
        table = await self.part(sql[start:end], next(NUMBERS))
        copies = backend_copies(self.session, options_of(self.routed, names))
        self.session.client.describe(binary_columns(inner.columns or ()), copies=copies)
        await self.main(f"{sql[:start]}{table}{sql[end:]}")
