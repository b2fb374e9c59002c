"""DO, CALL, and queries with user-defined functions: PostgreSQL executes them under the function guard.

If one has used shadows (`gateway.execution.shadow.function_guard`), it is undone, the shadows are filled with lake
rows (`gateway.execution.functions.filled_shadows`), and it is executed again, until it uses no unfilled shadow. Its
changes of rows then become changes of the lake (`gateway.execution.functions.function_changes`). The client gets the
answers of the last execution only.

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
from gateway.backend.savepoints import GUARDED
from gateway.execution.changes.row_changes import Changing, commit_with
from gateway.execution.constraints.constraint_validation import meet, obligations
from gateway.execution.functions import effects_beside
from gateway.execution.functions.filled_shadows import FilledShadows
from gateway.execution.functions.filling_settings import SETTINGS
from gateway.execution.functions.function_changes import MissedError, constrained, is_undecided, take_changes
from gateway.execution.functions.opened_cursors import CURSORS, beside_cursor, copied_again, opened, saw
from gateway.execution.functions.remembered_use import forgetting, note_used, used_before
from gateway.execution.functions.shadow_touches import TOUCHES, used_since
from gateway.execution.functions.shadow_use import DoesMoreError, ShadowUse, end_watch, is_of_guard, use_until_now
from gateway.execution.functions.sought_keys import Asked, SoughtKeys
from gateway.execution.functions.statement_words import StatementWords
from gateway.execution.functions.taken_rows import too_large
from gateway.execution.functions.trigger_lookup import changed_relations, fired_triggers
from gateway.execution.locks.row_locks import Waiting
from gateway.execution.reading.execute_prepared import prepared_text
from gateway.execution.reading.function_tables import (
    CODE,
    Words,
    likely_tables,
    may_tell_at_once,
    naming,
    tables_named,
    tables_related,
    trigger_texts,
)
from gateway.execution.reading.postgres_query import is_small
from gateway.execution.shadow.function_guard import (
    REFUSE_REWRITING,
    SCANS,
    UNWATCHED,
    relay_rows,
    scans,
    send_statement,
    written,
)
from gateway.session.constraint_modes import KEEP_OWN
from gateway.session.cursors import OpenedCursor
from gateway.session.newest_versions import NewestVersions
from gateway.session.response_spool import ResponseSpool
from gateway.session.visibility import versions
from gateway.statement.passthrough_command import check_in_block
from gateway.statement.portal import TIMEOUT, StatementPortal
from gateway.wire.messages.backend import CommandComplete
from planner.tree.nodes import name_of

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
# A table that a statement names is copied before it first runs if it has no more rows.
_COPIED_ROWS_MAX: Final = 20_000
# The same for a table that foreign keys may bring in.
_RELATED_ROWS_MAX: Final = 2_000
_EXECUTE: Final = "EXECUTESTMT"
_DECLARE: Final = "DECLARECURSORSTMT"


class GuardedPortal(StatementPortal):
    """Executes a statement in a transaction, and examines it before the next one: its reads and writes, columns to be
    computed, and rows for new constraints or indexes.
    """

    _announced = False
    tells_at_once = True  # messages of a statement that is unlikely to use the lake
    # Whether existing rows of a table that only gets new ones are left out, and foreign keys are checked only at the
    # end, unless more turns out to be needed.
    leaves_unread = False
    _strict = False  # from then on nothing is left out
    _missed: SluiceError | None = None  # the error while something was left out
    _guessed = False  # it may turn out to do more than use rows
    _named: Result | None = None  # the answer to `naming`, if that was asked
    # Whether it may move cursors: PostgreSQL would not undo that, so it is executed once, with everything copied.
    once_only = False

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        super().__init__(session, analysis, routed, binding)
        self.looked_at: set[int] = set()  # tables whose existing rows are needed
        self._heard: set[int] = set()  # tables whose triggers are known
        self._texts = StatementWords(session, analysis.sql)
        self._asked = Asked(analysis.sql, routed.query, analysis.tree.size, binding.canonical)

    async def run(self) -> None:
        await self._begin()
        await self.execute_guarded()

    async def _begin(self) -> None:
        """Begin, and find the words of the texts."""
        session, transaction = self.session, self.session.transaction
        if self._is_of(_DECLARE):
            check_in_block(session, begins=True)
        begins, expected = not transaction.open, self._texts.expected
        code, *named = await transaction.begin(CODE, *([await naming(session, expected)] if expected else []))
        transaction.fresh = transaction.fresh or begins
        if await self._texts.find(code, self._sources, keeps=not self._is_of(_EXECUTE)) and named:
            [self._named] = named  # none where another session has found the words meanwhile

    async def execute_guarded(self) -> None:
        """Execute it, now that the words of its texts are known."""
        transaction = self.session.transaction
        if (name := self._fetched()) is not None and (again := await copied_again(self.session, name)):
            unfilled, _ = await self.unfilled()
            self.once_only = unfilled.must_last = True
            self._give_tag(await self.over_rows(unfilled, set(again)))
            return
        if (predicted := await self._predicted()) is not None:
            try:
                with forgetting(self.session, self.analysis.sql):
                    self._give_tag(await self.over_rows(*predicted))
            except DoesMoreError:
                if self.once_only:
                    raise beside_cursor() from None
                await predicted[0].undo()
                self._guessed = False
            else:
                note_used(self.session, self.analysis.sql, self.looked_at)
                return
        answers = ResponseSpool()
        try:
            tag, shadows, touched = await self._carry_out(answers)
            if shadows is None:
                await self._meet_obligations()
                await self._give(answers)
                if transaction.implicit and self.session.ends_with_statement:
                    await commit_with(self.session, tag)
        finally:
            answers.close()
        if shadows is not None:
            shadows.words = set(self.words.found)
            await self.ask_limit()
            wanted = touched | await tables_named(self.session, self.words)
            await self.hear(shadows, wanted)
            tag = await self.over_rows(shadows, wanted, shadows.emptied | await shadows.seek(touched))
        self._give_tag(tag)

    @property
    def words(self) -> Words:
        """The words of its text, and of functions that it names."""
        return self._texts.words

    async def _sources(self) -> list[str]:
        """The texts that name what it uses: its own, and those of the triggers of relations that it changes.

        Of EXECUTE, that of the prepared statement counts.
        """
        query, text = self.routed.query, self.analysis.sql
        if query is not None and self._is_of(_EXECUTE):
            text = await prepared_text(self.session, name_of(query.utilityStmt.name)) or text
        changed = changed_relations(query)
        texts = (await trigger_texts(self.session, changed))[0] if changed else []
        return [text, *texts]

    def _give_tag(self, tag: str) -> None:
        if tag:
            self.session.client.send(CommandComplete(tag))

    async def _predicted(self) -> tuple[FilledShadows, set[int], set[int]] | None:
        """The shadows of tables that it names or used before; these tables; and those that are left out at first, as
        their rows are many. Then it is not executed over empty shadows first, so that it takes numbers of sequences
        once. None if it names no table, or may do more than use rows.
        """
        session, transaction = self.session, self.session.transaction
        if self.words.may_define or self._fetched() is not None:
            return None
        if transaction.parts is not None or transaction.deferred.pending:
            return None
        await fired_triggers(session, self.analysis)  # after a change of schemas, what was used before is forgotten
        used = used_before(session, self.analysis.sql)
        wanted = await tables_named(session, self.words, self._named) | used
        if not wanted:
            return None
        newest, sought = NewestVersions.of(session, wanted), SoughtKeys(session, self._asked)
        owners = await sought.asking(wanted)
        also = [*([owners[1]] if owners else []), *([newest.statement] if newest else [])]
        use = await self._use(TIMEOUT, SETTINGS, *also)
        timeout, settings, *answers = use.then
        if settings.rows[0][-1] == b"t":
            return None
        self.once_only = bool(use.cursors.rows)
        if owners is not None:
            sought.learn_owners(owners[0], answers[0])
        if newest is not None:
            newest.take(answers[-1])
        shadows = FilledShadows(session, sought, use.newest, use.before)
        if not self.once_only:
            session.cursors.filled.clear()
        shadows.words, asked_for = set(self.words.found), set(wanted)
        await self.hear(shadows, wanted)
        related = await tables_related(session, shadows.words, wanted) - wanted
        heard = await versions(session, sorted(wanted), newest=newest if asked_for == wanted else None)
        known = {**heard, **(await versions(session, sorted(related)) if related else {})}
        wanted -= used - known.keys()
        wanted |= {oid for oid in related & known.keys() if known[oid].row_count <= _RELATED_ROWS_MAX}
        if any(version.table.materialized for version in known.values()):
            return None
        self.limit_by(timeout)
        unread = {oid for oid in wanted & known.keys() if known[oid].row_count > _COPIED_ROWS_MAX and oid not in used}
        self._guessed = self.words.may_build
        if transaction.sees_newest:
            shadows.told, shadows.known = settings, known
        return shadows, wanted, set() if self.once_only else unread

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

    async def _carry_out(self, answers: ResponseSpool) -> tuple[str, FilledShadows | None, set[int]]:
        """Execute over empty shadows. If it used any, undo it, and return which to fill, and how."""
        session, backend = self.session, self.session.backend
        numbers = await effects_beside.numbering(session, self.words.found, ())
        use = await self._use(SCANS, written(()), *numbers, GUARDED.begin)
        number, cursors, before = use.newest, use.cursors, use.before
        touched_now = [Statement(TOUCHES, (number,))] if self.words.may_define or self.words.may_build else []
        questions = scans(number), written(()), *touched_now
        if not cursors.rows:
            session.cursors.filled.clear()
        error, tag, left_open = None, "", list[tuple[bytes | None, ...]]()
        session.transaction.fresh = False
        at_once = self.tells_at_once and await may_tell_at_once(session, self.words)
        if at_once:  # the notices show its progress
            await self._give(answers)
        try:
            tag = await self.perform(None if at_once else answers)
        except BackendLostError:
            raise
        except SluiceError as raised:
            if backend.status != b"E" or is_undecided(raised):
                await self._give(answers)
                raise
            error = raised
            _, *after = await backend.run(GUARDED.again, *questions)
        else:
            *after, now_open = await backend.run(*questions, CURSORS)
            left_open = opened(cursors, session.cursors.others(now_open))
        await session.cursors.check_unmoved()
        again = not at_once and not cursors.rows and is_of_guard(error)
        same = [each.rows for each in after[:2]] == [each.rows for each in use.then[:2]]
        if same and not (left_open or again or any(used_since(before, each) for each in after[2:])):
            if error is not None:
                await self._give(answers)
                raise error
            await backend.run(GUARDED.release, UNWATCHED, KEEP_OWN)
            return tag, None, set()
        if at_once:
            raise unsupported("a function that reads a lake table")
        [now] = await backend.run(Statement(TOUCHES, (number,)))
        used = used_since(before, now)
        touched = set(used)
        if (fetched := self._fetched()) is not None and saw(session, fetched, cursors, touched):
            await backend.run(GUARDED.release, UNWATCHED, KEEP_OWN)
            return tag, None, set()
        if cursors.rows or fetched is not None:
            raise beside_cursor()
        self.check_repeatable(settled=False)
        await backend.run(*GUARDED.undo, *effects_beside.rewind(use.then[2 : 2 + len(numbers)]))
        shadows = FilledShadows(session, SoughtKeys(session, self._asked), number, before)
        shadows.begin_with(used)
        return tag, shadows, touched

    def _fetched(self) -> str | None:
        query = self.routed.query
        return name_of(query.utilityStmt.portalname) if query is not None and self._is_of("FETCHSTMT") else None

    def _is_of(self, kind: str) -> bool:
        """Whether it is a utility statement of this kind."""
        query = self.routed.query
        return query is not None and bool(query.fields.get("utilityStmt")) and query.utilityStmt.type == kind

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
            if not unseen and not self._strict and shadows.hides_errors:
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
        if shadows.is_doubtful:
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
            sql, left_out = self.analysis.sql, shadows.left_out
            try:
                acted = shadows.acted
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

    async def _meet_obligations(self) -> None:
        await self.session.backend.run(REFUSE_REWRITING)
        if wanted := await obligations(self.session):
            await meet(self.session, wanted)
