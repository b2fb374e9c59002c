"""UPDATE and DELETE on the lake: Spark finds the rows and writes; the rows go out by position, new ones come in.

The rows are locked after they were computed. Where another transaction has replaced any of them since, the statement
is computed again on what that one committed; appends, readers, and writers of other rows never wait.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection

from catalog.model import Table
from gateway.lake.changing import Changing
from gateway.lake.insert import target_oid
from gateway.lake.insert_query import check_conditions, with_rules
from gateway.lake.locked_rows import with_subqueries_locked
from gateway.lake.reading import Reading, read, runnable
from gateway.lake.row_locks import Strength
from gateway.lake.select import RowSender
from gateway.messages.backend import CommandComplete
from gateway.portal import StatementPortal
from gateway.visibility import rules
from planner.change import plan_delete, plan_update
from planner.enforce import enforced
from storage.plan import FILE_COLUMN, POSITION_COLUMN, RunnableDelete, RunnableUpdate
from storage.write import WriteResult


class _ChangePortal(StatementPortal):
    """What UPDATE and DELETE share. `word` is the command's name in its tag."""

    word: str

    async def run(self) -> None:
        session = self.session
        assert self.routed.query is not None
        target = target_oid(self.routed.query)
        async with Changing(self, self.word, target) as changing:
            while True:
                fresh = await read(session, self.analysis, self.binding, self.routed.lake)
                reading = await with_subqueries_locked(session, self.routed.query, fresh)
                if reading is None:
                    continue
                version = reading.versions[target]
                result, assigned = await self._write(reading)
                if await changing.claim(result, version, _strength(version.table, assigned)):
                    break
            await changing.wrote(result, version, assigned)
            if self.columns is not None and result.returning is not None:
                self.announce()
                sender = RowSender(session, self.columns, reading)
                for batch in result.returning:
                    await sender.send(batch)
            await changing.finish()
        session.client.send(CommandComplete(f"{self.word} {result.row_count}"))

    @abstractmethod
    async def _write(self, reading: Reading) -> tuple[WriteResult, Collection[int] | None]:
        """Plan the change and let Spark write it; also the columns (attnums) that an UPDATE sets."""


class DeletePortal(_ChangePortal):
    """DELETE … USING … RETURNING."""

    word = "DELETE"

    async def _write(self, reading: Reading) -> tuple[WriteResult, Collection[int] | None]:
        assert self.routed.query is not None
        plan = plan_delete(self.routed.query, reading.context)
        delete = RunnableDelete(runnable(plan.query, reading), reading.versions[plan.table_oid])
        return await self.session.gateway.engine.delete(delete, self.session.tag), None


class UpdatePortal(_ChangePortal):
    """UPDATE … FROM … RETURNING."""

    word = "UPDATE"

    async def _write(self, reading: Reading) -> tuple[WriteResult, Collection[int] | None]:
        assert self.routed.query is not None
        table = reading.versions[target_oid(self.routed.query)].table
        kept = await rules(self.session, table)
        context = with_rules(reading.context, table, kept)
        plan = plan_update(self.routed.query, context)
        returned = [f"r{number}" for number, _ in enumerate(plan.query.columns, 1)]
        checked = enforced(
            plan.query,
            table,
            check_conditions(context, table, kept),
            before=(FILE_COLUMN, POSITION_COLUMN),
            after=returned,
        )
        # Only where another table may refer to what it sets, it matters which row became which.
        referred = any(not set(key.attnums).isdisjoint(plan.assigned) for key in table.keys)
        update = RunnableUpdate(runnable(checked, reading), reading.versions[plan.table_oid], sources=referred)
        return await self.session.gateway.engine.update(update, self.session.tag), plan.assigned


def _strength(table: Table, assigned: Collection[int] | None) -> Strength:
    """How a change locks its rows: the weaker way where it leaves them and their keys."""
    keys_stay = assigned is not None and all(set(key.attnums).isdisjoint(assigned) for key in table.keys)
    return Strength.NO_KEY_UPDATE if keys_stay else Strength.UPDATE
