"""INSERT of few rows whose triggers only add rows: PostgreSQL executes it once, over empty shadows.

A statement that fires triggers is executed over filled shadows (`gateway.execution.functions.trigger_statement`), which
asks first what the triggers' functions name. Where the last INSERT into a table has shown that its triggers look at no
rows of the lake, and have no effects but new rows, the next one is executed as if it fired none. What it has really
done is counted, as ever: if that is more, all of it is undone, and it is executed over filled shadows.

What was learnt holds for a role, its search path, and the present functions (`pg_sluice.code_mark`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from catalog.schema.triggers import AddingTriggers
from gateway.backend import catalog_calls
from gateway.backend.connection import BackendLostError
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import FILLED, TRIAL
from gateway.execution.changes.combined_files import combine_files
from gateway.execution.changes.insert import target_oid
from gateway.execution.changes.row_changes import Changing, Written
from gateway.execution.functions import effects_beside
from gateway.execution.functions.function_changes import is_undecided
from gateway.execution.functions.shadow_touches import TOUCHES, Touch, touches
from gateway.execution.functions.trigger_lookup import changes_view
from gateway.execution.functions.trigger_statement import TriggeredPortal
from gateway.execution.locks.table_locks import ROW_EXCLUSIVE, lock_tables
from gateway.execution.reading.function_tables import CODE, name_arrays, tables_named, trigger_texts, words_of
from gateway.execution.shadow.function_guard import relay_rows, send_statement, without_rows
from gateway.execution.shadow.shadow_writer import ShadowWriter
from gateway.session.response_spool import ResponseSpool
from gateway.session.visibility import Holding, hold, holding, versions
from gateway.transaction.enlistment import SchemaChangedError
from gateway.transaction.isolation_level import Isolation
from planner.plans.computable import functions_of_users

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog.model import TableVersion
    from gateway.backend.connection import Result
    from gateway.execution.functions.filled_shadows import FilledShadows

# Of more tables nothing is kept in mind.
_TABLES_MAX: Final = 8
# Longer statements are not of few rows.
_TEXT_MAX: Final = 100_000
_WATCHED: Final = Statement(
    "SELECT pg_catalog.set_config('sluice.watched', 'on', true), pg_catalog.set_config('sluice.unchecked', 'on', true),"
    " pg_catalog.set_config('max_parallel_workers_per_gather', '0', true)"
)
_TOUCHED: Final = Statement(TOUCHES, (None,))
# Calls of a statement that have effects beside rows of tables.
_ACTING: Final = ("set_config", "notify", "pg_export_snapshot")


class AddingPortal(TriggeredPortal):
    """INSERT that fires triggers."""

    async def carry_out(self) -> str:
        """Execute everything, up to the answer's tag."""
        known = await self._known() if self._is_plain() else None
        tag = None if known is None else await self._over_empty(known)
        return await super().carry_out() if tag is None else tag

    def _is_plain(self) -> bool:
        """Whether the statement itself looks at no rows, and nothing around it stands in the way."""
        session, query, sql = self.session, self.routed.query, self.analysis.sql
        assert query is not None
        return (
            query.onConflict is None
            and len(sql) <= _TEXT_MAX
            and not (changes_view(self.routed) or self._read(query) or functions_of_users(query))
            and not any(word in sql.lower() for word in _ACTING)
            and not (session.cursors.any_open or session.unsynced or self.analysis.mark.own)
            and not (session.transaction.deferred.pending or session.transaction.parts is not None)
            and not session.transaction.read_only.stands
        )

    @property
    def _place(self) -> tuple[str, int]:
        assert self.routed.query is not None
        return self.session.user, target_oid(self.routed.query)

    async def _known(self) -> AddingTriggers | None:
        """What is known of the table's triggers; None if they may do more than add rows."""
        kept = self.session.gateway.store.triggers.adding
        known = kept.get(self._place)
        if known is not None and known.code is None:
            known = kept[self._place] = await self._read_functions(known)
        return known

    async def _read_functions(self, known: AddingTriggers) -> AddingTriggers | None:
        """What is known, with the mark of the triggers' functions and all tables that these name; None if they may have
        effects that go uncounted.
        """
        session = self.session
        await session.transaction.begin()
        [code] = await session.backend.run(CODE)
        grown = {self._place[1], *known.grown}
        texts, _ = await trigger_texts(session, grown)
        words = await words_of(session, texts)
        if words.may_do_more or words.may_build or effects_beside.names_counted(words.found):
            return None
        asked = effects_beside.uncounted("", await name_arrays(session, words.found))
        [acts] = await session.backend.run(asked)
        found = await versions(session, sorted(grown | await tables_named(session, words)))
        tables = [version.table for version in found.values() if not version.table.materialized]
        if acts.rows[0][0] != b"f" or len(tables) > _TABLES_MAX or not grown <= found.keys():
            return None
        return AddingTriggers(frozenset(grown), tuple(tables), code.rows[0])

    async def over_rows(self, shadows: FilledShadows, wanted: set[int], unread: Iterable[int] = ()) -> str:
        """Execute over filled shadows, and keep in mind if that was not needed."""
        tag = await super().over_rows(shadows, wanted, unread)
        kept, place = self.session.gateway.store.triggers.adding, self._place
        if not self._is_plain() or (place in kept and kept[place] is None):
            return tag
        grown, before = shadows.grown, kept.get(place)
        learns = grown is not None and not (self.looked_at or self._strict)
        kept[place] = AddingTriggers((grown or frozenset()) | (before.grown if before else set())) if learns else None
        return tag

    async def _over_empty(self, known: AddingTriggers) -> str | None:
        """Execute the statement, and take its rows; None if it has done more, and all of it is undone."""
        session, oids = self.session, sorted(table.oid for table in known.tables)
        held = holding(session, *oids)
        if held.newest is None:
            return None
        filled = catalog_calls.set_filled(filled=True, unchecked=True)
        begin = [FILLED.begin, *held.statements, _WATCHED, filled, _TOUCHED, effects_beside.ELSEWHERE]
        kept = ResponseSpool()
        try:
            async with Changing(self, "INSERT", *sorted(known.grown), then=begin) as changing:
                found = await self._found(known, held, changing)
                tag = None if found is None else await self._executed(changing, known, found, kept)
                if tag is None:
                    await session.backend.run(*FILLED.undo)
                    await changing.restore_timeout()
                    session.transaction.fresh = False
                return tag
        finally:
            kept.close()

    async def _found(
        self, known: AddingTriggers, held: Holding, changing: Changing
    ) -> Mapping[int, TableVersion] | None:
        """The tables as they are now; None if they are not as they were known."""
        if self.session.transaction.isolation is not Isolation.READ_COMMITTED:
            return None
        answers = changing.begun[1 : 1 + len(held.statements)]
        try:
            found = await hold(self.session, held, answers, self.analysis.mark, changing.mark)
        except SchemaChangedError:
            await self.session.backend.run(*FILLED.undo)
            raise
        tables = {oid: version.table for oid, version in found.items()}
        same = all(tables.get(each.oid) == each and not (each.defers or each.materialized) for each in known.tables)
        return found if same else None

    async def _executed(
        self,
        changing: Changing,
        known: AddingTriggers,
        found: Mapping[int, TableVersion],
        kept: ResponseSpool,
    ) -> str | None:
        """Execute the statement, and take its rows; None if that does not do."""
        before, beside = touches(changing.begun[-2]), changing.begun[-1]
        async with AsyncExitStack() as opened:
            writers = {
                oid: await opened.enter_async_context(ShadowWriter(self.session, version.table))
                for oid, version in sorted(found.items())
            }
            try:
                tag, (touched, after, code, *rows) = await self._performed(kept, list(writers.values()))
            except BackendLostError:
                raise
            except SluiceError as error:
                if self.session.backend.status != b"E" or is_undecided(error) or await self._is_certain(before, found):
                    raise
                return None
            added = _added(before, touches(touched))
            if added is None or after.rows != beside.rows or code.rows[0] != known.code or _may_refuse(found, added):
                return None
            if others := sorted(added.keys() - known.grown):
                await self.session.backend.run(lock_tables(others, ROW_EXCLUSIVE))
            written = []
            for (oid, writer), answer in zip(writers.items(), rows, strict=False):
                await writer.write_bodies(oid, answer.bodies)
                written.append(Written(found[oid], await writer.finish(), None, updates=False))
                if sum(file.record_count for file in written[-1].result.data_files) != added.get(oid, 0):
                    return None
            return await self._take(changing, written, kept, tag)

    async def _performed(self, kept: ResponseSpool, writers: Sequence[ShadowWriter]) -> tuple[str, list[Result]]:
        """Have the backend execute the statement, and read what came of it: the tag, and the answers."""
        backend, own = self.session.backend, without_rows(self)
        asked = [_TOUCHED, effects_beside.ELSEWHERE, CODE, *(writer.reading() for writer in writers), *TRIAL.undo]
        if own is not None:
            made, *answers = await backend.run(own, *asked)
            for notice in made.notices:
                await kept.keep(notice.encode())
            return made.tag, answers
        await send_statement(self.session, self.binding)
        tag = await relay_rows(self.session, kept)
        return tag, await backend.run(*asked)

    async def _is_certain(self, before: Mapping[int, Touch], found: Mapping[int, TableVersion]) -> bool:
        """Whether the statement has failed for a reason that no row of the lake could precede."""
        _, answer = await self.session.backend.run(FILLED.again, _TOUCHED)
        added = _added(before, touches(answer))
        if added is None or not added.keys() <= found.keys():
            return False
        tables = [found[oid].table for oid in added]
        return not any(table.keys or table.computed_keys or table.foreign_keys for table in tables)

    async def _take(self, changing: Changing, written: Sequence[Written], kept: ResponseSpool, tag: str) -> str | None:
        """Stage the rows; None if others, which the statement has not seen, forbid them."""
        session = self.session
        try:
            for each in written:
                await combine_files(session, each.version, each.result)
            await changing.wrote_together([each for each in written if each.result.data_files], {}, checked=False)
        except SluiceError as error:
            if error.sqlstate[:2] != "23":
                raise
            return None  # over filled shadows, PostgreSQL raises it where it belongs
        await self._give(kept)
        if session.transaction.implicit and session.ends_with_statement:
            session.transaction.with_stage.append(FILLED.release)
        else:
            await session.backend.run(FILLED.release)
        await changing.finish(tag)
        return tag


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


def _may_refuse(found: Mapping[int, TableVersion], added: Mapping[int, int]) -> bool:
    """Whether rows were added to other tables than those found, or may refer to one another: PostgreSQL checks these in
    their order.
    """
    return any(oid not in found or any(key.parent in added for key in found[oid].table.foreign_keys) for oid in added)
