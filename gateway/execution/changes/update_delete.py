"""UPDATE and DELETE on the lake: Spark finds the rows and writes; old rows are deleted by position, new ones added.

The rows are locked after the computation. If another transaction has replaced one since, the statement is computed
again on the committed rows. Inserts, reads, and changes of other rows never wait.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from gateway.execution.changes.current_row import with_current_row
from gateway.execution.changes.insert import target_oid
from gateway.execution.changes.insert_query import check_conditions, size_of, with_rules
from gateway.execution.changes.locked_rows import with_subqueries_locked
from gateway.execution.changes.postgres_update_delete import computed_change, placed_change
from gateway.execution.changes.row_changes import Changing
from gateway.execution.locks.kept_keys import strength_for
from gateway.execution.locks.row_locks import ROWS_MAX
from gateway.execution.reading.failing_row import telling_row
from gateway.execution.reading.handed_tables import with_temporary_tables
from gateway.execution.reading.plan_context import (
    NOTHING_ASKED,
    Asked,
    Reading,
    answered,
    asking,
    planned,
    read,
    runnable,
)
from gateway.execution.reading.select import RowSender
from gateway.execution.shadow.function_guard import without_rows
from gateway.session.cancel_listener import attending
from gateway.session.offload import offloaded
from gateway.session.response_spool import ResponseSpool
from gateway.session.visibility import left_by_parts, rules
from gateway.statement.portal import StatementPortal
from gateway.wire.messages.backend import CommandComplete
from planner.plans.change_plan import current_of, plan_delete, plan_update
from planner.plans.constraint_checks import enforced
from storage.plan import FILE_COLUMN, POSITION_COLUMN, RunnableDelete, RunnableUpdate
from storage.spark.write import WriteResult

if TYPE_CHECKING:
    from catalog.model import TableVersion
    from gateway.backend.connection import Result


class _ChangePortal(StatementPortal):
    """The common part of UPDATE and DELETE. `word` is the command's name in its tag."""

    word: str

    async def run(self) -> None:
        session = self.session
        assert self.routed.query is not None
        target = target_oid(self.routed.query)
        asked = self._asking(target)
        async with Changing(self, self.word, target, then=asked.statements, asks=True) as changing:
            first = list(changing.begun)
            while True:
                fresh = await self._read(asked, first, target)
                first.clear()
                fresh = await with_current_row(session, self.routed.query, fresh)
                reading = await with_subqueries_locked(session, self.routed.query, fresh)
                if reading is None:
                    continue
                version = await left_by_parts(session, reading.versions[target])
                answers: Collection[bytes] | ResponseSpool = ()
                tag: str | None = None
                sources: pa.Table | None = None
                noted: pa.Table | None = None
                query = self.routed.query
                changed = await placed_change(session, query, version, reading, self.binding, without_rows(self))
                if changed is None:
                    try:
                        handed = await with_temporary_tables(session, query, reading)
                        result, assigned = await self._write(handed, version)
                    except SluiceError as refusal:
                        # The backend's cursor is on no row.
                        if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED or current_of(query) is not None:
                            raise
                        changed = await computed_change(session, query, version, reading, refusal, self.binding)
                if changed is not None:
                    result, assigned = changed.result, changed.assigned
                    answers, tag, sources = changed.answers, changed.tag, changed.sources
                    noted = sources if changed.is_noted else None
                strength = await strength_for(session, version, result, assigned, sources)
                if await changing.claim(result, version, strength, sources=sources):
                    break
                if isinstance(answers, ResponseSpool):
                    answers.close()
            await changing.wrote(result, version, assigned, sources=noted, by_key=sources)
            if tag is not None:
                await self.pass_on(answers)
            if self.columns is not None and result.returning is not None:
                self.announce()
                sender = RowSender(session, self.columns, reading)
                for batch in result.returning:
                    await sender.send(batch)
            tag = tag or f"{self.word} {result.row_count}"
            await changing.finish(tag)
        session.client.send(CommandComplete(tag))

    def _asking(self, target: int) -> Asked:
        """What to ask as the transaction begins; nothing in one that is open."""
        if self.session.transaction.open:
            return NOTHING_ASKED
        return asking(self.session, self.analysis, self.binding, self.routed.lake, locked=target, begins=True)

    async def _read(self, asked: Asked, answers: Sequence[Result], target: int) -> Reading:
        """What the plan needs, by these answers if there are any."""
        if answers:
            return await answered(self.session, self.analysis, self.binding, asked, answers)
        return await read(self.session, self.analysis, self.binding, self.routed.lake, locked=target)

    @abstractmethod
    async def _write(self, reading: Reading, version: TableVersion) -> tuple[WriteResult, Collection[int] | None]:
        """Plan the change of a version's rows and let Spark write it; return also the columns (attnums) that an UPDATE
        sets.
        """


class DeletePortal(_ChangePortal):
    """DELETE … USING … RETURNING."""

    word = "DELETE"

    async def _write(self, reading: Reading, version: TableVersion) -> tuple[WriteResult, Collection[int] | None]:
        assert self.routed.query is not None
        plan = await planned(self.session, reading, plan_delete, self.routed.query)
        hot_rows = self.session.transaction.hot_rows_max
        delete = RunnableDelete(runnable(plan.query, reading, {plan.target: version}), version, hot_rows)
        async with attending(self.session):
            return await self.session.gateway.engine.delete(delete, self.session.tag), None


class UpdatePortal(_ChangePortal):
    """UPDATE … FROM … RETURNING."""

    word = "UPDATE"

    async def _write(self, reading: Reading, version: TableVersion) -> tuple[WriteResult, Collection[int] | None]:
        change = self.routed.query
        assert change is not None
        table = version.table
        kept = await rules(self.session, table)
        context = with_rules(reading.context, table, kept)
        plan = await offloaded(self.session, reading.size + size_of(kept), plan_update, change, context)
        returned = [f"r{number}" for number, _ in enumerate(plan.query.columns, 1)]
        checks = await check_conditions(self.session, context, table, kept)
        checked = enforced(
            plan.query,
            table,
            checks,
            before=(FILE_COLUMN, POSITION_COLUMN),
            after=returned,
            violations=plan.violations,
        )
        # Pairs of old and new rows matter if another table references assigned columns, a cursor may be on a row, or
        # rows are locked one by one.
        referred = any(not set(key.attnums).isdisjoint(plan.assigned) for key in table.keys)
        followed = referred or self.session.cursors.follow(table.oid)
        sources_max = sys.maxsize if followed else ROWS_MAX
        hot_rows = self.session.transaction.hot_rows_max
        update = RunnableUpdate(runnable(checked, reading, {plan.target: version}), version, sources_max, hot_rows)
        async with telling_row(self.session, change, plan.query, table, checks, reading), attending(self.session):
            return await self.session.gateway.engine.update(update, self.session.tag), plan.assigned
