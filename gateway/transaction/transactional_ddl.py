"""Schema changes in an open transaction block, without making other sessions wait.

PostgreSQL holds the lock of an altered table until the transaction ends, and all other users of the table wait. So in a
block, a change is *deferred*. It is executed in a savepoint, the *window*, which is then undone and so releases the
lock. The block's next statement opens another window, which executes the deferred changes again. So the statement sees
the transaction's own tables, while other sessions use the committed ones. The window is closed while Spark works.
COMMIT *settles* everything: it executes the changes once more, for good.

- The end of a window undoes the effects of its statements. Effects that must last until the transaction ends (staged
rows, locks on rows and tables) are repeated afterwards; such statements are marked (`Statement.lasting`). Locks of rows
and keys are taken outside of windows where possible, and so are held without a gap (`stepping_out`).
- A statement that cannot be repeated, or has further effects at the backend, first settles the deferred changes; from
then on the block holds their locks, as a block of PostgreSQL's does.
- The numbers of deferred and settled changes are kept as a setting at the backend, so that savepoints restore them.
- The block's changes of settings are made outside of windows. Deferred changes run under the settings of their first
execution (gateway/transaction/ddl_settings.py).
- Sequences that a change makes exist only in windows; their numbers continue (gateway/transaction/ddl_sequences.py).
- A concurrent schema change of the same table dooms the transaction (gateway/transaction/enlistment.py).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import chain, groupby
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend import catalog_calls
from gateway.backend.arrays import number_array
from gateway.backend.connection import Backend, BackendLostError
from gateway.backend.lock_backoff import patiently_between
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import WINDOW
from gateway.backend.shadow_truncate import past_guard
from gateway.transaction.ddl_change import DeferredChange, Demands, NoDemands
from gateway.transaction.ddl_sequences import OwnedSequence, Owner, SequencesOfChanges
from gateway.transaction.ddl_settings import SettingsOfChanges, under

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from gateway.transaction.enlistment import Enlistment

NAME: Final = "sluice.deferred"
_KEEP: Final = f"SELECT pg_catalog.set_config('{NAME}', $1, true)"
_KEPT: Final = Statement(f"SELECT pg_sluice.backend_setting('{NAME}', true)")
# In a window, what is demanded of rows is what its own statement demands.
_NAMES: Final = """
SELECT pg_catalog.string_agg(oid::pg_catalog.regclass::pg_catalog.text, ', ') FROM pg_catalog.pg_class
WHERE oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.int8[]::pg_catalog.oid[])
"""
_MARK: Final = "SELECT pg_sluice.keep_own_mark($1)"
# In each window, a continued sequence leaves a lock at the backend until the transaction ends.
_WINDOWS_MAX: Final = 500
# Each statement carries out again all changes before it; from then on the block holds the locks of what it has altered.
_REPEATED_MAX: Final = 1000
# Error classes of PostgreSQL if another session has used a name, dropped an object, or referenced it.
_TAKEN: Final = frozenset({"0A", "2B", "3F", "42", "55"})


class DeferredChanges:
    """The deferred changes of one transaction; `clear` when it ends. `enlistment` knows concurrent changes of its
    tables.
    """

    def __init__(self, backend: Backend, enlistment: Enlistment) -> None:
        self._backend = backend
        self._enlistment = enlistment
        self._settings = SettingsOfChanges(backend)
        self._sequences = SequencesOfChanges(backend)
        self._taken_up = self._repeated = 0
        self._made: list[DeferredChange] = []
        self._settled = 0
        self._open = self._needed = False
        # How many savepoints the client has set, including those that have ended.
        self.savepoints = 0

    def clear(self) -> None:
        """The transaction has ended."""
        self._made.clear()
        self._sequences.clear()
        self._settled = self._taken_up = self._repeated = self.savepoints = 0
        self._open = False
        self._backend.repeated = None

    @property
    def pending(self) -> tuple[DeferredChange, ...]:
        """The changes that are deferred and not settled."""
        return tuple(self._made[self._settled :])

    def minds(self, name: str) -> bool:
        """Whether making or reading a table of that name gives another result outside of a window."""
        return any(change.renames or change.names(name) for change in self.pending)

    def names(self, name: str) -> bool:
        """Whether any of them contains, or may contain, a table's name."""
        return any(change.names(name) for change in self.pending)

    @property
    def is_broad(self) -> bool:
        """Whether any may affect tables that it does not name."""
        return any(change.is_broad for change in self.pending)

    def mentions(self, names: Iterable[str]) -> bool:
        """Whether any of these names may mean something else outside of a window."""
        wanted = list(names)
        return any(change.mentions(wanted) for change in self.pending)

    @property
    def recounts(self) -> bool:
        """Whether numbers that sequences give in a window may be lost."""
        return any(change.recounts for change in self.pending)

    @property
    def is_worn_out(self) -> bool:
        """Whether there have been so many windows, with so many changes, that the changes should be settled."""
        return self._taken_up > _WINDOWS_MAX or self._repeated > _REPEATED_MAX

    def makes(self, owners: Iterable[Owner]) -> bool:
        """Whether a deferred change makes any of these sequences."""
        return not {each.owner for change in self.pending for each in change.sequences}.isdisjoint(owners)

    def was_made(self, sequence_oid: int) -> bool:
        """Whether a change has made a sequence with this OID, in a window that is closed."""
        return self._sequences.was_made(sequence_oid)

    async def present_sequence(self, oid: int) -> int:
        """The present OID of a sequence that the statement's analysis has named."""
        return await self._sequences.present(oid)

    async def numbers(self, sequence: OwnedSequence, count: int) -> npt.NDArray[np.int64]:
        """The next numbers of a sequence that a change makes; from the sequence itself, if it exists now."""
        made = enumerate(self._made)
        place, change = next(((n, c) for n, c in made if any(each is sequence for each in c.sequences)), (0, None))
        if change is None or not (self._open or place < self._settled):
            return sequence.take(count)
        await self._sequences.note([(change.settings, [sequence])], go=False)
        numbers = sequence.take(count)
        await self._run(*under(change.settings, [sequence.taking_up()]))
        return numbers

    def last_rewriting(self, relid: int) -> Demands | None:
        """The last change, settled or not, that rewrites the table's files, unless a later one has emptied it."""
        last = next(
            (
                made.demands
                for made in reversed(self._made)
                if made.demands.rewritten == relid or relid in made.demands.empties
            ),
            None,
        )
        return None if last is None or relid in last.empties else last

    def is_emptied(self, relid: int, since: Demands | None = None) -> bool:
        """Whether a change, settled or not, after `since` has removed all rows of the table."""
        place = next((number for number, made in enumerate(self._made, 1) if made.demands is since), 0)
        return any(relid in made.demands.empties for made in self._made[place:])

    async def empty_again(self, relid: int) -> None:
        """In a window: tell PostgreSQL what empties the table, unless that was before a savepoint."""
        for change in reversed(self.pending):
            if relid in change.demands.empties:
                if change.savepoints == self.savepoints:
                    [names] = await self._backend.run(Statement(_NAMES, (number_array(change.demands.empties),)))
                    truncate = Statement(f"TRUNCATE {(names.rows[0][0] or b'').decode()} CASCADE")
                    await self._run(*await past_guard(self._backend, truncate))
                return

    @property
    def is_open(self) -> bool:
        """Whether a window is open."""
        return self._open

    async def open(self) -> None:
        """Open a window, unless one is open: until `close` the backend sees the deferred changes."""
        if not self._open:
            await self._begin(*self._replay())

    async def _begin(self, *statements: Statement) -> None:
        self._backend.repeated, self._open, self._needed = [], True, False
        if statements:
            await self._run(*statements, first=(WINDOW.begin,))
        else:
            await self._backend.run(WINDOW.begin)
        self._backend.savepoints.clear()

    async def _run(self, *statements: Statement, first: Sequence[Statement] = ()) -> None:
        """Execute the deferred changes. An error that did not occur at first execution was caused by a concurrent
        session: 40001.
        """
        try:
            await patiently_between(self._backend, lambda: self._backend.run(*statements), first)
        except BackendLostError:
            raise
        except SluiceError as error:
            cause = await self._enlistment.cause(error)
            if cause is error and error.sqlstate[:2] in _TAKEN and error.sqlstate != SqlState.LOCK_NOT_AVAILABLE:
                raise SluiceError(
                    SqlState.SERIALIZATION_FAILURE,
                    "could not serialize access: a schema has changed meanwhile",
                    detail=f"A change of the transaction cannot be made any more: {error.message}",
                    hint="The transaction might succeed if retried.",
                ) from error
            raise cause from error

    async def see(self) -> None:
        """`open`, if anything is deferred, for a statement that names tables."""
        if self.pending and self._backend.status == b"T":
            await self.open()

    def _replay(self) -> list[Statement]:
        pending = self.pending
        if not pending:
            return []
        self._taken_up += any(each.is_called for change in pending for each in change.sequences)
        self._repeated += len(pending)
        each = [statement for change in pending for statement in self._carried_out(change, in_window=True)]
        return [*each, catalog_calls.vouch_all(), self._marked(pending[-1])]

    @staticmethod
    def _marked(change: DeferredChange) -> Statement:
        return Statement(_MARK, (str(change.own),))

    def _carried_out(self, change: DeferredChange, *, in_window: bool) -> list[Statement]:
        rewritten = change.demands.rewritten is not None
        vouch = catalog_calls.vouch_columns if rewritten else catalog_calls.vouch_for_no_rows
        vouched = [vouch(table.oid) for table in change.tables]
        taken_up = [each.taking_up() for each in change.sequences if each.is_called]
        statements = change.in_windows if in_window and change.in_windows is not None else change.statements
        return under(change.settings, [*statements, *vouched, *taken_up])

    async def close(self) -> None:
        """Close the window: undo its work, and repeat what must last."""
        if not self._open:
            return
        counting = [(change.settings, change.sequences) for change in self.pending if change.sequences]
        if counting and self._backend.status == b"T":
            await self._sequences.note(counting, go=True)
        lasting, self._backend.repeated = self._backend.repeated or [], None
        self._open = False
        await self._backend.run(*WINDOW.undo, *lasting, *self._keep())

    def _keep(self) -> list[Statement]:
        return [Statement(_KEEP, (f"{len(self._made)} {self._settled}",))]

    async def abandon(self) -> bool:
        """After an error: undo the window to release its locks. Returns whether one was open; the transaction, which
        must fail, then works again.
        """
        if not self._open:
            return False
        self._open, self._backend.repeated = False, None
        if self._backend.status != b"I":
            await self._backend.run(*WINDOW.undo)
        return True

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        """Inside, no window is open, for long work that does not use the backend."""
        if not self._open:
            yield
            return
        await self.close()
        try:
            yield
        finally:
            if self._backend.status == b"T":
                await self.open()

    def need_window(self) -> None:
        """A statement needs the window to stay, because of objects that it has made there."""
        self._needed = True

    @asynccontextmanager
    async def stepping_out(self) -> AsyncIterator[None]:
        """Inside, no window is open, for a lock that lasts and may have to be waited for. So no session waits behind
        this one, and the window's end does not release the lock. The window stays if a statement still needs it.
        """
        if self._needed or self._backend.savepoints:
            yield
            return
        async with self.suspended():
            yield

    async def note_settings(self, *names: Iterable[str]) -> None:
        """Before a statement that changes settings of these names."""
        await self._settings.note(frozenset(chain(*names)), [change.settings for change in self.pending])

    async def present_settings(self) -> dict[str, str | None]:
        """The settings under which a new change is made."""
        return await self._settings.present()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Inside, a window is open, if anything is deferred. After an error it stays open; the caller that reports the
        error closes it.
        """
        was_open = self._open
        await self.see()
        yield
        if not was_open:
            await self.close()

    def defer(self, change: DeferredChange) -> None:
        """Add a change that has just run in the window."""
        self._made.append(change)
        self._tell()

    @property
    def sets_modes(self) -> bool:
        """Whether SET CONSTRAINTS is deferred."""
        return any(change.sets_modes for change in self.pending)

    @property
    def renames_constraints(self) -> bool:
        """Whether deferred changes may rename constraints."""
        texts = (statement.sql.lower().split() for change in self.pending for statement in change.statements)
        return any("rename" in words and "constraint" in words for words in texts)

    async def defer_modes(self, *statements: Statement) -> None:
        """Execute SET CONSTRAINTS beside the deferred changes or in a window, which is then closed; each later window
        repeats it.
        """
        self.defer(
            DeferredChange(
                statements=statements,
                tables=(),
                own=self.pending[-1].own,
                renames=False,
                demands=NoDemands(),
                settings=await self.present_settings(),
                sets_modes=True,
            )
        )
        await self.close()

    async def settle(self) -> None:
        """Execute the deferred changes for good: from now on other sessions may have to wait for this transaction."""
        if not self.pending:
            return
        pending = self.pending
        await self.close()
        for change in pending:
            await change.demands.prepare()
        if not all(change.demands.are_none for change in pending):
            await self._look_again()
        locking = [statement for change in pending for statement in change.demands.locking]
        if locking:
            await self._run(*locking)
        self._settled = len(self._made)
        for last, statements in self._together(pending, in_window=False):
            await self._run(*statements, self._marked(last), *self._keep())
            await last.demands.meet()

    async def _look_again(self) -> None:
        await self._begin()
        noted: set[tuple[int, int]] = set()
        for last, statements in self._together(self.pending, in_window=True):
            await self._run(*statements)
            await last.demands.note(noted)
        for change in self.pending:
            await change.demands.merge()
        for change in self.pending:
            await change.demands.look_again()
        await self.close()

    def _together(
        self, changes: Iterable[DeferredChange], *, in_window: bool
    ) -> Iterator[tuple[DeferredChange, list[Statement]]]:
        """The statements of these changes, and the last change whose they are: neighbours without demands go together,
        in one message.
        """
        for are_none, each in groupby(changes, key=lambda change: change.demands.are_none):
            neighbours = list(each)
            for group in [neighbours] if are_none else [[change] for change in neighbours]:
                carried_out = (self._carried_out(change, in_window=in_window) for change in group)
                yield group[-1], list(chain.from_iterable(carried_out))

    async def rolled_back(self) -> None:
        """After a return to a savepoint: forget changes that were deferred or settled after it."""
        if not self._made:
            return
        [kept] = await self._backend.run(_KEPT)
        count, settled = (int(number) for number in (kept.rows[0][0] or b"0 0").split())
        del self._made[count:]
        self._settled = settled
        for change in self._made:
            change.demands.rolled_back()
        self._tell()

    def _tell(self) -> None:
        self._enlistment.alter(frozenset(table.table_id for change in self._made for table in change.tables))
