"""pg_export_snapshot() and SET TRANSACTION SNAPSHOT: one session reads the lake's snapshot of another, as the workers
of `pg_dump --jobs` do. What the backend alone answers is read at READ COMMITTED, as in any transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from catalog import exported_snapshots
from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend.own_statement import Statement
from gateway.transaction.isolation_level import Isolation
from planner.syntax.transaction_commands import snapshot_literal
from planner.tree.long_text import holds_word

if TYPE_CHECKING:
    from catalog.store import Store
    from gateway.backend.connection import Backend
    from planner.syntax.source_statement import Statement as SourceStatement

_EXPORTS: Final = "pg_export_snapshot"
_TRANSACTION: Final = Statement("""
SELECT virtualtransaction FROM pg_catalog.pg_locks
WHERE pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND locktype OPERATOR(pg_catalog.=) 'virtualxid' LIMIT 1
""")


def exports(statements: Iterable[SourceStatement]) -> bool:
    """Whether one of these may export a snapshot."""
    return any(holds_word(each.text, _EXPORTS) for each in statements)


async def note_export(store: Store, backend: Backend, snapshot: int | None) -> None:
    """Before the backend exports its snapshot: record the lake's, which is the newest for None."""
    known = await store.newest_snapshot() if snapshot is None else snapshot
    [answer] = await backend.run(_TRANSACTION)
    await exported_snapshots.export(store.pool, (answer.rows[0][0] or b"").decode(), known)


async def taken(store: Store, isolation: Isolation, snapshot: int | None, identifier: str) -> int:
    """The lake's snapshot that SET TRANSACTION SNAPSHOT names, kept until the caller unpins it. `snapshot` is the one
    that the transaction has.
    """
    if isolation is Isolation.SERIALIZABLE:
        raise unsupported("SET TRANSACTION SNAPSHOT in a SERIALIZABLE transaction")
    if snapshot is not None:
        told = "SET TRANSACTION SNAPSHOT must be called before any query"
        raise SluiceError(SqlState.ACTIVE_SQL_TRANSACTION, told)
    found = await exported_snapshots.exported(store.pool, identifier)
    await store.readers.pin(found)
    return found


async def identifier(backend: Backend, text: str) -> str:
    """The identifier in SET TRANSACTION SNAPSHOT, of any kind of literal: PostgreSQL reads it, or finds the error."""
    literal = snapshot_literal(text)
    asked = Statement(text, of_client=True) if literal is None else Statement(f"SELECT ({literal})::pg_catalog.text")
    [answer] = await backend.run(asked)
    return (answer.rows[0][0] or b"").decode()


async def released(store: Store, imported: int | None) -> None:
    """Unpin what `taken` has returned, if anything."""
    if imported is not None:
        await store.readers.unpin(imported)
