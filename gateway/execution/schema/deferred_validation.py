"""A change of a table's schema in a block, deferred (gateway/transaction/transactional_ddl.py): what it demands of rows
that are there.

They are looked at once, when the statement is carried out, without a lock on anything; and again before the transaction
commits, where its own statements or others have changed the tables since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from gateway.backend.analysis import SchemaMark
from gateway.backend.connection import Statement
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
from gateway.transaction.ddl_change import DeferredChange

if TYPE_CHECKING:
    from catalog.model import Table
    from gateway.backend.analysis import Analysis
    from gateway.execution.schema.rewrite_in_block import Rewriting
    from gateway.session.session_context import SessionContext
    from gateway.transaction.ddl_sequences import OwnedSequence

# What the transaction has changed by now (DeferredChange.own).
MARK: Final = Statement("SELECT pg_sluice.schema_mark()")


class Demands:
    """What one change demands (gateway.transaction.transactional_ddl.Demands): `looks` are yet to be made. `make` makes
    them, outside of the window. `rewriting` is of the table's files, where they are written anew."""

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
    def rewritten(self) -> int | None:
        """The table whose files are written anew."""
        return None if self.rewriting is None else self.rewriting.relid

    @property
    def empties(self) -> frozenset[int]:
        """No table."""
        return frozenset()

    @property
    def locking(self) -> Sequence[Statement]:
        """Nothing but what its statements lock by themselves."""
        return ()

    def rolled_back(self) -> None:
        """The transaction went back to a savepoint."""
        if self.rewriting is not None:
            self.rewriting.rolled_back()

    async def prepare(self) -> None:
        """What takes long, while nobody waits for it."""
        rewriting = self.rewriting
        if rewriting is not None and not self._session.transaction.deferred.is_emptied(rewriting.relid, self):
            await rewriting.write()

    async def make(self) -> None:
        """Raise PostgreSQL's error for a row that offends."""
        for each in self._looks:
            await make_look(self._session, each)
        self._looks.clear()

    async def note(self, noted: set[tuple[int, int]]) -> None:
        """In a window, in which it has just been carried out: by which OIDs its constraints go there."""
        demanded = await obligations(self._session)
        self._noted = {each.place: each.identity for each in demanded if each.place not in noted}
        noted.update(self._noted)

    async def merge(self) -> None:
        """In that window, with all changes carried out: take what others have done to the table over into its files."""
        rewriting = self._last_rewriting()
        if rewriting is not None and await rewriting.is_there():
            await rewriting.merge()

    def _last_rewriting(self) -> Rewriting | None:
        """Its own, unless a later one builds on it: what is staged are that one's files."""
        if self.rewriting is None:
            return None
        last = self._session.transaction.deferred.last_rewriting(self.rewriting.relid)
        return self.rewriting if last is self else None

    async def look_again(self) -> None:
        """In that window still: look at what has been changed since."""
        stale = await self._stale()
        if not stale:
            return
        for each in await obligations(self._session):
            identity = self._noted.get(each.place)  # it may have another name by now
            if identity is not None and identity in stale:
                self._seen[identity] = await look(self._session, each)
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
        """It has just been settled: COMMIT looks again where others change the tables from here on."""
        rewriting = self._last_rewriting()
        if rewriting is not None:
            await rewriting.merge()
        found = await obligations(self._session)
        known = [each for each in found if each.identity in self._seen]
        for each in known:
            look_again_at_commit(self._session, each, self._seen[each.identity])
        others = [each for each in found if each not in known]
        shared = await self._session.gateway.store.lake_relations(each.relid for each in others)
        # A table of the block's own was empty then; rows that came since were looked at as they came.
        await vouch(self._session, known + [each for each in others if each.relid not in shared])
        await meet(self._session, [each for each in others if each.relid in shared])


def rewriting_before(session: SessionContext, relid: int) -> Rewriting | None:
    """The last in the transaction that was deferred for the table."""
    last = session.transaction.deferred.last_rewriting(relid)
    return last.rewriting if isinstance(last, Demands) else None


async def may_defer(session: SessionContext, oids: Collection[int], *, refers: bool = False) -> bool:
    """Whether a change of these tables can be deferred: in the client's own block, where others may wait for it.

    For a change of tables that nobody else has, nobody waits, unless it `refers` to others; but it is deferred where
    anything is, for it may build on that.
    """
    transaction = session.transaction
    if not transaction.open or transaction.implicit:
        return False
    if refers or transaction.deferred.pending:
        return True
    return await session.gateway.store.lake_relations(set(oids)) == set(oids)


async def defer(
    session: SessionContext,
    analysis: Analysis,
    tables: Sequence[Table],
    wanted: Iterable[Obligation],
    *,
    renames: bool = False,
    statements: Sequence[Statement] = (),
    rewriting: Rewriting | None = None,
    sequences: Iterable[OwnedSequence] = (),
    recounts: bool = False,
    calls_users: bool = False,
) -> None:
    """What was just carried out in a window is deferred: it demands these. The window is closed.

    `tables` are what it changes, as they were before; `statements` are what was carried out, if not the client's alone.
    Of `sequences`, `recounts` and `calls_users` DeferredChange tells.
    """
    transaction = session.transaction
    looks = [await prepare_look(session, each) for each in wanted]
    [answer] = await session.backend.run(MARK)
    settings = await transaction.deferred.present_settings()
    for table in tables:
        await transaction.enlistment.meet(table, analysis.mark)
    demands = Demands(session, looks, rewriting)
    own = SchemaMark.of(answer.rows[0][0]).own
    carried_out = tuple(statements) or (Statement(analysis.sql),)
    transaction.deferred.defer(
        DeferredChange(
            statements=carried_out,
            tables=tuple(tables),
            own=own,
            renames=renames,
            demands=demands,
            settings=settings,
            sequences=tuple(sequences),
            recounts=recounts,
            calls_users=calls_users,
        )
    )
    await transaction.deferred.close()
    await demands.make()
