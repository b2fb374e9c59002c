"""Asks for the newest versions of tables at the session's backend, in a round trip that asks other things too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.backend import catalog_calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from catalog.model import TableVersion
    from catalog.store import Store
    from catalog.version_changes import KeptVersions
    from gateway.backend.connection import Result
    from gateway.backend.own_statement import Statement
    from gateway.session.session_context import SessionContext
    from gateway.transaction.own_changes import OwnChange


@dataclass(slots=True)
class NewestVersions:
    """The question, and the versions that its answer tells: `found` is None until then, and if only the catalog tells
    them (`Store.versions`).
    """

    store: Store
    kept: KeptVersions
    found: dict[int, TableVersion] | None = None

    @classmethod
    def of(cls, session: SessionContext, oids: Iterable[int], *, told: bool = False) -> NewestVersions | None:
        """The question for these tables; None where the backend's own transaction may have changed their schemas, and
        where a statement does not see the newest versions. `told`: the same round trip tells what the transaction has
        made of them; the caller then forgets the answer if a schema is changed.
        """
        wanted, transaction = sorted(oids), session.transaction
        if not wanted or not transaction.sees_newest or transaction.parts is not None or session.unsynced:
            return None
        if transaction.open and not transaction.fresh:
            known = transaction.own.told
            if transaction.deferred.pending or not (told or all(oid in known for oid in wanted)):
                return None
            if any(oid in known and known[oid].description is not None for oid in wanted):
                return None
        store = session.gateway.store
        return cls(store, store.kept_versions(wanted))

    @property
    def statement(self) -> Statement:
        """To be asked after whatever keeps the tables as they are."""
        return catalog_calls.changed(self.kept)

    def take(self, answer: Result, own: Iterable[OwnChange] = ()) -> None:
        """Read the answer, unless one of the transaction's `own` changes is of a schema."""
        if any(each.description is not None for each in own):
            return
        rows = (
            (int(oid or 0), int(snapshot or 0), expired == b"t", None if since is None else since.decode())
            for oid, snapshot, expired, since in answer.rows
        )
        self.found = self.store.brought_up(self.kept, rows)


async def newest_of(store: Store, oids: Sequence[int], newest: NewestVersions | None) -> dict[int, TableVersion]:
    """The newest committed versions of these tables: those of the answer, or else the catalog is asked."""
    known = None if newest is None else newest.found
    return await store.versions(oids) if known is None else known
