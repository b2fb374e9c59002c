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


@dataclass(slots=True)
class NewestVersions:
    """The question, and the versions that its answer tells: `found` is None until then, and if only the catalog tells
    them (`Store.versions`).
    """

    store: Store
    kept: KeptVersions
    found: dict[int, TableVersion] | None = None

    @classmethod
    def of(cls, session: SessionContext, oids: Iterable[int]) -> NewestVersions | None:
        """The question for these tables; None where the backend may have changed them in its own transaction, and where
        a statement does not see the newest versions.
        """
        wanted, transaction = sorted(oids), session.transaction
        if not wanted or not transaction.sees_newest or transaction.parts is not None:
            return None
        if session.unsynced or (transaction.open and not transaction.fresh):
            return None
        store = session.gateway.store
        return cls(store, store.kept_versions(wanted))

    @property
    def statement(self) -> Statement:
        """To be asked after whatever keeps the tables as they are."""
        return catalog_calls.changed(self.kept)

    def take(self, answer: Result) -> None:
        """Read the answer."""
        rows = (
            (int(oid or 0), int(snapshot or 0), expired == b"t", None if since is None else since.decode())
            for oid, snapshot, expired, since in answer.rows
        )
        self.found = self.store.brought_up(self.kept, rows)


async def newest_of(store: Store, oids: Sequence[int], newest: NewestVersions | None) -> dict[int, TableVersion]:
    """The newest committed versions of these tables: those of the answer, or else the catalog is asked."""
    known = None if newest is None else newest.found
    return await store.versions(oids) if known is None else known
