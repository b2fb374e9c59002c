"""The rows of a cursor FOR UPDATE or FOR SHARE: all of them are locked at its first FETCH, in their state then.

PostgreSQL computes what Spark cannot (`gateway.execution.changes.locked_copies`); WHERE CURRENT OF finds no row then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.execution.changes.locked_copies import locked_copies, plan_locks
from gateway.execution.changes.locked_rows import RowsAtHand, locked_rows, replaced_since, shown
from gateway.execution.locks.table_locks import ROW_SHARE, lock_tables
from gateway.execution.reading.plan_context import read
from gateway.execution.reading.query_rows import computed_rows
from planner.plans.computable import is_computable

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.lake_cursor import RowStream
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from gateway.statement.routed import Routed


class LockedCursorRows:
    """`begin` at DECLARE, `run` at the first FETCH."""

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        self._session = session
        self._analysis = analysis
        self._routed = routed
        self._binding = binding
        self._reading: Reading | None = None

    async def begin(self, reading: Reading) -> Mapping[int, Sequence[int]]:
        """Lock the tables, and refuse what cannot be locked; return which columns have the rows' places, by table."""
        self._reading = reading
        query, builtins = self._routed.query, self._session.gateway.builtins
        plan, refusal = await plan_locks(self._session, query, reading)
        if refusal is not None and not is_computable(query, builtins, made_by_users=True, locked=True):
            raise refusal
        await self._session.backend.run(lock_tables(self._routed.lake, ROW_SHARE))
        # A result that PostgreSQL computes has no columns for places.
        beyond = len(self._analysis.columns or ())
        places: dict[int, list[int]] = {}
        for table in plan.tables:
            places.setdefault(table.table_oid, []).append(table.place if refusal is None else beyond)
        return places

    async def run(self) -> RowStream:
        """Lock the rows, outside of any window (gateway/transaction/transactional_ddl.py): the locks last."""
        assert self._reading is not None
        reading = self._reading
        while True:
            plan, refusal = await plan_locks(self._session, self._routed.query, reading)
            replaced = await replaced_since(self._session, plan, reading)
            batches = await locked_rows(self._session, plan, reading, replaced)
            if batches is not None:
                break
            async with self._session.transaction.deferred.opened():
                reading = await read(self._session, self._analysis, self._binding, self._routed.lake)
        if refusal is not None:
            copies = await locked_copies(
                self._session,
                self._routed.query,
                plan,
                batches,
                reading,
                refusal,
                passes_over=any(replaced.values()),
            )
            return await computed_rows(
                self._session,
                self._analysis,
                self._routed,
                self._binding,
                reading,
                refusal,
                only_lake_types=False,
                locked=copies,
            )
        return RowsAtHand(shown(batches, plan))
