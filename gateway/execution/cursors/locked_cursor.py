"""The rows of a cursor FOR UPDATE or FOR SHARE: all of them are locked at its first FETCH, in their state then.

It passes over rows that its transaction has changed since DECLARE. PostgreSQL computes what Spark cannot
(`gateway.execution.changes.locked_copies`). Such a result does not tell which row is where: WHERE CURRENT OF finds
none, and changes after the first FETCH are not noticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.execution.changes.locked_copies import locked_copies, plan_locks
from gateway.execution.changes.locked_rows import RowsAtHand, locked_rows, shown
from gateway.execution.changes.standing_rows import StandingRows, replaced_since
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
    from planner.plans.locking_plan import LockingPlan


class LockedCursorRows:
    """`begin` at DECLARE, `run` at the first FETCH. `standing` are those that it returns."""

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        self._session = session
        self._analysis = analysis
        self._routed = routed
        self._binding = binding
        self._reading: Reading | None = None
        self.standing = StandingRows(session)

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
        declared = reading = self._reading
        while True:
            plan, refusal = await plan_locks(self._session, self._routed.query, reading)
            replaced = await replaced_since(self._session, plan, reading)
            batches = await locked_rows(self._session, plan, reading, replaced)
            if batches is not None:
                break
            async with self._session.transaction.deferred.opened():
                again = await read(self._session, self._analysis, self._binding, self._routed.lake)
            reading = _as_declared(again, declared, plan)
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
        self.standing.locked(plan, reading, batches)
        return RowsAtHand(shown(batches, plan))


def _as_declared(again: Reading, declared: Reading, plan: LockingPlan) -> Reading:
    """A later reading without the rows that the transaction itself has made since DECLARE, and with other tables than
    the locked ones as they were then.
    """
    versions = dict(declared.versions)
    for oid in {table.table_oid for table in plan.tables}:
        known = {file.path for file in declared.versions[oid].files}
        files = [file for file in again.versions[oid].files if file.data_file_id is not None or file.path in known]
        versions[oid] = replace(again.versions[oid], files=tuple(files))
    return replace(again, versions=versions, sidecars={**declared.sidecars, **again.sidecars})
