"""A session's transaction over the lake: its snapshot, its staged changes, and its COMMIT.

The session's backend is in the same transaction. Changes are *staged* there, so that savepoints undo them, and COMMIT
publishes them (catalog/sql/publish.sql). This module keeps what the backend cannot know: the written files, the
snapshot, and whether the client or the gateway began the transaction.

The backend always runs at READ COMMITTED, because publishing must see what other transactions have published
meanwhile. The client's isolation level applies to the lake.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from catalog.errors import SluiceError, SqlState, unsupported
from catalog.indexes import SIDECAR_ROWS_MIN
from catalog.model import DataFile, DeleteFile, Table
from catalog.postgres.pool import log_fault
from catalog.publish import Deletion, RowChange, delete_file_from_json, deletion_from_json
from gateway.backend import catalog_calls
from gateway.backend.connection import Backend, BackendLostError, Result
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import ENDING
from gateway.node.gateway_context import GatewayContext
from gateway.node.unresolved_commit import remove_unresolved
from gateway.transaction import snapshot_export
from gateway.transaction.enlistment import Enlistment
from gateway.transaction.isolation_level import Isolation, isolation_of, tell_level
from gateway.transaction.late_triggers import LateTriggers
from gateway.transaction.own_changes import OwnChanges
from gateway.transaction.read_only_block import SHOWN, ReadOnlyBlock
from gateway.transaction.statement_versions import Parts
from gateway.transaction.transactional_ddl import DeferredChanges
from gateway.transaction.unchanged_references import UnchangedReferences
from gateway.transaction.validation import Validation
from planner.syntax.statements import Statement as SourceStatement
from planner.syntax.transaction_commands import TransactionCommand, takes_snapshot
from storage.parquet.file_syncs import file_syncs

Effect = Callable[[], Awaitable[None]]
_LOG: Final = logging.getLogger("sluice.transaction")
_LEVEL: Final = Statement("SHOW transaction_isolation")
_DEFAULT_LEVEL: Final = Statement("SHOW default_transaction_isolation")
UNDECIDED: Final = "SLU02"  # of the catalog, in a message that ends with COMMIT: the gateway has to decide first
COMMIT: Final = Statement("COMMIT")
# The level is explicit: the backend publishes at this level only, whatever default_transaction_isolation says.
BEGIN: Final = Statement("BEGIN ISOLATION LEVEL READ COMMITTED")
_READ_COMMITTED: Final = Statement("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")


class Transaction:
    """A session's transaction; one object serves one transaction after another, and `ended` resets it.

    `implicit` is true in a block that the gateway began for statements outside of the client's; the client sees it as
    idle. `fresh` is true while the block has only the statement for which it was begun. `snapshot` is the snapshot of
    a level above READ COMMITTED, from its first read on.
    """

    def __init__(self, gateway: GatewayContext, backend: Backend, hold: Effect, watch: Effect) -> None:
        """`hold` (`Cursors.hold`) is called before each commit, and may raise to prevent it; `watch` (`Cursors.watch`)
        before each savepoint of the client."""
        self._gateway = gateway
        self._backend = backend
        self._hold = hold
        self._watch = watch
        self.implicit = False
        self.fresh = False
        self.isolation = Isolation.READ_COMMITTED
        self.snapshot: int | None = None
        # Files by their path below the data path, used or not.
        self.written: set[str] = set()
        self._newest = False
        # Numbers of own files whose rows inherit locks (gateway/execution/locks/row_locks.py).
        self.following: set[int] = set()
        self.with_stage: list[Statement] = []  # for the round trip of the next staging, before it
        self._staged = False
        # Whether some of the files are large enough for sidecars of indexes.
        self._sizable = False
        self._undecided = 0  # as many of the session's next commits are likely to have something to decide
        self._kept: set[str] | None = None
        self.own = OwnChanges()
        self.hot_rows_max = 0  # as many rows of a statement become hot rows (gateway/session/hot_rows.py)
        self.parts: Parts | None = None  # set while a part of a statement runs
        self.unchanged = UnchangedReferences()
        self._read: set[int] = set()
        self._validations: dict[int, list[Validation]] = {}
        self._stagings: Counter[int] = Counter()
        self._was_open = False
        self._imported: int | None = None  # another transaction's snapshot, which is pinned
        self.enlistment = Enlistment(gateway.store)
        self.deferred = DeferredChanges(backend, self.enlistment)
        self.read_only = ReadOnlyBlock(backend)
        self.late = LateTriggers()

    @property
    def open(self) -> bool:
        """Whether the backend is in a transaction block that has not failed."""
        return self._backend.status == b"T"

    @property
    def untold_level(self) -> str | None:
        """The client's level, if the backend has not been told it."""
        return None if self.isolation is Isolation.READ_COMMITTED or not self.open else self.isolation.value

    async def begin(self, *asked: Statement) -> list[Result]:
        """Begin a block for a statement outside of the client's, unless one is open; return the answers to `asked`."""
        if self.open:
            return await self._backend.run(*asked) if asked else []
        self.implicit, later = True, self.read_only.is_default
        [_, level, *answers] = await self._backend.run(BEGIN, _DEFAULT_LEVEL, *(() if later else asked))
        self.isolation = isolation_of(level.rows[0][0])
        await self.tell_level()
        if later:
            await self.read_only.begun()
        return await self._backend.run(*asked) if later else answers

    async def hold_schemas(self, oids: Iterable[int]) -> None:
        """Begin a gateway's block that holds the schemas of these tables against concurrent changes."""
        await self.begin()
        await self._backend.run(catalog_calls.hold_schema(oids))

    async def before(self, command: TransactionCommand) -> None:
        """Before the backend executes a transaction command."""
        if command is TransactionCommand.SET_SNAPSHOT and self.isolation is not Isolation.READ_COMMITTED:
            raise unsupported(command.value)  # the backend's transaction is not the lake's
        self._was_open = self.open
        if command is TransactionCommand.COMMIT and self._staged:
            await self.read_only.lift()  # writes from before the block became READ ONLY are published
        else:
            if command is TransactionCommand.SAVEPOINT:
                await self._watch()
            await self.read_only.before(command, may_begin=not self.deferred.pending)

    async def _begun(self, command: TransactionCommand) -> None:
        """The client has begun a block or set its level: take the level."""
        if not self.open:
            return
        [level, read_only] = [result.rows[0][0] for result in await self._backend.run(_LEVEL, SHOWN)]
        isolation = isolation_of(level)
        if isolation is not Isolation.READ_COMMITTED:
            self.isolation = isolation
            await self._backend.run(_READ_COMMITTED, *tell_level(isolation))
        elif command is TransactionCommand.SET_ISOLATION and self.isolation is not isolation:
            self.isolation = isolation
            await self._backend.run(*tell_level(None))
        # PostgreSQL sets another level before any query only.
        was_asked = isolation is Isolation.READ_COMMITTED
        await self.read_only.after(command, was_open=self._was_open, was_asked=was_asked, read_only=read_only == b"on")

    async def tell_level(self) -> None:
        """Tell the backend the client's level after it has begun a block."""
        if self.isolation is not Isolation.READ_COMMITTED:
            await self._backend.run(*tell_level(self.isolation))

    @contextmanager
    def reading_newest(self) -> Iterator[None]:
        """Reads inside see the newest committed snapshot, whatever the transaction's snapshot is."""
        before, self._newest = self._newest, True
        try:
            yield
        finally:
            self._newest = before

    @property
    def sees_newest(self) -> bool:
        """Whether a statement sees the newest committed snapshot."""
        return self.isolation is Isolation.READ_COMMITTED or self._newest or not self.open

    async def visible_snapshot(self, tables: tuple[int, ...]) -> int | None:
        """The snapshot of a statement over these tables; None for the newest."""
        if self.sees_newest:
            return None
        if self.snapshot is None:
            self.snapshot = await self._gateway.store.newest_snapshot()
        if self.isolation is Isolation.SERIALIZABLE:
            self._read.update(tables)
        return self.snapshot

    async def unseen(self, oid: int, data_file_id: int) -> bool:
        """Whether the transaction is SERIALIZABLE and has read a table before one of its data files was published."""
        if self.isolation is not Isolation.SERIALIZABLE or self.snapshot is None or oid not in self._read:
            return False
        version = (await self._gateway.store.versions_at([oid], self.snapshot)).get(oid)
        return version is None or all(file.data_file_id != data_file_id for file in version.files)

    async def pin(self, statements: Iterable[SourceStatement]) -> None:
        """Before statements: above READ COMMITTED, the first one that takes a snapshot fixes the transaction's."""
        asked = list(statements)
        if (
            self.isolation is not Isolation.READ_COMMITTED
            and self.snapshot is None
            and self.open
            and any(map(takes_snapshot, asked))
        ):
            self.snapshot = await self._gateway.store.newest_snapshot()
        if self.open and snapshot_export.exports(asked):
            await snapshot_export.note_export(self._gateway.store, self._backend, self.snapshot)

    async def take_snapshot(self, text: str) -> None:
        """Execute the client's SET TRANSACTION SNAPSHOT, in a block above READ COMMITTED."""
        store, named = self._gateway.store, await snapshot_export.identifier(self._backend, text)
        self.snapshot = self._imported = await snapshot_export.taken(store, self.isolation, self.snapshot, named)

    async def stage(self, *changes: RowChange) -> None:
        """Stage changes, for COMMIT to publish; a savepoint or ROLLBACK undoes this."""
        self.fresh = False
        if staged := self._stages(changes):
            answers = await self._backend.run(*staged)
            self.own.staged(changes, (each.rows[0] for each in answers[len(answers) - len(changes) :]))

    def _stages(self, changes: Sequence[RowChange]) -> list[Statement]:
        self._staged = self._staged or bool(changes)
        files = [file for change in changes for file in change.data_files]
        self._sizable = self._sizable or any(file.record_count >= SIDECAR_ROWS_MIN for file in files)
        self.own.staging(changes)
        self._stagings.update(change.relation_oid for change in changes)
        before, self.with_stage = self.with_stage, []
        return [*before, *(catalog_calls.stage(change.to_json()) for change in changes)]

    def stagings(self, oid: int) -> int:
        """How often the transaction has staged changes of a table so far."""
        return self._stagings[oid]

    async def prepare_commit(self, *changes: RowChange) -> None:
        """Stage `changes`, and make everything ready for COMMIT to publish.

        No other transaction publishes to these tables until then.
        """
        await self._hold()
        await self.deferred.settle()
        changes = await self.late.fire_all(self.stage, changes)
        if not (self.written or self._staged or self._validations or changes):
            await self.enlistment.decide_reading()
            return
        for each in [each for found in self._validations.values() for each in found]:
            if each.before is not None:
                await self.stage(*changes)
                changes = ()
                await each.before()
        await file_syncs.done(self.written)
        staged = self._stages(changes)
        holding = self.enlistment.holding(self._validations)
        reads = {str(oid): self.snapshot for oid in self._read}
        preparing = [catalog_calls.prepare_commit(reads)]
        if self._validations and reads:  # what is broken is told before what is not serializable
            *_, looked = await self._lock(staged, holding, [catalog_calls.lock_checked(self._looked())])
            await self._validate(looked)
            staged, holding = [], []
        elif self._validations:
            preparing.insert(0, catalog_calls.lock_checked(self._looked()))
        try:
            *looks, result = await self._lock(staged, holding, preparing)
        except SluiceError as error:
            if error.sqlstate == SqlState.SERIALIZATION_FAILURE:
                await self.enlistment.decide_reading()  # a schema change is the better reason
            raise
        for look in looks:
            await self._validate(look)
        prepared = json.loads(result.rows[0][0] or b"{}")
        kept = set(prepared["kept"])
        for stale in prepared["stale"]:
            own, both = await self._merge_stale(stale)
            kept = kept - own | both
        self._kept = kept

    def validate(self, oid: int, validation: Validation) -> None:
        """Validate the keys of a table again at COMMIT, if it has changed since.

        A validation of the whole table covers later ones: a thousand INSERTs are validated once.
        """
        known = self._validations.setdefault(oid, [])
        if not validation.whole or all(
            not each.whole or each.constraint != validation.constraint or each.snapshot > validation.snapshot
            for each in known
        ):
            known.append(validation)

    async def validate_now(self, constraints: Collection[int] | None, names: Collection[str] = ()) -> None:
        """Run deferred checks now for these constraints, by OIDs, present or under these names, or all (None)."""
        every = constraints is None or (bool(names) and self.deferred.renames_constraints)
        for found in list(self._validations.values()):
            for each in found:
                if each.snapshot < 0 and (every or each.constraint in (constraints or ()) or each.name in names):
                    await (each.before or each.again)()

    async def check_deferred(self, oid: int, constraint: int) -> None:
        """Run the deferred checks of this constraint that may wait for nobody, for rows of this table."""
        for each in list(self._validations.get(oid, ())):
            if each.constraint == constraint and each.snapshot < 0 and each.before is None:
                await each.again()

    async def _lock(
        self, staged: Sequence[Statement], holding: Sequence[Statement], more: Sequence[Statement]
    ) -> list[Result]:
        """Stage, and first lock what `holding` locks, so that all locks are taken in one order; then run `more` and
        return its answers.
        """
        answers = (await self._backend.run(*staged, *holding, *more))[len(staged) :]
        if holding:
            self.enlistment.decide(answers[0].rows[0][0])
        return answers[len(holding) :]

    def _looked(self) -> dict[str, int]:
        """The validated tables, by OID, with the first snapshots at which keys were looked up."""
        return {str(oid): min(each.snapshot for each in found) for oid, found in self._validations.items()}

    async def _validate(self, looked: Result) -> None:
        """Validate again what has changed."""
        self.fresh = False
        for oid in json.loads(looked.rows[0][0] or b""):
            for validation in self._validations[oid]:
                await validation.again()

    async def _merge_stale(self, stale: dict[str, Any]) -> tuple[set[str], set[str]]:
        """Merge the delete files of this transaction and of others for one data file.

        Returns the new files of the transaction's own, which are not published, and of the merged one, which are.
        """
        oid = stale["relid"]
        deletion, live = deletion_from_json(stale["own"]), stale["live"]
        version = (await self._gateway.store.versions([oid])).get(oid)
        files = () if version is None else version.files
        file = next((each for each in files if each.data_file_id == deletion.data_file_id), None)
        if version is None or file is None:
            raise SluiceError(SqlState.SERIALIZATION_FAILURE, "could not serialize access due to concurrent delete")
        other = None if live["delete_file_id"] is None else delete_file_from_json(live)
        staged = await self.merge(version.table, [(file, deletion.file, other)])
        own, both = (each.file.new_paths for each in (deletion, staged.deleted[0]))
        return {version.table.path + path for path in own}, {version.table.path + path for path in both}

    async def merge(self, table: Table, stale: Iterable[tuple[DataFile, DeleteFile, DeleteFile | None]]) -> RowChange:
        """Stage one delete file for each data file, in place of the transaction's own and the published one.

        Row locks keep the two sets of rows disjoint; 40001 if they are not.
        """
        deleted = []
        for file, staged, live in stale:
            common = 0 if staged.replaces is None else await self._gateway.store.delete_count(staged.replaces)
            merged = await self._gateway.engine.merge_deletes(table, file, staged, live, common)
            self.written.update(table.path + path for path in merged.new_paths)
            deleted.append(Deletion(file.path, file.data_file_id, merged))
        change = RowChange(table.oid, deleted=deleted)
        await self.stage(change)
        return change

    async def commit(self, *changes: RowChange) -> None:
        """Stage `changes` and commit a block of the gateway.

        After return, the change is visible to all sessions; after an error, it never will be.
        """
        assert self.implicit
        try:
            if (left := await self._commit_at_once(changes)) is not None:
                await self.prepare_commit(*left)
                await self._backend.run(COMMIT)
        except BackendLostError:
            raise
        except SluiceError:
            await self.roll_back()
            raise
        await self.ended(committed=True)

    async def _commit_at_once(self, changes: Sequence[RowChange]) -> Sequence[RowChange] | None:
        """Stage and commit in one round trip; what is left to stage where something must be decided before COMMIT."""
        early = any(each.before is not None for found in self._validations.values() for each in found)
        special = early or self._read or self.deferred.pending or self.late.tables or self.enlistment.doom is not None
        if special or self._undecided or not (self._staged or changes):
            self._undecided -= self._undecided > 0
            return changes
        await self._hold()
        await file_syncs.done(self.written)
        staged = self._stages(changes)
        ready = catalog_calls.ready_to_commit(self.enlistment.versions, self._looked())
        try:
            *_, kept, _ = await self._backend.run(*staged, ENDING.begin, ready, COMMIT)
        except SluiceError as error:
            if self._backend.status == b"E" and error.sqlstate == SqlState.SERIALIZATION_FAILURE:
                await self.enlistment.decide_reading()  # a schema change is the better reason
            if self._backend.status != b"E" or error.sqlstate != UNDECIDED:
                raise
            await self._backend.run(*ENDING.undo)
            self._undecided = 16
            return ()
        self._kept = set(json.loads(kept.rows[0][0] or b"[]"))
        return None

    async def roll_back(self) -> None:
        """Roll back a block of the gateway."""
        if self._backend.status != b"I":
            await self._backend.run(Statement("ROLLBACK"))
        await self.ended()

    async def prepare_client_commit(self) -> None:
        """`prepare_commit` for a client's COMMIT; an error rolls the transaction back."""
        try:
            await self.prepare_commit()
        except BackendLostError:
            raise
        except SluiceError:
            await self.roll_back()
            raise

    async def after(self, command: TransactionCommand, *, good: bool) -> None:
        """After the backend has executed or refused a transaction command."""
        match command:
            case (
                TransactionCommand.BEGIN
                | TransactionCommand.SET_TRANSACTION
                | TransactionCommand.SET_ISOLATION
                | TransactionCommand.SET_READ_ONLY
                | TransactionCommand.SET_READ_WRITE
            ) if good:
                if command is TransactionCommand.BEGIN:
                    self.implicit = False
                await self._begun(command)
            case TransactionCommand.ROLLBACK_TO_SAVEPOINT if good:
                await self.regained()
            case TransactionCommand.RELEASE_SAVEPOINT if good:
                await self.read_only.regained()
            case TransactionCommand.SAVEPOINT if good:
                self.deferred.savepoints += 1
                await self.read_only.restore()
            case TransactionCommand.COMMIT | TransactionCommand.ROLLBACK:
                level, read_only = self.isolation, self.read_only.stands
                await self.ended(committed=good and command is TransactionCommand.COMMIT)
                if self.open:  # AND CHAIN
                    self.isolation = level
                    await self.tell_level()
                    if read_only:
                        await self.read_only.begun()
            case _ if self._backend.status == b"I":
                self.read_only.clear()
            case _:
                pass

    async def regained(self) -> None:
        """After ROLLBACK TO SAVEPOINT, or the end of a failed transaction."""
        if self.open:
            await self.deferred.rolled_back()
            await self.read_only.regained()
        elif self._backend.status == b"I":
            await self.ended()

    async def abandon(self) -> None:
        """The client or the catalog is lost: undo the open transaction, as far as the backend still answers."""
        imported, self._imported = self._imported, None
        await snapshot_export.released(self._gateway.store, imported)
        if not self.written:
            return
        try:
            await self.roll_back()
        except BackendLostError:
            written, self.written = self.written, set()
            self._gateway.later(remove_unresolved(self._gateway, written, self._backend.identity))
        except SluiceError as fault:
            log_fault(_LOG, "files of an abandoned transaction are left until the gateway's end", fault)

    async def ended(self, *, committed: bool = False) -> None:
        """After the end of the backend's transaction: remove files that were not published.

        If it is unknown whether a prepared transaction has committed, the catalog tells what was published.
        """
        imported, self._imported = self._imported, None
        await snapshot_export.released(self._gateway.store, imported)
        written, self.written = self.written, set()
        kept, self._kept = self._kept, None
        self._backend.savepoints.clear()
        if committed and self._sizable:
            self._gateway.indexing.wake()
        self._gateway.new_files += self.own.weight if committed else 0
        self.own.clear()
        self.implicit = self.fresh = self._staged = self._sizable = False
        self.isolation = Isolation.READ_COMMITTED
        self.snapshot = self.parts = None
        self._read.clear()
        self.late.tables.clear()
        self.following.clear()
        self.unchanged.clear()
        self.with_stage.clear()
        self._validations.clear()
        self._stagings.clear()
        self.enlistment.clear()
        self.deferred.clear()
        self.read_only.clear()
        if not written:
            return
        if not committed or kept is None:
            kept = await self._gateway.store.published(written)
        self._gateway.new_files += len(kept)
        await self._gateway.engine.remove(written - kept)

    def refuse_strict_write(self, level: str) -> None:
        """Refuse a level that the client has set past the gateway: the backend must be at READ COMMITTED to publish."""
        if level not in (Isolation.READ_COMMITTED, "read uncommitted"):
            raise unsupported("setting transaction_isolation other than by BEGIN or SET TRANSACTION")
