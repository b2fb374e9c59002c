"""The demands of a deferred change of a table's schema on existing rows (gateway/transaction/transactional_ddl.py).

Rows are checked once when the statement is executed, without locks. Before COMMIT they are checked again, if the
transaction itself or others have changed the tables since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.backend.analysis import SchemaMark
from gateway.backend.own_statement import Statement
from gateway.execution.constraints.constraint_validation import (
    Look,
    Obligation,
    look,
    look_again_at_commit,
    make_look,
    meet,
    obligations,
    prepare_look,
    vouch,
)
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from gateway.transaction.ddl_change import DeferredChange

if TYPE_CHECKING:
    from catalog.model import Table
    from gateway.backend.analysis import Analysis
    from gateway.execution.schema.rewrite_in_block import Rewriting
    from gateway.session.session_context import SessionContext
    from gateway.transaction.ddl_change import Demands as DemandsOfChange
    from gateway.transaction.ddl_sequences import OwnedSequence

# The transaction's own schema changes so far (DeferredChange.own).
_MARK: Final = Statement("SELECT pg_sluice.schema_mark()")


class Demands:
    """The demands of one change (gateway.transaction.transactional_ddl.Demands): `looks` are the outstanding checks.
    `make` runs them, outside of windows. `rewriting` rewrites the table's files, if needed.
    """

    def __init__(self, session: SessionContext, looks: Iterable[Look], rewriting: Rewriting | None = None) -> None:
        self._session = session
        self.rewriting = rewriting
        self._looks = list(looks)
        self._seen = {each.wanted.identity: each.read_at for each in self._looks}
        self._noted: dict[tuple[int, int], tuple[int, str, str]] = {}
        self._stagings = self._count()

    def _count(self) -> dict[int, int]:
        return {oid: self._session.transaction.stagings(oid) for read_at in self._seen.values() for oid in read_at}

    @property
    def are_none(self) -> bool:
        """Whether it checks and rewrites nothing."""
        return not self._seen and self.rewriting is None

    @property
    def rewritten(self) -> int | None:
        """The table whose files are rewritten."""
        return None if self.rewriting is None else self.rewriting.relid

    @property
    def empties(self) -> frozenset[int]:
        """No table."""
        return frozenset()

    @property
    def locking(self) -> Sequence[Statement]:
        """Only the locks of its statements."""
        return ()

    def rolled_back(self) -> None:
        """The transaction went back to a savepoint."""
        if self.rewriting is not None:
            self.rewriting.rolled_back()

    async def prepare(self) -> None:
        """Do the long work, while no session waits."""
        rewriting = self.rewriting
        if rewriting is not None and not self._session.transaction.deferred.is_emptied(rewriting.relid, self):
            await rewriting.write()

    async def make(self) -> None:
        """Raise PostgreSQL's error for an offending row."""
        beside = [each.wanted for each in self._looks]
        for each in self._looks:
            await make_look(self._session, each, beside=beside)
        self._looks.clear()

    async def note(self, noted: set[tuple[int, int]]) -> None:
        """In a window, after its execution: record the OIDs of its constraints there."""
        demanded = await obligations(self._session)
        self._noted = {each.place: each.identity for each in demanded if each.place not in noted}
        noted.update(self._noted)

    async def merge(self) -> None:
        """In that window, after all changes: merge concurrent changes of the table into its files."""
        rewriting = self._last_rewriting()
        if rewriting is not None and await rewriting.is_there():
            await rewriting.merge()

    def _last_rewriting(self) -> Rewriting | None:
        """Its own rewriting, unless a later one builds on it, whose files are then staged."""
        if self.rewriting is None:
            return None
        last = self._session.transaction.deferred.last_rewriting(self.rewriting.relid)
        return self.rewriting if last is self else None

    async def look_again(self) -> None:
        """In that window: check again what has changed since."""
        stale = await self._stale()
        if not stale:
            return
        for each in await obligations(self._session):
            identity = self._noted.get(each.place)  # the constraint may have been renamed
            if identity is not None and identity in stale:
                self._seen[identity] = await look(self._session, each, later=True)
        self._stagings = self._count()

    async def _stale(self) -> set[tuple[int, str, str]]:
        touched = {oid for oid, count in self._count().items() if count != self._stagings[oid]}
        oids = [*{oid for read_at in self._seen.values() for oid in read_at}]
        versions = await self._session.gateway.store.versions(oids) if oids else {}
        now = {oid: version.snapshot_id for oid, version in versions.items()}
        return {
            identity
            for identity, read_at in self._seen.items()
            if any(oid in touched or now.get(oid, snapshot) != snapshot for oid, snapshot in read_at.items())
        }

    async def meet(self) -> None:
        """After settling: COMMIT checks again if others change the tables from here on."""
        rewriting = self._last_rewriting()
        if rewriting is not None:
            await rewriting.merge()
        found = await obligations(self._session)
        known = [each for each in found if each.identity in self._seen]
        for each in known:
            look_again_at_commit(self._session, each, self._seen[each.identity])
        others = [each for each in found if each not in known]
        shared = await self._session.gateway.store.lake_relations(each.relid for each in others)
        # A table of the block's own was empty then; later rows were checked at their INSERT.
        await vouch(self._session, known + [each for each in others if each.relid not in shared])
        await meet(self._session, [each for each in others if each.relid in shared])


def rewriting_before(session: SessionContext, relid: int) -> Rewriting | None:
    """The transaction's last deferred rewriting of the table."""
    last = session.transaction.deferred.last_rewriting(relid)
    return last.rewriting if isinstance(last, Demands) else None


async def may_defer(session: SessionContext, oids: Iterable[int]) -> bool:
    """Whether a change that locks these tables can be deferred: in the client's block, if others may wait for it.

    No session waits for a change of tables that only this one sees. It is still deferred if other changes are, because
    it may build on them. Without tables it is a type's.
    """
    transaction = session.transaction
    if not transaction.open or transaction.implicit:
        return False
    locked = set(oids)
    return bool(transaction.deferred.pending or not locked or await session.gateway.store.lake_relations(locked))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferral:
    """A change that has just run in a window, to be deferred.

    `tables` are the changed tables, as before; `statements` are the executed ones, if not only the client's.
    It demands what is `wanted` of rows and its `rewriting`, or has other `demands`. The rest is as in DeferredChange.
    """

    tables: Sequence[Table] = ()
    wanted: Iterable[Obligation] = ()
    rewriting: Rewriting | None = None
    demands: DemandsOfChange | None = None
    renames: bool = False
    statements: Sequence[Statement] = ()
    in_windows: tuple[Statement, ...] | None = None
    sequences: Iterable[OwnedSequence] = ()
    recounts: bool = False


async def defer(session: SessionContext, analysis: Analysis, deferral: Deferral) -> None:
    """Defer it, close the window, and check rows."""
    transaction, demands = session.transaction, deferral.demands
    if demands is None:
        looks = [await prepare_look(session, each) for each in deferral.wanted]
        demands = Demands(session, looks, deferral.rewriting)
    [answer] = await session.backend.run(_MARK)
    settings = await transaction.deferred.present_settings()
    for table in deferral.tables:
        await transaction.enlistment.meet(table, analysis.mark)
    transaction.deferred.defer(
        DeferredChange(
            statements=tuple(deferral.statements) or (Statement(analysis.sql),),
            tables=tuple(deferral.tables),
            own=SchemaMark.of(answer.rows[0][0]).own,
            renames=deferral.renames,
            demands=demands,
            settings=settings,
            sequences=tuple(deferral.sequences),
            recounts=deferral.recounts,
            in_windows=deferral.in_windows,
            savepoints=transaction.deferred.savepoints,
        )
    )
    await take_place(session, Place.BESIDE)
    await demands.make()
