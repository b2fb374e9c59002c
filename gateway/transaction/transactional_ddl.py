"""Changes of schemas in an open transaction block, for which no other session has to wait.

PostgreSQL holds the lock of a table that a transaction has altered until it ends, and everybody else waits. So, in a
block, a change is *deferred*: it is carried out in a savepoint, a *window*, and undone with it, which gives the lock
back. The next statement of the block opens another window, in which what was deferred is carried out again: so it sees
what the transaction has made of its tables, and others go on with what is committed. While Spark works the window is
closed. When the transaction commits, everything is *settled*: carried out once more, for good.

- What a statement does in a window is undone with it. What has to last until the transaction ends (rows staged, locks
  on rows and tables) is repeated when the window is closed: such statements say so (`Statement.lasting`). Locks of rows
  and keys are taken outside of it where that can be, and so have no gap (`stepping_out`).
- What cannot be carried out twice, or leaves at the backend more than that, settles first what was deferred; from then
  on the block holds its locks as a block of PostgreSQL's does.
- How much is deferred, and settled, is kept as a setting of the backend's, for then savepoints take it back.
- Settings that the block changes meanwhile are changed outside of any window; what was deferred before is carried out
  under those that it was made under (gateway/transaction/ddl_settings.py).
- Sequences that it makes come and go with the windows; their numbers go on (gateway/transaction/ddl_sequences.py).
- Somebody else's change of the same table dooms the transaction (gateway/transaction/enlistment.py).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import chain
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend import catalog_calls
from gateway.backend.arrays import number_array
from gateway.backend.connection import Backend, BackendLostError, Statement
from gateway.backend.lock_backoff import patiently
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
_TEMPORARY: Final = Statement(
    "SELECT relname, relkind FROM pg_catalog.pg_class"
    " WHERE relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() ORDER BY 1, 2"
)
_MARK: Final = "SELECT pg_sluice.keep_own_mark($1)"
# Each window in which a sequence goes on from where it was leaves a lock at the backend until the transaction ends.
_WINDOWS_MAX: Final = 500
# Classes of what PostgreSQL says where somebody else has taken a name, or something that was there, or refers to it.
_TAKEN: Final = frozenset({"0A", "2B", "3F", "42", "55"})


class DeferredChanges:
    """One transaction's; `clear` when it ends. `enlistment` knows what others do to its tables."""

    def __init__(self, backend: Backend, enlistment: Enlistment) -> None:
        self._backend = backend
        self._enlistment = enlistment
        self._settings = SettingsOfChanges(backend)
        self._sequences = SequencesOfChanges(backend)
        self._taken_up = 0
        self._made: list[DeferredChange] = []
        self._settled = 0
        self._open = self._needed = False
        # How many savepoints the client has set, whatever has become of them.
        self.savepoints = 0

    def clear(self) -> None:
        """The transaction is over."""
        self._made.clear()
        self._sequences.clear()
        self._settled = self._taken_up = self.savepoints = 0
        self._open = False
        self._backend.repeated = None

    @property
    def pending(self) -> tuple[DeferredChange, ...]:
        """What is deferred and not settled."""
        return tuple(self._made[self._settled :])

    def minds(self, name: str) -> bool:
        """Whether it makes a difference that a table of that name is made, or looked at, outside of a window."""
        return any(change.renames or change.names(name) for change in self.pending)

    def names(self, name: str) -> bool:
        """Whether a table's name stands in any of them, or may."""
        return any(change.names(name) for change in self.pending)

    @property
    def is_broad(self) -> bool:
        """Whether any may be about tables whose names it does not say."""
        return any(change.is_broad for change in self.pending)

    def mentions(self, names: Iterable[str]) -> bool:
        """Whether any of these may mean something else outside of a window."""
        wanted = list(names)
        return any(change.mentions(wanted) for change in self.pending)

    @property
    def recounts(self) -> bool:
        """Whether numbers that sequences give in a window may be lost."""
        return any(change.recounts for change in self.pending)

    @property
    def changes_sequences(self) -> bool:
        """Whether sequences are made, or give other numbers, by what is deferred."""
        return any(change.recounts or change.sequences for change in self.pending)

    @property
    def is_worn_out(self) -> bool:
        """Whether there have been so many windows that there had better be no more."""
        return self._taken_up > _WINDOWS_MAX

    def makes(self, owners: Iterable[Owner]) -> bool:
        """Whether a change that is deferred makes any of these sequences."""
        return not {each.owner for change in self.pending for each in change.sequences}.isdisjoint(owners)

    def was_made(self, sequence_oid: int) -> bool:
        """Whether a change has made a sequence of this OID, in a window that is closed."""
        return self._sequences.was_made(sequence_oid)

    async def present_sequence(self, oid: int) -> int:
        """The OID by now of the sequence that a statement was analysed with."""
        return await self._sequences.present(oid)

    async def numbers(self, sequence: OwnedSequence, count: int) -> npt.NDArray[np.int64]:
        """The next of a sequence that a change makes: of it itself, where there is one now."""
        made = enumerate(self._made)
        place, change = next(((n, c) for n, c in made if any(each is sequence for each in c.sequences)), (0, None))
        if change is None or not (self._open or place < self._settled):
            return sequence.take(count)
        await self._sequences.note([(change.settings, [sequence])], go=False)
        numbers = sequence.take(count)
        await self._run(*under(change.settings, [sequence.taking_up()]))
        return numbers

    def last_rewriting(self, relid: int) -> Demands | None:
        """The last change, settled or not, that has the table's files written anew, unless it was emptied since."""
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
        """Whether a change, settled or not, has taken all rows of the table away: one after that which demands this."""
        place = next((number for number, made in enumerate(self._made, 1) if made.demands is since), 0)
        return any(relid in made.demands.empties for made in self._made[place:])

    async def empty_again(self, relid: int) -> None:
        """In a window: PostgreSQL is to know what empties the table, if that was not before a savepoint."""
        for change in reversed(self.pending):
            if relid in change.demands.empties:
                if change.savepoints == self.savepoints:
                    [names] = await self._backend.run(Statement(_NAMES, (number_array(change.demands.empties),)))
                    truncate = Statement(f"TRUNCATE {(names.rows[0][0] or b'').decode()} CASCADE")
                    await self._run(*await past_guard(self._backend, truncate))
                return

    @property
    def is_open(self) -> bool:
        """Whether there is a window."""
        return self._open

    async def open(self) -> None:
        """Open a window, unless there is one: the backend sees what was deferred, until `close`."""
        if not self._open:
            await self._begin(*self._replay())

    async def _begin(self, *statements: Statement) -> None:
        self._backend.repeated, self._open, self._needed = [], True, False
        await self._backend.run(WINDOW.begin)
        self._backend.savepoints.clear()
        if statements:
            await self._run(*statements)

    async def _run(self, *statements: Statement) -> None:
        """What fails now and did not before is owed to others."""
        try:
            await patiently(self._backend, lambda: self._backend.run(*statements))
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
        """`open`, where anything is deferred: for a statement that names tables."""
        if self.pending and self._backend.status == b"T":
            await self.open()

    def _replay(self) -> list[Statement]:
        pending = self.pending
        if not pending:
            return []
        self._taken_up += any(each.is_called for change in pending for each in change.sequences)
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
        """Undo what was done in the window, but for what has to last."""
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
        """After an error: undo the window, for the sake of its locks. Whether there was one: then the transaction,
        which is to fail, works again."""
        if not self._open:
            return False
        self._open, self._backend.repeated = False, None
        if self._backend.status != b"I":
            await self._backend.run(*WINDOW.undo)
        return True

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        """While it lasts there is no window: for what takes long and does not use the backend."""
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
        """A statement has made something in the window that it goes on with."""
        self._needed = True

    @asynccontextmanager
    async def stepping_out(self) -> AsyncIterator[None]:
        """For a lock that lasts, and may have to be waited for: while it lasts there is no window, so that nobody waits
        for who waits, and the lock is not given back with it. Unless a statement still needs what is in the window."""
        if self._needed or self._backend.savepoints:
            yield
            return
        async with self.suspended():
            yield

    async def note_settings(self, *names: Iterable[str]) -> None:
        """A statement that changes settings of these names comes next."""
        await self._settings.note(frozenset(chain(*names)), [change.settings for change in self.pending])

    async def note_all_settings(self) -> bool:
        """RESET ALL comes next; False where nobody knows what that means for what is deferred."""
        if any(change.calls_users for change in self.pending):
            return False
        texts = [statement.sql for change in self.pending for statement in change.statements]
        await self._settings.note_all([change.settings for change in self.pending], texts)
        return True

    def forget_numbers(self) -> None:
        """DISCARD SEQUENCES comes next."""
        for change in self.pending:
            for each in change.sequences:
                each.is_known = False

    async def is_without_temporary(self) -> bool:
        """Outside of a window: whether what is deferred makes and takes away nothing that is temporary."""
        [outside] = await self._backend.run(_TEMPORARY)
        await self.open()
        [within] = await self._backend.run(_TEMPORARY)
        await self.close()
        return outside.rows == within.rows

    async def present_settings(self) -> dict[str, str | None]:
        """What a change is made under now."""
        return await self._settings.present()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """While it lasts there is a window, where anything is deferred. After an error it is left open, for whoever
        tells the client to give up."""
        was_open = self._open
        await self.see()
        yield
        if not was_open:
            await self.close()

    def defer(self, change: DeferredChange) -> None:
        """It has just been carried out in the window."""
        self._made.append(change)
        self._tell()

    @property
    def sets_modes(self) -> bool:
        """Whether SET CONSTRAINTS is among what is deferred."""
        return any(change.sets_modes for change in self.pending)

    @property
    def renames_constraints(self) -> bool:
        """Whether constraints may have other names than they had."""
        texts = (statement.sql.lower().split() for change in self.pending for statement in change.statements)
        return any("rename" in words and "constraint" in words for words in texts)

    async def defer_modes(self, *statements: Statement) -> None:
        """What these set is set beside what is deferred, or in a window, which is closed; each window is to have it."""
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
        """Carry out for good what was deferred: from here on others may have to wait for this transaction."""
        if not self.pending:
            return
        pending = self.pending
        await self.close()
        for change in pending:
            await change.demands.prepare()
        await self._look_again()
        locking = [statement for change in pending for statement in change.demands.locking]
        if locking:
            await self._run(*locking)
        self._settled = len(self._made)
        for change in pending:
            await self._run(*self._carried_out(change, in_window=False), self._marked(change), *self._keep())
            await change.demands.meet()

    async def _look_again(self) -> None:
        await self._begin()
        noted: set[tuple[int, int]] = set()
        for change in self.pending:
            await self._run(*self._carried_out(change, in_window=True))
            await change.demands.note(noted)
        for change in self.pending:
            await change.demands.merge()
        for change in self.pending:
            await change.demands.look_again()
        await self.close()

    async def rolled_back(self) -> None:
        """The transaction went back to a savepoint: what was deferred, or settled, after that is not so any more."""
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
