"""INSERT of rows that do not come from the lake (VALUES, generate_series, temporary tables): PostgreSQL makes them.

It inserts into the shadow, in a savepoint: defaults, identity, generated columns, CHECK, NOT NULL, lengths and
RETURNING are its own. The rows are read back, the savepoint is undone, and they are written as Parquet without Spark.

Repetitions in a pipeline (gateway/session/repeated_execution.py) run together: PostgreSQL makes the rows of one
execution after another, then they are read, written and checked together. After an error all of it is undone and
repeated one by one, so that the client learns which execution failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.connection import BackendLostError
from gateway.backend.savepoints import REPEATED, TRIAL
from gateway.execution.changes.combined_files import combine_files
from gateway.execution.changes.insert_series import may_be_followed
from gateway.execution.changes.row_changes import Changing
from gateway.execution.shadow.function_guard import (
    guarding_functions,
    relay_repetitions,
    relay_rows,
    send_statement,
    without_rows,
)
from gateway.execution.shadow.kept_effects import expect_made_rows, has_effects, refuse_effects, remove_made_rows
from gateway.execution.shadow.shadow_writer import ShadowWriter
from gateway.session.cancel_listener import check
from gateway.session.repeated_execution import Repetitions
from gateway.session.response_spool import ResponseSpool
from gateway.session.visibility import Holding, functions_of_rules, hold, holding, rules
from gateway.statement.portal import StatementPortal
from gateway.transaction.enlistment import SchemaChangedError
from gateway.transaction.inserted import Inserted
from gateway.wire.messages.backend import CommandComplete
from planner.plans.computable import functions_of_users
from planner.tree.nodes import Node

if TYPE_CHECKING:
    from catalog.model import Table
    from gateway.backend.analysis import Analysis
    from gateway.backend.own_statement import Statement
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from gateway.statement.routed import Routed

# A cancel, or a limit of time, is meant for the batch as a whole: none of it begins again.
_ENDING: Final = frozenset({
    SqlState.QUERY_CANCELED, SqlState.LOCK_NOT_AVAILABLE, SqlState.DEADLOCK_DETECTED, SqlState.SERIALIZATION_FAILURE,
})  # fmt: skip


def target_oid(query: Node) -> int:
    """The OID of the table that the statement changes."""
    return int(query.rtable[int(query.resultRelation) - 1].relid)


class InsertRowsPortal(StatementPortal):
    """INSERT of rows that PostgreSQL makes and validates. The client gets its answers once keys and references are
    checked.
    """

    repetitions: Repetitions

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        super().__init__(session, analysis, routed, binding)
        self.repetitions = Repetitions(binding.statement)

    async def run(self) -> None:
        session = self.session
        assert self.routed.query is not None
        target = target_oid(self.routed.query)
        acts = has_effects(session, self.routed.query)
        repeated = self._may_repeat() and not acts
        outer = [REPEATED.begin] if repeated else []
        held = holding(session, target)
        async with Changing(self, "INSERT", target, then=[*outer, *held.statements]) as changing:
            answers = changing.begun
            if repeated:
                if await self._run_repeated(changing, held):
                    return
                held = holding(session, target)
                answers = await session.backend.run(*held.statements)
            version = (await hold(session, held, answers, self.analysis.mark, changing.mark))[target]
            kept = ResponseSpool()
            before: list[Statement] = []
            functions = await self._functions(version.table)
            if acts and functions:
                refuse_effects("beside a function of users")
            if acts:
                await expect_made_rows(session)
            own = None if functions else without_rows(self)
            if own is not None:
                before = [own]
            else:
                async with guarding_functions(session, functions, version.table):
                    await send_statement(session, self.binding)
                    tag = await relay_rows(session, kept)
            async with ShadowWriter(session, version.table) as writer:
                made = await writer.take(*([] if acts else TRIAL.undo), before=before)
                result = await writer.finish()
            if acts:
                await remove_made_rows(session, version.table)
            if before:
                session.client.send(*made[0].notices)
                tag = made[0].tag
            await combine_files(session, version, result)
            await changing.wrote(result, version)
            if self.binding.raw_query is None:
                self.announce()
            await kept.give(session.client)
            alike = before and result.data_files and not (changing.limits_idling or self.routed.query.hasRowSecurity)
            alike = alike and not acts and may_be_followed(session, version.table, self.routed.query)
            await changing.finish(tag)
            if alike and not session.transaction.implicit:
                session.inserted = Inserted(version, changing.mark, changing.seconds)
        session.client.send(CommandComplete(tag))

    def limit_time(self, seconds: float | None) -> None:
        super().limit_time(None if seconds is None else seconds * (1 + self.repetitions.count))

    async def _functions(self, table: Table) -> frozenset[int]:
        """The user-defined functions that PostgreSQL runs for the rows."""
        assert self.routed.query is not None
        return functions_of_users(self.routed.query) | functions_of_rules(await rules(self.session, table))

    def _may_repeat(self) -> bool:
        transaction = self.session.transaction
        return bool(self.repetitions.count) and not transaction.deferred.pending and transaction.parts is None

    async def _run_repeated(self, changing: Changing, held: Holding) -> bool:
        """Execute the statement and its repetitions. False if that is impossible or fails; then nothing of it is left,
        and nothing was sent.
        """
        session = self.session
        ends, session.ends_with_statement = session.ends_with_statement, False
        kept = ResponseSpool()
        try:
            tag = await self._make_repeated(changing, held, kept)
        except BackendLostError:
            raise
        except SchemaChangedError:
            await session.backend.run(*REPEATED.undo)
            raise
        except SluiceError as error:
            check(session)
            if error.sqlstate in _ENDING:
                raise
            tag = None
        if tag is None:
            kept.close()
            await session.backend.run(*REPEATED.undo)
            return False
        session.ends_with_statement = ends
        try:
            await changing.finish()
        except (BackendLostError, SchemaChangedError):
            raise
        except SluiceError:
            await self._answer_repeated(kept, tag)  # PostgreSQL commits at Sync
            raise
        await self._answer_repeated(kept, tag)
        return True

    async def _answer_repeated(self, kept: ResponseSpool, tag: str) -> None:
        self.repetitions.answered = True
        await kept.give(self.session.client)
        self.session.client.send(CommandComplete(tag))

    async def _make_repeated(self, changing: Changing, held: Holding, kept: ResponseSpool) -> str | None:
        """The tag of the last execution; earlier answers are kept. None if a row may need an earlier one."""
        session = self.session
        [version] = (await hold(session, held, changing.begun, self.analysis.mark, changing.mark)).values()
        table = version.table
        if await self._functions(table) or any(each.parent == table.oid for each in table.foreign_keys):
            return None
        tag = await relay_repetitions(session, self.binding, self.repetitions, kept)
        async with ShadowWriter(session, table) as writer:
            await writer.take(*TRIAL.undo)
            result = await writer.finish()
        await combine_files(session, version, result)
        await changing.wrote(result, version)
        await session.backend.run(REPEATED.release)
        return tag
