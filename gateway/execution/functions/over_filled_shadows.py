"""Executes a statement over shadows filled with lake rows (`gateway.execution.filling.filled_shadows`), until it uses
no unfilled one. Its changes of rows then become changes of the lake (`gateway.execution.functions.function_changes`).
The client gets the answers of the last execution only.

Schema changes inside of functions change the shadows; existing rows are checked afterwards, as for ALTER TABLE in a
settled block. Other sessions that use these tables wait meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend.connection import BackendLostError, Result
from gateway.backend.own_statement import Statement
from gateway.execution.changes.row_changes import Changing, commit_with
from gateway.execution.constraints.constraint_validation import meet
from gateway.execution.filling.filled_shadows import FilledShadows
from gateway.execution.filling.opened_cursors import beside_cursor, opened
from gateway.execution.filling.sought_keys import Asked, SoughtKeys
from gateway.execution.filling.taken_rows import too_large
from gateway.execution.functions.function_changes import MissedError, constrained, is_undecided, take_changes
from gateway.execution.functions.shadow_use import DoesMoreError, ShadowUse, end_watch, use_until_now
from gateway.execution.functions.statement_words import StatementWords
from gateway.execution.functions.trigger_lookup import fired_triggers
from gateway.execution.locks.row_locks import Waiting
from gateway.execution.reading.function_tables import (
    Words,
    likely_tables,
    trigger_texts,
)
from gateway.execution.reading.postgres_query import is_small
from gateway.execution.shadow.function_guard import (
    relay_rows,
    send_statement,
)
from gateway.session.cursors import OpenedCursor
from gateway.session.response_spool import ResponseSpool
from gateway.statement.portal import StatementPortal

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from gateway.statement.routed import Routed

# A function may read rows of one table before it uses another.
_ROUNDS_MAX: Final = 30
# How changes of schemas fail over filled shadows.
_OF_MORE: Final = frozenset({SqlState.FEATURE_NOT_SUPPORTED, SqlState.OBJECT_IN_USE})
# After a conflict, the next execution sees what others have committed.
_CONFLICTS_MAX: Final = 5


class FilledPortal(StatementPortal):
    """Executes a statement over filled shadows, as often as it takes."""

    # Whether existing rows of a table that only gets new ones are left out, and foreign keys are checked only at the
    # end, unless more turns out to be needed.
    leaves_unread = False
    _announced = False
    _strict = False  # from then on nothing is left out
    _missed: SluiceError | None = None  # the error while something was left out
    _guessed = False  # it may turn out to do more than use rows
    # Whether it may move cursors: PostgreSQL would not undo that, so it is executed once, with everything copied.
    once_only = False

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        super().__init__(session, analysis, routed, binding)
        self.looked_at: set[int] = set()  # tables whose existing rows are needed
        self._heard: set[int] = set()  # tables whose triggers are known
        self._texts = StatementWords(session, analysis.sql)
        self._asked = Asked(analysis.sql, routed.query, analysis.tree.size, binding.canonical)

    @property
    def words(self) -> Words:
        """The words of its text, and of functions that it names."""
        return self._texts.words

    async def unfilled(self) -> tuple[FilledShadows, Result]:
        """Shadows that are not filled yet, before the statement first runs; and the backend's cursors."""
        use = await self._use()
        return FilledShadows(self.session, SoughtKeys(self.session, self._asked), use.newest, use.before), use.cursors

    async def _use(self, *then: Statement) -> ShadowUse:
        await self.session.cursors.watch()
        if self._texts.may_name:
            self.session.run_functions()
        use = await use_until_now(self.session.backend, *then)
        return replace(use, cursors=self.session.cursors.others(use.cursors))

    def check_repeatable(self, *, settled: bool) -> None:
        """Raise 0A000 if the statement cannot be undone and executed again."""
        transaction = self.session.transaction
        if transaction.parts is not None or (transaction.deferred.pending and not settled):
            raise unsupported("a function that reads a lake table")

    async def over_rows(self, shadows: FilledShadows, wanted: set[int], unread: Iterable[int] = ()) -> str:
        """Execute over filled shadows until it uses no others, and take its changes; return its tag.

        Of the `wanted` tables, rows of the `unread` ones are copied only once they are needed.
        """
        conflicts, left_out = 0, set(unread)
        unchecked, transaction = self.leaves_unread, self.session.transaction
        shadows.quiet, fresh = self._texts.quiet, transaction.fresh
        shadows.rows_only = frozenset() if self._texts.may_name else self.words.found
        shadows.may_change = self.words.may_change_rows
        if self.once_only:
            shadows.sought.refuse(wanted)
        for _ in range(_ROUNDS_MAX):
            answers = ResponseSpool()
            try:
                was_strict = self._strict
                unseen, tag = await self._once(shadows, wanted, left_out, answers, unchecked=unchecked)
                is_done = tag is not None and not unseen and self._strict == was_strict
                unfetched = self._note_cursors(shadows, wanted) if is_done else set()
                is_done = is_done and not unfetched
                may_fail = conflicts >= _CONFLICTS_MAX
                if is_done and tag is not None and await self._settled(shadows, answers, tag, may_fail=may_fail):
                    return tag
                conflicts += not (unseen or unfetched)
            finally:
                answers.close()
            if self.once_only:
                raise beside_cursor()
            await shadows.undo()
            transaction.fresh = fresh = fresh and not shadows.must_repeat
            self.looked_at |= unfetched
            left_out -= unfetched
            if self._strict:  # with everything copied, so that PostgreSQL raises the error at its place
                if not is_small([shadows.versions[oid] for oid in shadows.by_keys.keys() - shadows.sought.tables]):
                    raise self._missed or too_large()
                left_out &= shadows.emptied
                shadows.forget_keys()
                unchecked = False
            added = shadows.only_added(unseen)
            sought = await shadows.seek(unseen - added)
            self.looked_at |= unseen - added - sought
            left_out -= unseen
            left_out |= unseen & (added if unchecked else shadows.emptied)
            left_out = (left_out | sought) - shadows.by_keys.keys()
            wanted |= unseen
            await self.hear(shadows, wanted)
        raise SluiceError(SqlState.SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")

    def _note_cursors(self, shadows: FilledShadows, wanted: set[int]) -> set[int]:
        """Note the cursors that the statement has left open. They read their tables only when they are fetched from: so
        return the tables that must be copied for them."""
        left_open = opened(Result(), shadows.cursors)
        if not left_open:
            return set()
        if lacking := shadows.lacking:
            shadows.forget_keys()
            return lacking
        for name, created, _ in left_open:
            self.session.cursors.filled.setdefault((name, created), OpenedCursor(frozenset(wanted)))
        return set()

    async def hear(self, shadows: FilledShadows, wanted: set[int]) -> None:
        """Collect the names in functions that the triggers of these tables call, and so on."""
        fired = await fired_triggers(self.session, self.analysis) if self.words.may_change_rows else {}
        while new := {oid for oid in wanted if oid in fired} - self._heard:
            self._heard |= new
            texts, _ = await trigger_texts(self.session, new)
            likely, words = await likely_tables(self.session, texts)
            shadows.words |= words
            wanted |= likely

    async def _once(
        self,
        shadows: FilledShadows,
        wanted: Collection[int],
        unread: Collection[int],
        answers: ResponseSpool,
        *,
        unchecked: bool,
    ) -> tuple[set[int], str | None]:
        """The unfilled tables that it has used, and its tag; None if it must be executed again."""
        try:
            await shadows.fill(wanted, unread, unchecked=unchecked)
        except SluiceError as error:
            raise error if self._missed is None or not is_undecided(error) else self._missed from error
        with shadows.sought:
            return await self._looked(shadows, answers)

    async def _looked(self, shadows: FilledShadows, answers: ResponseSpool) -> tuple[set[int], str | None]:
        backend, transaction = self.session.backend, self.session.transaction
        transaction.fresh = transaction.fresh and shadows.is_alone
        try:
            tag = await self.perform(answers)
        except BackendLostError:
            raise
        except SluiceError as error:
            unseen = set[int]()
            if backend.status == b"E" and not is_undecided(error):
                unseen = await shadows.look(failed=True)
            if not unseen and backend.status == b"T" and await self.meets_change(error, shadows):
                return unseen, None
            if not unseen and not self._strict and shadows.left_out.hides_errors:
                self._missed, self._strict = error, True  # or another error precedes it
            elif not unseen:
                if self._guessed and error.sqlstate in _OF_MORE:
                    raise DoesMoreError from error
                await self._give(answers)
                raise
            return unseen, ""
        return await shadows.look(failed=False), tag

    async def meets_change(self, error: SluiceError, shadows: FilledShadows) -> bool:  # noqa: ARG002
        """Whether others have changed a row that it locks before the error, which is then none."""
        return False

    async def perform(self, answers: ResponseSpool | None) -> str:
        """Have the backend execute the statement, and keep its answers, or send them (None); return the tag."""
        await send_statement(self.session, self.binding)
        return await relay_rows(self.session, answers)

    async def _settled(self, shadows: FilledShadows, answers: ResponseSpool, tag: str, *, may_fail: bool) -> bool:
        """The statement has seen all that it used: take its changes. False if it must be executed again."""
        session, transaction = self.session, self.session.transaction
        ends = transaction.implicit and session.ends_with_statement
        leaves_nothing = ends and shadows.is_alone and self._texts.leaves_nothing
        taken = await shadows.take(leaves_nothing=leaves_nothing)
        if shadows.must_repeat:
            self._texts.forget()
            return False
        if shadows.acts:
            session.run_functions()
        elif not shadows.lasts:
            self._texts.note_quiet(shadows.words)
        if shadows.left_out.is_doubtful:
            self._strict = True
            return False
        truncated = [each.version.table.oid for each in taken if each.truncated]
        wanted = [] if ends and shadows.is_alone else await end_watch(session, truncated, guessed=self._guessed)
        changed = [each.version.table.oid for each in taken if each.is_changed]
        locked = [each.version.table.oid for each in taken if each.locked.num_rows]
        if not changed and not locked:
            await shadows.keep(ends=ends and not wanted)
            await meet(session, wanted)
            await self._give(answers)
            if leaves_nothing:
                await transaction.roll_back()  # COMMIT would wait for the disk
            elif ends:
                await commit_with(session, tag)
            return True
        if shadows.alters(constrained(wanted, changed, locked)):
            return False
        async with Changing(self, "a function", *changed) as changing:
            sql, left_out, acted = self.analysis.sql, bool(shadows.left_out), shadows.left_out.acted
            try:
                # Who holds a row may be waiting for copied rows that stay.
                waiting = Waiting.FAIL if shadows.lasts and not may_fail else Waiting.WAIT
                if not await take_changes(
                    changing,
                    taken,
                    sql,
                    acted,
                    may_fail=may_fail,
                    left_out=left_out,
                    lost=shadows.lost,
                    waiting=waiting,
                ):
                    return False
            except MissedError as missed:
                if not await shadows.widen(missed.error, taken):
                    self._missed, self._strict = missed.error, True
                return False
            await shadows.keep()
            await meet(session, wanted)
            await self._give(answers)
            await changing.finish(tag)
        return True

    async def _give(self, answers: ResponseSpool) -> None:
        """The backend describes rows only in answer to a simple query."""
        if self.binding.raw_query is None and not self._announced:
            self.announce()
        self._announced = True
        await answers.give(self.session.client)
