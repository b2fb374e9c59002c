"""Fills shadows with lake rows for functions to read and change, and takes the changes.

Contract: `fill` begins a savepoint and copies the tables, all at one snapshot; then the statement runs. `look` returns
which other tables it has used. Then either all is undone, and filled again with those, or `take` reads the changes of
rows, and the shadows are empty again. Other effects of the statement last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, unsupported
from gateway.backend import catalog_calls
from gateway.backend.analysis import SchemaMark
from gateway.backend.arrays import number_array
from gateway.backend.connection import Result
from gateway.backend.messages_aside import PLANS_MAX
from gateway.backend.own_message import LOCKED
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import FILLED, STATEMENT
from gateway.execution.filling import effects_beside
from gateway.execution.filling.current_row_copy import CurrentRow
from gateway.execution.filling.filling_settings import SETTINGS, set_while_filled
from gateway.execution.filling.lake_copies import Copies, copy_whole, empty_shadows, has_parents
from gateway.execution.filling.left_out_rows import LeftOut
from gateway.execution.filling.opened_cursors import CURSORS
from gateway.execution.filling.rows_made import FEW_ADDED, RowsMade
from gateway.execution.filling.shadow_touches import TOUCHES, Touch, Use, check_copied, touches
from gateway.execution.filling.sought_keys import SoughtKeys
from gateway.execution.filling.taken_rows import (
    Taken,
    altered_of,
    check_newest,
    conditions,
    existing_of,
    locked_only,
    mark_of,
    missing_key,
    too_large,
    written_anew,
)
from gateway.execution.locks.row_locks import Contested, hold_present
from gateway.execution.locks.table_locks import ACCESS_EXCLUSIVE, ACCESS_SHARE, lock_tables
from gateway.execution.reading.function_tables import name_arrays
from gateway.execution.reading.handed_rows import rows_by_keys_aside
from gateway.execution.reading.postgres_query import LOAD_LIMIT, NOT_IDLE, is_small
from gateway.execution.shadow.loaded_rows import Loaded
from gateway.execution.shadow.shadow import shadow_rows
from gateway.execution.shadow.trigger_bypass import role_again
from gateway.session.cancel_listener import check
from gateway.session.newest_versions import NewestVersions
from gateway.session.visibility import rules, versions
from gateway.transaction.read_only_block import SET as READ_ONLY

if TYPE_CHECKING:
    from catalog.model import TableVersion
    from gateway.session.session_context import SessionContext
    from planner.plans.row_filter import WantedKeys

_LOCKING: Final = frozenset({"update", "share"})  # of FOR UPDATE, FOR KEY SHARE and so on
_DROPPING: Final = frozenset({"drop", "execute"})


class FilledShadows:
    """The filled shadows of a statement, whose keys are `sought`. `versions` are the filled tables, `before` the use
    until it began."""

    def __init__(
        self, session: SessionContext, sought: SoughtKeys, newest: bytes | None, before: Mapping[int, Touch]
    ) -> None:
        self._session = session
        self.words: set[str] = set()  # names in it, and in functions that it names
        self.quiet = frozenset[str]()  # words of texts that have no effects but on rows
        self.rows_only = frozenset[str]()  # the same, if nothing else need be counted
        self.told: Result | None = None  # the answer to SETTINGS, if it was asked just now
        self.known: Mapping[int, TableVersion] = {}  # versions of tables at that time
        self.may_change = True  # whether its texts say that it may change rows
        self.must_repeat = False  # it has had other effects, and must be executed again
        self.acts = True  # whether it may have had effects that are not counted
        self._newest = newest
        self.before = before
        self.versions: dict[int, TableVersion] = {}
        self.mark = SchemaMark(0, 0)
        self._marks: dict[int, str] = {}
        self._use = Use({}, {})
        self._settings: list[bytes | None] = []
        self.unread = frozenset[int]()  # of `versions`, those that are not copied
        self.unchecked = False
        self.exclusive: set[int] = set()  # tables that the statement truncates
        self.altered: set[int] = set()  # tables whose columns or constraints it changes, beside their rows
        # Tables that the statement searches by keys, with the keys; and the copied rows.
        self.by_keys: dict[int, WantedKeys] = {}
        self._found: dict[int, Loaded] = {}
        self.sought = sought
        self._fresh: dict[int, int] = {}  # how many rows the statement has made
        self.cursors = Result()  # the backend's after the statement, but for those over the lake
        self._beside = Result()
        self._numbers: Sequence[Result] = ()  # the use of sequences before the statement
        self._ahead: list[Result] = []  # what `take` asks of a statement that only reads
        self._begun = False
        self.emptied = frozenset[int]()  # tables that the statement has truncated before it used them
        self._late: set[int] = set()  # tables that it has truncated before the lake's lock on them was taken
        self.lasts = False  # copied rows stay in the way of other sessions until the transaction ends
        self.lost: list[Contested] = []  # rows to be locked before the statement runs again
        self.must_last = False  # the statement is not undone: deferred triggers fire, or a cursor moves
        self.defers = False  # it may have queued deferred triggers
        self.current: CurrentRow | None = None  # the row that it names by WHERE CURRENT OF

    async def fill(self, oids: Collection[int], unread: Collection[int] = (), *, unchecked: bool = False) -> None:
        """Copy these tables and begin the savepoint for the statement. Rows of `unread` tables are not copied; they are
        not needed as long as rows are only added, or the table is truncated first. `unchecked`: foreign keys are
        checked only when all is taken."""
        session, backend = self._session, self._session.backend
        await session.transaction.read_only.lift()
        if self.exclusive:  # before rows are looked at, and before PostgreSQL locks the shadow
            await backend.run(lock_tables(sorted(self.exclusive), ACCESS_EXCLUSIVE))
        is_first = self.told is not None
        settings, newest = await self._ask(oids)
        *self._settings, level, cache_mode, limit, mark, is_past = settings.rows[0]
        self.mark, self.must_repeat = SchemaMark.of(mark), False
        if is_past == b"t":
            raise unsupported("a function that reads a lake table while sluice.as_of is set")
        self.versions = await self._seen(oids, newest)
        await check_newest(session, [self.versions[oid] for oid in self.altered & self.versions.keys()])
        self.unread, self.unchecked = frozenset(unread) - self.altered, unchecked and not self.altered
        waits = not session.transaction.implicit
        self.unread -= copy_whole(self.versions, self.by_keys, self.sought.tables, others_wait=waits)
        self.unchecked = self.unchecked and not has_parents(self.versions, self.unread | self.by_keys.keys())
        self.by_keys |= (guessed := await self.sought.expect(self.versions, self.unread, self.by_keys))
        self.unread = self.unread - guessed.keys()
        self.unchecked = self.unchecked or (unchecked and bool(guessed))
        self._found = await self._find()
        given, current = self._found, self.current
        if current is not None:
            given = {**given, current.oid: await current.find(session, self.versions[current.oid])}
            self._found = given if current.alone else self._found
        few = self.unread | self._found.keys()
        copied = [version for oid, version in self.versions.items() if oid not in few]
        size = sum(file.size_bytes for version in copied for file in version.files)
        if size > int(limit or 0):
            raise unsupported(
                "a function that reads so large a lake table",
                hint=f"PostgreSQL carries it out over copies of rows, if {LOAD_LIMIT} allows for so many.",
            )
        tables = [version.table for version in self.versions.values()]
        for table in tables:
            if table.materialized:
                raise unsupported("a function that reads a materialized view")
            await session.transaction.enlistment.meet(table, self.mark)
        held = (catalog_calls.hold_schema([table.oid]) for table in tables)
        begin = [FILLED.begin, NOT_IDLE, lock_tables(sorted(self.versions), ACCESS_SHARE), *held]
        self._begun = True
        filled = [version for oid, version in self.versions.items() if self._is_copied(oid)]
        touched = Statement(TOUCHES, (self._newest,))
        copies = Copies(tables, filled, given, {} if current is None else {current.oid: current.opening})
        copying = await copies.begin(session, begin, None if is_first else touched) if filled else None
        marks = [mark_of(each.oid) for each in tables]
        numbers = await effects_beside.numbering(session, self.words, self.versions)
        preceding = [catalog_calls.precede_late()] if any(table.defers for table in tables) else []
        begun = begin if copying is None else copying.few
        answers = await backend.run(
            *begun,
            *marks,
            *numbers,
            *([] if copying is None else [role_again(copying.role)]),
            *preceding,
            touched,
            catalog_calls.set_filled(filled=True, unchecked=self.unchecked),
            set_while_filled(self._settings[0], "0", "on" if self.unchecked else ""),
            self._counting,
            *(printing := self.sought.begin(level, cache_mode)),
            STATEMENT.begin,
        )
        if copying is None:
            session.transaction.enlistment.confirm_all(tables, answers[len(begin) - len(tables) :])
        answers = answers[len(begun) :]
        found, self._numbers = answers[: len(marks)], answers[len(marks) : len(marks) + len(numbers)]
        counts, _, _, self._beside, *_ = answers[-5 - len(printing) :]
        self._marks = {
            table.oid: value.decode() for table, each in zip(tables, found, strict=True) if (value := each.rows[0][0])
        }
        self._use = Use(touches(counts), {})
        if copying is not None:
            before = self.before if copying.before is None else touches(copying.before)
            check_copied(before, self._use.before, self.versions)
        if session.transaction.read_only.stands:
            await backend.run(READ_ONLY)
        check(session)

    def _is_copied(self, oid: int) -> bool:
        """Whether rows of the table are copied."""
        found, version = self._found.get(oid), self.versions[oid]
        return oid not in self.unread and bool(version.row_count if found is None else found.rows.num_rows)

    async def _ask(self, oids: Collection[int]) -> tuple[Result, NewestVersions | None]:
        """The answer to SETTINGS, with the newest versions of the tables if that can be told now."""
        told, self.told = self.told, None
        if told is not None and not self.exclusive:
            return told, None
        self.known = {}
        newest = NewestVersions.of(self._session, oids)
        settings, *answers = await self._session.backend.run(SETTINGS, *([newest.statement] if newest else []))
        if newest is not None:
            newest.take(answers[0])
        return settings, newest

    async def _seen(self, oids: Collection[int], newest: NewestVersions | None) -> dict[int, TableVersion]:
        session = self._session
        await session.reading.choose(None)
        found, self.known = self.known, {}
        if not set(oids) <= found.keys():
            found = await versions(session, list(oids), newest=newest)
        if set(oids) - found.keys():
            raise unsupported("a function that reads a lake table which was made meanwhile")
        return {oid: found[oid] for oid in sorted(oids)}

    async def _find(self) -> dict[int, Loaded]:
        found = {}
        for oid, wanted in list(self.by_keys.items()):
            rows = await rows_by_keys_aside(self._session.gateway.data_path, self.versions[oid], wanted)
            if rows is not None:
                found[oid] = rows
            elif oid in self.sought.tables:
                self._copy_whole([oid])
            elif not is_small([self.versions[oid]]):
                raise too_large()
        return found

    def found(self, oid: int) -> Loaded | None:
        """The copied rows of a table that the statement searches by keys."""
        return self._found.get(oid)

    async def look(self, *, failed: bool) -> set[int]:
        """After the statement, or when it has `failed`: the unfilled tables that it has used."""
        end = STATEMENT.again if failed else STATEMENT.release
        printing = await self.sought.end(self.words, self.versions)
        reads = not (failed or self.may_change or self.must_last) and self.is_alone and self.quiet >= self.words
        locked = [] if _LOCKING.isdisjoint(self.words) else self._kept
        ahead = [self._counting, *self._locks(locked)] if reads else []
        ends = [end, *(() if failed or self.current is None else self.current.closing)]
        asked = *ends, *printing, Statement(TOUCHES, (self._newest,)), CURSORS
        answers = (await self._session.backend.run(*asked, *ahead))[len(ends) :]
        await self._session.cursors.check_unmoved()
        ended, (counts, now_open, *self._ahead) = answers[: len(printing)], answers[len(printing) :]
        self.cursors = self._session.cursors.others(now_open)
        await self.sought.read(ended, self.versions)
        self._use = Use.between(self._use.before, touches(counts))
        self._note_truncated()
        unseen = {oid for oid, each in self._use.now.items() if not each.made and self._is_unseen(oid)}
        for oid in unseen & self.by_keys.keys() - self.sought.tables:
            del self.by_keys[oid]
        if self.current is not None and self.current.oid in unseen:
            self.current.alone = False
        return unseen

    async def seek(self, unseen: Collection[int]) -> set[int]:
        """Of the tables that it lacks, those of which at most the rows are copied whose keys its plans name."""
        others = [oid for oid in unseen if oid not in self.versions]
        known = {**self.versions, **(await versions(self._session, others) if others else {})}
        whole = self.exclusive if self.current is None else self.exclusive | {self.current.oid}
        large = await self.sought.worth(known[oid] for oid in (known.keys() & unseen) - whole)
        self._copy_whole([oid for oid in large if self._use.scans(oid) > PLANS_MAX])
        for oid in large & self.sought.tables:
            keys = self.sought.learnt(oid, self.by_keys.get(oid), self._use.scans(oid))
            if keys is None:
                self._copy_whole([oid])
            else:
                self.by_keys[oid] = keys
        self.sought.tables |= large - self.sought.refused
        return large & self.sought.tables

    def _copy_whole(self, oids: Collection[int]) -> None:
        self.sought.refuse(oids)
        for oid in oids:
            self.by_keys.pop(oid, None)

    async def widen(self, error: SluiceError, taken: Sequence[Taken]) -> bool:
        """The lake has found a key of new rows: whether the rows with this key are to be copied too."""
        missing = missing_key(error, taken, self.by_keys)
        if missing is not None and self.current is not None and self.current.oid == missing[0]:
            self.current.alone = False
            return is_small([self.versions[missing[0]]])
        if missing is None or not await self.sought.worth([self.versions[missing[0]]]):
            return False
        oid, self.by_keys[oid] = missing
        self.sought.tables.add(oid)
        return True

    def forget_keys(self) -> None:
        """Copy whole tables."""
        self._copy_whole(list(self.sought.tables))
        self.by_keys.clear()
        if self.current is not None:
            self.current.alone = False

    def begin_with(self, touched: Mapping[int, Touch]) -> None:
        """What the statement has done over empty shadows."""
        self._use = Use(self.before, touched)
        self._note_truncated()

    def _note_truncated(self) -> None:
        truncated = {oid for oid, each in self._use.now.items() if each.truncated}
        self._late = {oid for oid in truncated - self.exclusive if not self._use.now[oid].made}
        self.exclusive |= self._late
        self.emptied = frozenset(oid for oid in truncated if not self._use.reads(oid))

    def _is_unseen(self, oid: int) -> bool:
        if oid in self._late:
            return True
        if self.current is not None and oid == self.current.oid:  # the statement itself finds its row without a scan
            return self.current.alone and self._use.scans(oid) > 0
        if oid in self._found and oid in self.sought.tables | self.sought.refused:
            return self.sought.lacks(oid, self.by_keys.get(oid), self._use.scans(oid))
        if oid in self._found:  # scanned once by the statement itself, before any user's code
            return self._use.scans(oid) > 1
        return oid not in self.versions or (oid in self.unread and self._use.reads(oid))

    def only_added(self, oids: Collection[int]) -> set[int]:
        """The tables that only got new rows."""
        return {oid for oid in oids if not self._use.reads(oid)}

    @property
    def lacking(self) -> set[int]:
        """The tables of which not all rows are in shadows."""
        return set((self.unread | self._found.keys()) - self.emptied)

    @property
    def grown(self) -> frozenset[int] | None:
        """The tables that got rows, if that is all that the statement has done."""
        oids = set(self._use.now)
        return None if self.lasts or self.only_added(oids) != oids else frozenset(oids)

    @property
    def left_out(self) -> LeftOut:
        """What the statement did without."""
        return LeftOut(
            versions=self.versions,
            use=self._use,
            lacking=frozenset(self.lacking),
            by_keys=self.by_keys,
            searched=frozenset(self._found),
            unchecked=self.unchecked,
            fresh=self._fresh,
            sought=self.sought,
            catches="exception" in self.words,
        )

    async def undo(self) -> None:
        """Undo everything since `fill`, and lock the rows that were `lost`."""
        if self._begun:
            await self._session.backend.run(*FILLED.undo, *effects_beside.rewind(self._numbers))
            self._begun = False
        while self.lost:
            await hold_present(self._session, self.lost.pop())

    @property
    def _kept(self) -> list[int]:
        """The tables of which rows are copied."""
        return [oid for oid, version in self.versions.items() if version.row_count and oid not in self.unread]

    def _locks(self, oids: Iterable[int]) -> list[Statement]:
        """The questions for rows that the statement has locked."""
        return [shadow_rows(self.versions[oid].table, LOCKED) for oid in oids]

    async def take(self, *, leaves_nothing: bool = False) -> list[Taken]:
        """The changes of the rows; afterwards the shadows are empty, and settings are restored. If the statement has
        only read and `leaves_nothing`, the caller undoes its transaction instead."""
        session = self._session
        await self._forget_dropped()
        made_now = [oid for oid, each in self._use.now.items() if oid not in self.versions and each.made]
        asked = [] if session.transaction.fresh else [*self.versions, *made_now]  # in a fresh one no schema is changed
        known = await versions(session, asked) if asked else self.versions
        changed = [oid for oid in self._use.now if oid in known and self._use.changes(oid)]
        if self._ahead and not changed:
            return await self._locked_only(leaves_nothing=leaves_nothing)
        appended, _ = self._ways(changed)
        anew = await written_anew(session, self.words if changed else ())
        if self.alters(altered_of(changed, self.versions, known, anew)):
            return []
        whole = [oid for oid in changed if oid in self.altered or oid not in appended | self._found.keys()]
        if not all(is_small([known[oid]]) for oid in whole):
            raise too_large()
        plain = appended - self._found.keys() - self.altered
        rows = RowsMade(session, known, [oid for oid in plain if self._use.rows(oid)[0] > FEW_ADDED])
        try:
            return await self._take(rows, known, changed)
        finally:
            await rows.abort()

    def _ways(self, changed: Iterable[int]) -> tuple[set[int], set[int]]:
        """The tables that only got new rows, or lost all others; and the latter."""
        gone = {oid for oid in changed if self._use.now[oid].truncated or oid in self.altered}
        return {oid for oid in changed if self._use.rows(oid)[1] == 0} | gone, gone

    async def _take(self, rows: RowsMade, known: Mapping[int, TableVersion], changed: Sequence[int]) -> list[Taken]:
        session, backend, reads = self._session, self._session.backend, list[Statement]()
        appended, truncated = self._ways(changed)
        for oid in changed:
            mark = None if oid in self.altered else self._marks.get(oid)
            reads += rows.questions(oid, conditions(mark, oid in appended))
        filled = [oid for oid in self._kept if oid not in changed]
        deferring = {oid for oid in changed if known[oid].table.defers}
        self.defers = bool(deferring)
        session.transaction.late.tables |= deferring
        lasts = bool(truncated or deferring or self.must_last or (changed and not self.may_change))
        # Other sessions may fill these shadows before the transaction ends.
        undone = [FILLED.again] if self.is_alone and not lasts else [*map(catalog_calls.vouch_columns, self.altered)]
        texts = []
        if not self.quiet >= self.words:
            texts.append(effects_beside.uncounted(self.sought.sql, await name_arrays(session, self.words)))
        counted, *results = await backend.run(self._counting, *texts, *reads, *self._locks(filled), *undone)
        acted = counted.rows != self._beside.rows
        if acted and self.is_alone:
            self.rows_only, self.must_repeat = frozenset(), True
            return []
        self.acts = bool(texts) and results.pop(0).rows[0][0] != b"f"
        self.lasts = lasts or acted or self.acts
        if not self.lasts and not undone:
            await backend.run(FILLED.again)
        elif self.lasts:
            await empty_shadows(session, [*filled, *changed], known.values(), self._settings)
        taken, parts = [], iter(results)
        self._fresh.clear()
        for oid in changed:
            made = await rows.read(oid, parts)
            self._fresh[oid] = made.row_count
            seen = replace(self.versions.get(oid, known[oid]), table=known[oid].table)
            loaded = self._found.get(oid)
            if loaded is not None and oid in self.sought.tables:
                changes, generated = (loaded.rows, made.fresh, made.kept), (await rules(session, seen.table)).generated
                await asyncio.to_thread(self.sought.note, seen.table, self.by_keys[oid], changes, generated)
            taken.append(
                Taken(
                    seen,
                    *made[:3],
                    replaces=oid not in appended,
                    truncated=oid in truncated,
                    loaded=loaded or (None if self.current is None else self.current.whole(oid)),
                    updates_one=self._use.rows(oid) == (0, 1) and made.row_count == 1 and oid not in truncated,
                    written=made.written,
                )
            )
        return [*taken, *[await self._locked(oid, next(parts)) for oid in filled]]

    def alters(self, oids: Set[int]) -> bool:
        """The statement alters these tables beside their rows: whether it must be executed again, over all of them."""
        if not oids <= self.altered:
            self.altered |= oids
            self.exclusive |= oids
            self._copy_whole(list(oids))
            self.rows_only, self.must_repeat = frozenset(), True
        return self.must_repeat

    async def _locked_only(self, *, leaves_nothing: bool) -> list[Taken]:
        """`take`, if the statement has only read and what it asks was answered."""
        counted, *locked = self._ahead
        if counted.rows != self._beside.rows:
            self.rows_only, self.must_repeat = frozenset(), True
            return []
        self.acts = self.lasts = self.defers = False
        if not leaves_nothing or any(each.bodies for each in locked):
            await self._session.backend.run(FILLED.again)
        return [await self._locked(oid, answer) for oid, answer in zip(self._kept, locked, strict=False)]

    async def _locked(self, oid: int, answer: Result) -> Taken:
        return await locked_only(self.versions[oid], answer, self._found.get(oid))

    @property
    def is_alone(self) -> bool:
        """Whether the statement has no effects but on rows of shadows."""
        return bool(self.rows_only) and self.rows_only >= self.words

    @property
    def _counting(self) -> Statement:
        """The question for effects besides rows of shadows."""
        return effects_beside.ELSEWHERE if self.is_alone else effects_beside.counted(number_array(self.versions))

    async def _forget_dropped(self) -> None:
        """Rows of tables that the statement has dropped are nobody's."""
        if self.words.isdisjoint(_DROPPING):
            return
        existing = await existing_of(self._session, self.versions)
        for oid in self.versions.keys() - existing:
            del self.versions[oid]
            self.by_keys.pop(oid, None)
            self._found.pop(oid, None)
        self._use = replace(
            self._use, now={oid: each for oid, each in self._use.now.items() if oid in existing or each.made}
        )

    async def keep(self, *, ends: bool = False) -> None:
        """All is taken and staged: keep the rest. `ends`: the transaction's end comes at once."""
        self.sought.remember(self._found, self.by_keys)
        if not ends:
            await self._session.backend.run(FILLED.release)
        self._begun = False
        await self._session.transaction.read_only.restore()
