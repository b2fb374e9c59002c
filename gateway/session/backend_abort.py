"""A statement has failed for the client, with an error that the backend does not know of, or in a savepoint of the
gateway's own: the backend's transaction fails too, and has no lock of the statement's left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from gateway.backend.connection import Backend, BackendLostError, Statement
from gateway.backend.savepoints import TRIAL

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_FAIL: Final = Statement("SELECT pg_catalog.int4div(1, 0)")


async def fail(backend: Backend) -> None:
    """Make the backend's transaction fail."""
    await _succeeds(backend, _FAIL)


async def give_locks_back(session: SessionContext) -> None:
    """In a transaction that has failed: PostgreSQL would have given all of the statement's locks back at once."""
    undone = await _succeeds(session.backend, *TRIAL.undo)
    if await session.transaction.deferred.abandon() or undone:
        await fail(session.backend)


async def leave_window(session: SessionContext) -> None:
    """At the end of a query or pipeline: others may have the locks that its statements needed."""
    deferred = session.transaction.deferred
    if deferred.is_open:
        await (give_locks_back(session) if session.backend.status == b"E" else deferred.close())


async def _succeeds(backend: Backend, *statements: Statement) -> bool:
    """Carry out what may fail, or is there to fail; whether it did not."""
    try:
        await backend.run(*statements)
    except BackendLostError:
        raise
    except SluiceError:
        return False
    return True
