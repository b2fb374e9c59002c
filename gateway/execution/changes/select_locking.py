"""SELECT … FOR UPDATE, NO KEY UPDATE, SHARE, KEY SHARE, outermost or in a subquery: see `locked_rows`.

PostgreSQL computes expressions that Spark cannot, over copies of the locked rows (`planner.plans.postgres_locking`),
before the transaction goes on. It also chooses rows of a small table that Spark cannot find
(`gateway.execution.changes.postgres_row_locks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from gateway.execution.changes.locked_copies import locked_copies, plan_locks
from gateway.execution.changes.locked_rows import RowsAtHand, locked_rows, shown, with_subqueries_locked
from gateway.execution.changes.postgres_row_locks import rehearse_locks
from gateway.execution.changes.row_changes import Changing
from gateway.execution.changes.standing_rows import StandingRows
from gateway.execution.locks.table_locks import ROW_SHARE
from gateway.execution.reading.plan_context import Reading, planned, read, runnable
from gateway.execution.reading.postgres_query import Computing
from gateway.execution.reading.select import RowSender, SelectPortal
from gateway.session.response_spool import ResponseSpool
from planner.plans.locking_plan import LockingPlan, first_strength, strongest
from planner.plans.select import plan_select

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding, Portal
    from gateway.statement.routed import Routed


def select_portal(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """The portal of a query, which may lock rows."""
    portal = LockingSelectPortal if locks_rows(routed) else SelectPortal
    return portal(session, analysis, routed, binding)


def locks_rows(routed: Routed) -> bool:
    """Whether a query locks rows, itself or in a subquery."""
    return first_strength(routed.query) is not None


class LockingSelectPortal(SelectPortal):
    """A query that locks its rows, all of them before it returns any."""

    _once = False
    _is_computing = False  # an error is then the statement's

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        super().__init__(session, analysis, routed, binding)
        self._standing = StandingRows(session)

    async def _execute(self, limit: int) -> None:
        self._once = not limit
        await self._standing.look()
        await super()._execute(limit)

    async def _send(self, sender: RowSender, limit: int) -> int:
        shown, sent = len(self.columns or ()), 0
        while not limit or sent < limit:
            rest = await self._next(0)
            if rest is None:
                self._standing.check_end()
                break
            rows, self._rest = self._standing.take(rest, limit - sent if limit else rest.num_rows)
            await sender.send(rows.select(list(range(shown))))
            sent += rows.num_rows
        return sent

    async def _open(self) -> Reading:
        query, lake = self._routed.query, self._routed.lake
        async with Changing(self, f"SELECT FOR {first_strength(query)}", *lake, mode=ROW_SHARE) as changing:
            done = False
            while not done:
                reading = await read(self.session, self._analysis, self._binding, lake)
                try:
                    done = await self._lock(reading)
                except SluiceError as refusal:
                    if self._is_computing or refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
                        raise
                    done = await self._rehearse(reading, refusal)
            await changing.finish()
        return reading

    async def _lock(self, reading: Reading) -> bool:
        """Lock the rows that Spark finds. False if the query must begin again."""
        session, query = self.session, self._routed.query
        locked = await with_subqueries_locked(session, query, reading)
        if locked is None:
            return False
        if not strongest(query):
            self._stream = await session.gateway.engine.stream(
                runnable(await planned(session, locked, plan_select, query), locked), session.tag
            )
            self._batches = aiter(self._stream)
            return True
        plan, refusal = await plan_locks(session, query, locked)
        batches = await locked_rows(session, plan, locked)
        if batches is None:
            return False
        if refusal is None:
            self._standing.locked(plan, locked, batches)
            self._batches = aiter(RowsAtHand(shown(batches, plan)))
        else:
            await self._compute_locked(plan, batches, locked, refusal)
        return True

    async def _rehearse(self, reading: Reading, refusal: SluiceError) -> bool:
        """Have PostgreSQL choose the rows. False if the query must begin again."""
        assert self._routed.query is not None
        chosen = await rehearse_locks(
            self.session, self._routed.query, reading, refusal, self._binding, once=self._once
        )
        if chosen is None:
            return False
        self._computed, self._left = chosen.answers, chosen.count
        return True

    async def _compute_locked(
        self, plan: LockingPlan, batches: Sequence[pa.RecordBatch], reading: Reading, refusal: SluiceError
    ) -> None:
        """Have PostgreSQL compute the query's result over the locked rows."""
        locked = await locked_copies(self.session, self._routed.query, plan, batches, reading, refusal)
        kept = self._computed = ResponseSpool(only_rows=True)
        self._is_computing = True
        async with Computing(
            self.session, self._routed.query, reading, refusal, made_by_users=True, locked=locked, once=self._once
        ) as computing:
            tag = await computing.send(self._binding, kept)
        self._left = int(tag.removeprefix("SELECT "))
