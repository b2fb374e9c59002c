"""Aborts the backend's transaction after an error of the gateway, and releases the locks that the statement took.

The backend does not know of such an error, or it happened in a savepoint of the gateway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from gateway.backend.connection import Backend, BackendLostError
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import FILLED, GUARDED, TRIAL

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# Savepoints in which statements fail, from the outermost on. Until one is undone, the transaction around it keeps its
# locks.
_OF_STATEMENTS: Final = (GUARDED, FILLED, TRIAL)
_FAIL: Final = Statement("SELECT pg_catalog.int4div(1, 0)")


async def fail(backend: Backend) -> None:
    """Make the backend's transaction fail."""
    await _succeeds(backend, _FAIL)


async def give_locks_back(session: SessionContext) -> None:
    """In a failed transaction, release all locks of the statement, as PostgreSQL does at once."""
    for savepoint in _OF_STATEMENTS:
        if undone := await _succeeds(session.backend, *savepoint.undo):
            break
    if await session.transaction.deferred.abandon() or undone:
        await fail(session.backend)


async def leave_window(session: SessionContext) -> None:
    """At the end of a query or pipeline: close the window, so that other sessions get the locks."""
    deferred = session.transaction.deferred
    if deferred.is_open:
        await (give_locks_back(session) if session.backend.status == b"E" else deferred.close())


async def _succeeds(backend: Backend, *statements: Statement) -> bool:
    """Run statements that may fail, or must fail; return whether they succeeded."""
    try:
        await backend.run(*statements)
    except BackendLostError:
        raise
    except SluiceError:
        return False
    return True
