"""COPY (INSERT … RETURNING) TO STDOUT, of other changes too, and of queries that lock rows.

The returned rows become a temporary table of the session, which PostgreSQL copies.
"""

from __future__ import annotations

from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.own_statement import Statement
from gateway.execution.changes.with_changes import NUMBERS, WithChangesPortal
from gateway.execution.reading.copy_trial import backend_copies, binary_columns, options_of, try_options
from gateway.session.offload import offloaded
from planner.plans.locking_plan import first_strength
from planner.plans.routes import Route
from planner.syntax.statements import parenthesised

_READ_ONLY: Final = Statement("SHOW transaction_read_only")


class CopyReturnedPortal(WithChangesPortal):
    """The copied statement is the one part, and COPY is the main statement."""

    async def carry_out(self) -> None:
        inner, sql = self.routed.inner, self.analysis.sql
        assert inner is not None
        await self._check_may_write()
        names = [field.name for field in inner.columns or ()]
        await try_options(self.session, sql, names)
        start, end = await offloaded(self.session, len(sql), parenthesised, sql)
        self.tables.clear()
        table = await self.part(sql[start:end], next(NUMBERS))
        copies = backend_copies(self.session, options_of(self.routed, names))
        self.session.client.describe(binary_columns(inner.columns or ()), copies=copies)
        await self.main(f"{sql[:start]}{table}{sql[end:]}")

    async def _check_may_write(self) -> None:
        """Raise 25006 in a READ ONLY transaction, with PostgreSQL's name for the copied statement."""
        routed = self.routed.inner_routed
        assert routed is not None
        if routed.route is Route.WITH_CHANGES:
            return
        strength = first_strength(routed.query)
        what = f"SELECT FOR {strength}" if routed.route is Route.SELECT else routed.route.value.upper()
        [answer] = await self.session.backend.run(_READ_ONLY)
        if answer.rows[0][0] == b"on":
            raise SluiceError(SqlState.READ_ONLY_SQL_TRANSACTION, f"cannot execute {what} in a read-only transaction")
