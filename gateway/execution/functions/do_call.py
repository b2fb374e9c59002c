"""DO, CALL, and queries with user-defined functions: PostgreSQL executes them under the function guard.

If one has used shadows (`gateway.execution.shadow.function_guard`), it is undone, and executed again over filled ones
(`gateway.execution.functions.over_filled_shadows`). Where texts name the tables, it is executed over these at once.
"""

from __future__ import annotations

from typing import Final

from catalog.errors import SluiceError, unsupported
from gateway.backend.connection import BackendLostError, Result
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import GUARDED
from gateway.execution.changes.row_changes import commit_with
from gateway.execution.constraints.constraint_validation import meet, obligations
from gateway.execution.filling import effects_beside
from gateway.execution.filling.filled_shadows import FilledShadows
from gateway.execution.filling.filling_settings import SETTINGS
from gateway.execution.filling.opened_cursors import CURSORS, beside_cursor, copied_again, opened, saw
from gateway.execution.filling.shadow_touches import TOUCHES, used_since
from gateway.execution.filling.sought_keys import SoughtKeys
from gateway.execution.functions.function_changes import is_undecided
from gateway.execution.functions.over_filled_shadows import FilledPortal
from gateway.execution.functions.remembered_use import forgetting, note_used, used_before
from gateway.execution.functions.shadow_use import DoesMoreError, is_of_guard
from gateway.execution.functions.trigger_lookup import changed_relations, fired_triggers
from gateway.execution.reading.execute_prepared import prepared_text
from gateway.execution.reading.function_tables import (
    CODE,
    may_tell_at_once,
    naming,
    tables_named,
    tables_related,
    trigger_texts,
)
from gateway.execution.shadow.function_guard import (
    REFUSE_REWRITING,
    SCANS,
    UNWATCHED,
    scans,
    written,
)
from gateway.session.constraint_modes import KEEP_OWN
from gateway.session.newest_versions import NewestVersions
from gateway.session.response_spool import ResponseSpool
from gateway.session.visibility import versions
from gateway.statement.passthrough_command import check_in_block
from gateway.statement.portal import TIMEOUT
from gateway.wire.messages.backend import CommandComplete
from planner.tree.nodes import name_of

# A table that a statement names is copied before it first runs if it has no more rows.
_COPIED_ROWS_MAX: Final = 20_000
# The same for a table that foreign keys may bring in.
_RELATED_ROWS_MAX: Final = 2_000
_EXECUTE: Final = "EXECUTESTMT"
_DECLARE: Final = "DECLARECURSORSTMT"


class GuardedPortal(FilledPortal):
    """Executes a statement in a transaction, and examines it before the next one: its reads and writes, columns to be
    computed, and rows for new constraints or indexes.
    """

    tells_at_once = True  # messages of a statement that is unlikely to use the lake
    _named: Result | None = None  # the answer to `naming`, if that was asked

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

    async def _meet_obligations(self) -> None:
        await self.session.backend.run(REFUSE_REWRITING)
        if wanted := await obligations(self.session):
            await meet(self.session, wanted)
