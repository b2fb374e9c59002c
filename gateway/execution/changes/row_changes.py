"""A statement that changes the lake, as part of its transaction: it locks rows and stages files.

Outside of a block it has a transaction of its own, which ends with the statement in a simple query, and at Sync in the
extended protocol. Killed at any moment, it leaves only files that no snapshot names, which `sluice check` lists.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Final, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.constraints import ForeignKey
from catalog.errors import SluiceError, SqlState
from catalog.model import Table, TableVersion
from catalog.publish import Deletion, RowChange
from gateway.backend.analysis import SchemaMark
from gateway.backend.connection import BackendLostError, Result
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.changes.foreign_key_actions import carry_out
from gateway.execution.constraints.exclusion_check import keep_exclusions
from gateway.execution.constraints.foreign_key_referenced import Replaced, consequence, referring
from gateway.execution.constraints.foreign_key_referencing import checked_of, keep_references
from gateway.execution.constraints.kept_references import note_checked, note_unchanged
from gateway.execution.constraints.unique_check import keep_keys
from gateway.execution.locks.row_locks import (
    Contested,
    Strength,
    Waiting,
    check_may_look_again,
    follow_rows,
    hold_present,
    hold_rows,
    is_locked,
)
from gateway.execution.locks.table_locks import ROW_EXCLUSIVE, lock_tables
from gateway.session import constraint_modes, hot_rows
from gateway.session.cancel_listener import check
from gateway.session.constraint_modes import deferred_now
from gateway.session.pending_constraints import note_pending
from gateway.session.session_context import SessionContext
from gateway.session.session_timeouts import STATEMENT_TIMEOUT
from gateway.transaction.enlistment import SchemaChangedError
from gateway.transaction.isolation_level import Isolation, isolation_of
from gateway.transaction.transaction import BEGIN
from gateway.wire.messages.backend import CommandComplete
from storage.spark.write import WriteResult

# A client's timeouts limit the Sluice statement; they must not end its idle backend meanwhile.
_SETTINGS: Final = Statement(
    f"SELECT {STATEMENT_TIMEOUT},"
    " pg_sluice.backend_setting('transaction_read_only'), pg_sluice.backend_setting('transaction_isolation'),"
    " pg_sluice.backend_setting('idle_in_transaction_session_timeout'),"
    " pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true),"
    f" {hot_rows.ASKED}, {constraint_modes.ASKED}, pg_sluice.schema_mark()"
)
_IS_PAST: Final = Statement(
    "SELECT coalesce(pg_sluice.backend_setting('sluice.as_of', true), '') OPERATOR(pg_catalog.<>) '',"
    " pg_sluice.backend_setting('default_transaction_isolation')"
)
_RESTORE: Final = "SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true)"
_ROLLBACK: Final = Statement("ROLLBACK")
# A cancel, or a limit of time, is meant for the statement as a whole, and does not come from a schema.
ENDING: Final = frozenset({SqlState.QUERY_CANCELED, SqlState.LOCK_NOT_AVAILABLE, SqlState.DEADLOCK_DETECTED})


class Timed(Protocol):
    """A statement with a time limit."""

    session: SessionContext

    def limit_time(self, seconds: float | None) -> None:
        """Limit the statement's time from now on."""


@dataclass(frozen=True, slots=True)
class Written:
    """A result on top of a version; `sources` are those of `Replaced`; `updates`: it may have updated rows;
    `truncates`: all earlier rows go. `followed` has the old rows in the order of the new ones, for cursors.
    """

    version: TableVersion
    result: WriteResult
    sources: pa.Table | None
    updates: bool
    truncates: bool = False
    followed: pa.Table | None = None


class Changing:
    """Use: `async with Changing(portal, "INSERT") as changing: … changing.wrote(…) … await changing.finish()`.

    `targets` are locked in `mode` until the transaction ends, as PostgreSQL locks the tables that a statement changes.
    `then` runs after the locks, in the same round trip; `begun` are its answers. It begins with a savepoint (TRIAL),
    unless it only asks (`asks`): then, of a transaction that it begins, nothing is left if it fails, and `begun` is
    empty. Leaving without `finish` removes the files of every added result, and the transaction fails.
    """

    def __init__(
        self,
        portal: Timed,
        what: str,
        *targets: int,
        mode: str = ROW_EXCLUSIVE,
        then: Sequence[Statement] = (),
        asks: bool = False,
    ) -> None:
        self._portal = portal
        self.session = portal.session
        self._transaction = portal.session.transaction
        self._what = what
        self._locks = [lock_tables(targets, mode)] if targets else []
        self._changes: list[RowChange] = []
        self._then, self._asks = then, asks
        self.begun: Sequence[Result] = ()
        self._idle_timeout = "0"
        self.seconds: float | None = None  # of statement_timeout
        self.mark = SchemaMark(0, 0)  # at the statement's beginning
        self._modes: Mapping[str, bool] = {}
        # Outstanding consequences of foreign keys, in their order; set while they run.
        self._events: deque[Callable[[], Awaitable[None]]] = deque()
        self._follows = False

    @property
    def limits_idling(self) -> bool:
        """Whether the client has PostgreSQL end transactions that are idle for a time."""
        return self._idle_timeout != "0"

    async def __aenter__(self) -> Self:
        settings = await self._begin()
        milliseconds, read_only, level, idle, _, hot, *_ = (
            str(value, "ascii") for value in settings.rows[0] if value is not None
        )
        self.mark = SchemaMark.of(settings.rows[0][-1])
        self._modes = constraint_modes.modes_from(settings.rows[0][-2])
        self._idle_timeout = idle
        if read_only == "on":
            raise SluiceError(
                SqlState.READ_ONLY_SQL_TRANSACTION, f"cannot execute {self._what} in a read-only transaction"
            )
        self._transaction.refuse_strict_write(level)
        self.seconds = int(milliseconds) / 1000 or None
        self._portal.limit_time(self.seconds)
        self._transaction.hot_rows_max = hot_rows.asked(hot)
        return self

    async def _begin(self) -> Result:
        """Begin, with a transaction unless one is open; the answer to `_SETTINGS`. 25006 in a session that reads a past
        snapshot.
        """
        transaction, backend = self._transaction, self.session.backend
        questions, then = (_IS_PAST, _SETTINGS, *self._locks), self._then
        if transaction.open:
            past, settings, *answers = await backend.run(*questions, *then)
        else:
            transaction.implicit = transaction.fresh = True
            try:
                _, past, settings, *answers = await backend.run(BEGIN, *questions, *then)
            except BackendLostError:
                raise
            except SluiceError as error:
                if not (then and self._asks) or error.sqlstate in ENDING:
                    raise
                then = ()
                _, _, past, settings, *answers = await backend.run(_ROLLBACK, BEGIN, *questions)
            transaction.isolation = isolation_of(past.rows[0][1])
            if transaction.isolation is not Isolation.READ_COMMITTED:
                if then and not self._asks:  # the savepoint's end would undo the level
                    await backend.run(*TRIAL.undo)
                await transaction.tell_level()
                answers = await backend.run(*then) if then else []
        self.begun = answers[len(answers) - len(then) :]
        if past.rows[0][0] == b"t":
            raise SluiceError(SqlState.READ_ONLY_SQL_TRANSACTION, "cannot change lake tables while sluice.as_of is set")
        return settings

    async def claim(
        self,
        result: WriteResult,
        version: TableVersion,
        strength: Strength,
        met: Mapping[str, npt.NDArray[np.int64]] | None = None,
        sources: pa.Table | None = None,
        *,
        lost: list[Contested] | None = None,
        waiting: Waiting = Waiting.WAIT,
    ) -> bool:
        """Lock the rows that a statement has replaced in a table that it read as `version`, or all rows that it has
        `met`. If keys stay, holders of the old rows' key locks get those of the new rows, as far as `sources`, in
        place of the result's own, pairs them.

        Returns False if another transaction has replaced one since; the result is then discarded and must be computed
        again, while its rows stay locked. Raises 40001 if the isolation level forbids that. With `lost`, they are noted
        there instead, also if they are locked while there is no `waiting`.
        """
        rows = {path: each for path, each in (result.positions if met is None else met).items() if len(each)}
        pairs = result.sources if sources is None else result.in_order(sources)
        try:
            if await hold_rows(self.session, rows, version, strength, waiting):
                if strength is Strength.NO_KEY_UPDATE and pairs is not None:
                    follow_rows(self._transaction, pairs, result.data_files)
                return True
        except BaseException as error:
            await self.discard(result, version.table)
            if lost is None or not is_locked(error, waiting):
                raise
        else:
            await self.discard(result, version.table)
            await check_may_look_again(self.session, version, rows)
        contested = Contested(version, rows, strength)
        if lost is None:
            await hold_present(self.session, contested)
        else:
            lost.append(contested)
        return False

    async def discard(self, result: WriteResult, table: Table) -> None:
        """Remove the files of a result that has not been added."""
        await self.session.gateway.engine.discard(result, table.path)

    async def wrote(
        self,
        result: WriteResult,
        version: TableVersion,
        assigned: Collection[int] | None = None,
        *,
        sources: pa.Table | None = None,
        mixed: bool = False,
        by_key: pa.Table | None = None,
    ) -> None:
        """Add what a job wrote on top of a version of the table, after checking its constraints.

        `assigned` are the columns that an UPDATE has set. Actions of foreign keys for removed rows are executed;
        `sources` and `mixed` are those of `Replaced`. `by_key` pairs rows by a key, if `sources` does
        not; it decides about the table's own references alone.
        """
        self._note_files(result, version.table)
        if not (result.data_files or result.delete_files):
            return
        session, table, change = self.session, version.table, row_change(result, version)
        pairs = result.sources if sources is None else result.in_order(sources)
        paired = result.in_order(by_key) if pairs is None else pairs
        session.cursors.note(table.oid, replace(result, sources=paired))
        await self._keep(table, change, assigned)
        await note_unchanged(session, version, change.data_files, assigned, paired)
        await self._note_pending(table, change, assigned)
        foreign_keys = await referring(session, table, assigned) if result.positions else []
        if not foreign_keys and not self._follows:
            if change.data_files:
                await keep_references(session, table, change, assigned, self._late(table.foreign_keys))
            self.add(change)
            return
        await self._transaction.stage(*self._changes, change)
        self._changes.clear()
        replaced = Replaced(version, change, result.positions, pairs, assigned is not None, mixed)
        parts = replaced.parts()
        self._events += [partial(self._follow, part, each) for part in parts for each in foreign_keys]
        if change.data_files:
            self._events.append(partial(self._look_up, table, change, assigned))
        if not self._follows:
            await self._follow_all()

    async def _keep(self, table: Table, change: RowChange, assigned: Collection[int] | None) -> None:
        deferred = deferred_now((*table.keys, *table.exclusions), self._modes)
        await keep_keys(self.session, table, change, assigned, deferred)
        if table.exclusions:
            await keep_exclusions(self.session, table, change, assigned, deferred)

    async def wrote_together(
        self, written: Sequence[Written], acted: Mapping[int, Collection[str]], *, checked: bool
    ) -> None:
        """Add results on top of versions of several tables, whose writer has executed foreign key actions itself: the
        keys are checked once all is staged. `acted` has for tables, by OID, the paths of the files that it did so over.
        40001 if it has not seen rows that reference removed keys. `checked`: it has checked references itself, too.
        """
        session = self.session
        removed = {each.version.table.oid for each in written if each.result.positions or each.truncates}
        followed = bool(removed) or any(each.version.table.foreign_keys for each in written)
        for each in written:
            self._note_files(each.result, each.version.table)
        for each in written:
            result, version = each.result, each.version
            session.cursors.note(version.table.oid, replace(result, sources=each.followed))
            change = replace(row_change(result, version), truncate=each.truncates)
            await self._keep(version.table, change, None)
            await note_unchanged(session, version, change.data_files, None, each.sources)
            if checked and result.positions:
                paired = each.sources is not None  # then rows without a pair are new, and their references checked
                await note_checked(session, version, change.data_files, result.positions, removed if paired else ())
            await self._note_pending(version.table, change, None)
            self.add(change)
        if not followed:
            return
        await self._transaction.stage(*self._changes)
        self._changes.clear()
        for each in written:
            table, change = each.version.table, row_change(each.result, each.version)
            if each.result.positions:
                positions, sources = each.result.positions, each.sources
                replaced = Replaced(each.version, change, positions, sources, each.updates, mixed=True, judged=True)
                foreign_keys = await referring(session, table, None)
                parts = replaced.parts()
                self._events += [
                    partial(self._follow, part, key, acted.get(key.child)) for part in parts for key in foreign_keys
                ]
            if change.data_files:
                self._events.append(partial(self._look_up, table, change, None))
        await self._follow_all()

    def _note_files(self, result: WriteResult, table: Table) -> None:
        """The transaction removes them at its end unless they are published."""
        self._transaction.written.update(path.lstrip("/") for path in result.paths(table.path))

    async def _follow_all(self) -> None:
        """Like PostgreSQL's queue of triggers: the consequences of an action follow all waiting ones."""
        self._follows = True
        try:
            while self._events:
                await self._events.popleft()()
        finally:
            self._follows = False

    async def _follow(self, replaced: Replaced, foreign_key: ForeignKey, acted: Collection[str] | None = None) -> None:
        late = foreign_key.oid in self._late([foreign_key])
        restricting = self._transaction.parts is None
        if foreign_key.oid in deferred_now([foreign_key], self._modes):
            await note_pending(self.session, [(foreign_key.oid, replaced.version.table.oid)])
        wanted = await consequence(self.session, replaced, foreign_key, acted, late=late, restricting=restricting)
        if wanted is not None:
            await carry_out(self, wanted)

    async def _note_pending(self, table: Table, change: RowChange, assigned: Collection[int] | None) -> None:
        """Record deferred references of new rows, for a check at COMMIT."""
        if not change.data_files:
            return
        keys = checked_of(self.session, table.foreign_keys, change, assigned)
        await note_pending(self.session, [(oid, table.oid) for oid in deferred_now(keys, self._modes)])

    async def _look_up(self, table: Table, change: RowChange, assigned: Collection[int] | None) -> None:
        await keep_references(self.session, table, change, assigned, self._late(table.foreign_keys), staged=True)

    def _late(self, foreign_keys: Sequence[ForeignKey]) -> Collection[int]:
        """The foreign keys that are checked later: at COMMIT, or after all parts have run."""
        deferred, parts = deferred_now(foreign_keys, self._modes), self._transaction.parts
        if parts is None:
            return deferred
        every = frozenset(each.oid for each in foreign_keys)
        parts.late.update(every - deferred)
        return every

    def add(self, change: RowChange) -> None:
        """Add a change without files of its own."""
        self._changes.append(change)

    async def finish(self, tag: str | None = None) -> None:
        """Stage everything; a gateway's transaction that ends with this statement is committed. `tag` is that of a
        statement whose answer lacks nothing else.
        """
        check(self.session)
        if self._transaction.implicit and self.session.ends_with_statement:
            await commit_with(self.session, tag, *self._changes)
            return
        await self._transaction.stage(*self._changes)
        await self.restore_timeout()

    async def restore_timeout(self) -> None:
        """Have PostgreSQL limit the client's idle transaction again."""
        if self._idle_timeout != "0":
            await self.session.backend.run(Statement(_RESTORE, (self._idle_timeout,)))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transaction.own.told = {}
        # In any other block, the session makes the transaction fail, and its end removes the files.
        if error is None or isinstance(error, BackendLostError):
            return
        self._transaction.with_stage.clear()
        if self._transaction.implicit and self.session.ends_with_statement:
            await self._transaction.roll_back()
        elif isinstance(error, SchemaChangedError) and self._transaction.open:
            await self.restore_timeout()


async def commit_with(session: SessionContext, tag: str | None, *changes: RowChange) -> None:
    """Stage `changes`, and commit the gateway's transaction of one statement.

    In the extended protocol PostgreSQL commits at Sync: an error of COMMIT follows the statement's `tag`.
    """
    try:
        await session.transaction.commit(*changes)
    except (BackendLostError, SchemaChangedError):
        raise
    except SluiceError:
        if tag is not None and not session.simple:
            session.client.send(CommandComplete(tag))
        raise


def row_change(result: WriteResult, version: TableVersion) -> RowChange:
    """The change to stage for a write."""
    files = {file.path: file for file in version.files}
    deleted = [Deletion(path, files[path].data_file_id, file) for path, file in result.delete_files.items()]
    return RowChange(version.table.oid, result.data_files, deleted)
