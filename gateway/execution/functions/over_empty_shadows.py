"""Executes an INSERT whose triggers only add rows: once, in a savepoint, over empty shadows (`adding_triggers`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend import catalog_calls
from gateway.backend.connection import BackendLostError
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import FILLED, TRIAL
from gateway.execution.changes.combined_files import combine_files
from gateway.execution.changes.row_changes import Changing, Timed, Written
from gateway.execution.filling import effects_beside
from gateway.execution.filling.shadow_touches import TOUCHES, Touch, touches
from gateway.execution.functions.function_changes import is_undecided
from gateway.execution.locks.table_locks import ROW_EXCLUSIVE, lock_tables
from gateway.execution.reading.function_tables import CODE
from gateway.execution.shadow.shadow_writer import ShadowWriter
from gateway.session.response_spool import ResponseSpool
from gateway.session.visibility import Holding, hold, holding
from gateway.transaction.enlistment import SchemaChangedError
from gateway.transaction.isolation_level import Isolation

if TYPE_CHECKING:
    from catalog.model import TableVersion
    from catalog.schema.triggers import AddingTriggers
    from gateway.backend.analysis import SchemaMark
    from gateway.backend.connection import Result

_WATCHED: Final = Statement(
    "SELECT pg_catalog.set_config('sluice.watched', 'on', true), pg_catalog.set_config('sluice.unchecked', 'on', true),"
    " pg_catalog.set_config('max_parallel_workers_per_gather', '0', true)"
)
_TOUCHED: Final = Statement(TOUCHES, (None,))


class _DoesMoreError(Exception):
    """The statement has done more than add rows, or has failed where a row of the lake may be the reason."""


# Executes the statement, and then these: the tag, whether there are messages or rows, and the answers.
Perform = Callable[[ResponseSpool, Sequence[Statement]], Awaitable[tuple[str, bool, list["Result"]]]]


class OverEmptyShadows:
    """One execution of an INSERT into the table `target`, with what is known of triggers. The statement was analysed at
    this mark of the schema log.

    Afterwards `found` has the tables in the versions on which its rows are, and `mark`, `seconds` and `limits_idling`
    are those of `Changing`.
    """

    def __init__(
        self, portal: Timed, known: AddingTriggers, target: int, analysed_at: SchemaMark, *, repeats: bool = False
    ) -> None:
        """`repeats`: it is not analysed again, so that no schema may have changed."""
        self._target = target
        self._tells = True
        self._portal = portal
        self._session = portal.session
        self._known = known
        self._repeats = repeats
        self.mark = analysed_at
        self.seconds: float | None = None
        self.limits_idling = False
        self.found: Mapping[int, TableVersion] = {}

    async def execute(self, perform: Perform, give: Callable[[ResponseSpool], Awaitable[None]]) -> str | None:
        """Execute the statement, and take its rows: `perform` has the backend execute it and then these questions,
        `give` gives its answers. Return the tag, or None if it has done more, and all of it is undone.
        """
        session, known = self._session, self._known
        held = holding(session, *sorted(table.oid for table in known.tables))
        if held.newest is None:
            return None
        filled = catalog_calls.set_filled(filled=True, unchecked=True)
        begin = [FILLED.begin, *held.statements, _WATCHED, filled, _TOUCHED, effects_beside.ELSEWHERE]
        kept = ResponseSpool()
        try:
            async with Changing(self._portal, "INSERT", *sorted(known.grown), then=begin) as changing:
                tag = None
                if await self._find(held, changing):
                    tag = await self._executed(changing, kept, perform, give)
                if tag is None:
                    await session.backend.run(*FILLED.undo)
                    await changing.restore_timeout()
                    session.transaction.fresh = False
                return tag
        finally:
            kept.close()

    async def _find(self, held: Holding, changing: Changing) -> bool:
        """Find the tables as they are now; false if they are not as they were known."""
        session, analysed_at = self._session, self.mark
        self.mark, self.seconds, self.limits_idling = changing.mark, changing.seconds, changing.limits_idling
        if session.transaction.isolation is not Isolation.READ_COMMITTED or (
            self._repeats and self.mark != analysed_at
        ):
            return False
        answers = changing.begun[1 : 1 + len(held.statements)]
        try:
            self.found = await hold(session, held, answers, analysed_at, changing.mark)
        except SchemaChangedError:
            await session.backend.run(*FILLED.undo)
            raise
        tables = {oid: version.table for oid, version in self.found.items()}
        return all(
            tables.get(each.oid) == each and not (each.defers or each.materialized) for each in self._known.tables
        )

    async def _executed(
        self,
        changing: Changing,
        kept: ResponseSpool,
        perform: Perform,
        give: Callable[[ResponseSpool], Awaitable[None]],
    ) -> str | None:
        try:
            tag, written = await self._written(changing, kept, perform)
        except _DoesMoreError:
            return None
        if not await self._take(changing, written):
            return None
        await give(kept)
        await self._release()
        await changing.finish(tag)
        return tag

    async def _written(self, changing: Changing, kept: ResponseSpool, perform: Perform) -> tuple[str, list[Written]]:
        """Execute the statement, and write its rows: the tag, and what is written."""
        session, before, beside = self._session, touches(changing.begun[-2]), changing.begun[-1]
        async with AsyncExitStack() as opened:  # an error removes what is written
            writers = {
                oid: await opened.enter_async_context(ShadowWriter(session, version.table))
                for oid, version in sorted(self.found.items())
            }
            reads = (writer.reading() for writer in writers.values())
            asked = [_TOUCHED, effects_beside.ELSEWHERE, CODE, *reads, *TRIAL.undo]
            try:
                tag, self._tells, (touched, after, code, *rows) = await perform(kept, asked)
            except BackendLostError:
                raise
            except SluiceError as error:
                if session.backend.status != b"E" or is_undecided(error) or await self._is_certain(before):
                    raise
                raise _DoesMoreError from error
            added = _added(before, touches(touched))
            as_known = after.rows == beside.rows and code.rows[0] == self._known.code
            if added is None or not as_known or self._may_refuse(added):
                raise _DoesMoreError
            if others := sorted(added.keys() - self._known.grown):
                await session.backend.run(lock_tables(others, ROW_EXCLUSIVE))
            written = []
            for (oid, writer), answer in zip(writers.items(), rows, strict=False):
                await writer.write_bodies(oid, answer.bodies)
                written.append(Written(self.found[oid], await writer.finish(), None, updates=False))
            if any(each.result.row_count != added.get(each.version.table.oid, 0) for each in written):
                raise _DoesMoreError  # some were undone again
            return tag, written

    async def _release(self) -> None:
        session = self._session
        if session.transaction.implicit and session.ends_with_statement:
            session.transaction.with_stage.append(FILLED.release)
        else:
            await session.backend.run(FILLED.release)

    async def _is_certain(self, before: Mapping[int, Touch]) -> bool:
        """Whether the statement has failed for a reason that no row of the lake could precede."""
        _, answer = await self._session.backend.run(FILLED.again, _TOUCHED)
        added = _added(before, touches(answer))
        if added is None or not added.keys() <= self.found.keys():
            return False
        tables = [self.found[oid].table for oid in added]
        return not any(table.is_keyed or table.foreign_keys for table in tables)

    async def _take(self, changing: Changing, written: Sequence[Written]) -> bool:
        """Add the rows; false if others, which the statement has not seen, forbid them."""
        try:
            for each in written:
                await combine_files(self._session, each.version, each.result)
            await changing.wrote_together([each for each in written if each.result.data_files], {}, checked=False)
        except SluiceError as error:
            if error.sqlstate[:2] != "23" or self._is_first(error):
                raise
            return False  # over filled shadows, PostgreSQL raises it where it belongs
        return True

    def _is_first(self, error: SluiceError) -> bool:
        """Whether it is a key of the statement's own rows, which PostgreSQL finds before anything that shows."""
        table, fields = self.found[self._target].table, error.fields
        others = (version.table for oid, version in self.found.items() if oid != self._target)
        return (
            error.sqlstate == SqlState.UNIQUE_VIOLATION
            and (fields.get("s"), fields.get("t")) == (table.schema, table.name)
            and not (self._tells or self._known.catches)
            and not any(each.keys or each.computed_keys for each in others)
        )

    def _may_refuse(self, added: Mapping[int, int]) -> bool:
        """Whether rows were added to other tables than those found, or may refer to one another: PostgreSQL checks
        these in their order."""
        found = self.found
        return any(
            oid not in found or any(key.parent in added for key in found[oid].table.foreign_keys) for oid in added
        )


def _added(before: Mapping[int, Touch], now: Mapping[int, Touch]) -> dict[int, int] | None:
    """How many rows were added to shadows; None if these were also looked at, or rows changed."""
    added = {}
    for oid, each in now.items():
        was = before.get(oid, Touch())
        if (each.scans, each.replaced, each.truncated) != (was.scans, was.replaced, was.truncated):
            return None
        if each.added != was.added:
            added[oid] = each.added - was.added
    return added
