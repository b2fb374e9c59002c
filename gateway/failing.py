"""A statement has failed for the client, with an error that the backend does not know of, or in a savepoint of the
gateway's own: the backend's transaction fails too, and has no lock of the statement's left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from gateway.analysis import UNDO
from gateway.backend import Backend, BackendLostError, Statement

if TYPE_CHECKING:
    from gateway.exchange import Exchange

_FAIL: Final = Statement("SELECT pg_catalog.int4div(1, 0)")


async def fail(backend: Backend) -> None:
    """Make the backend's transaction fail."""
    await _succeeds(backend, _FAIL)


async def give_locks_back(session: Exchange) -> None:
    """In a transaction that has failed: PostgreSQL would have given all of the statement's locks back at once."""
    undone = await _succeeds(session.backend, *UNDO)
    if await session.transaction.deferred.abandon() or undone:
        await fail(session.backend)


async def _succeeds(backend: Backend, *statements: Statement) -> bool:
    """Carry out what may fail, or is there to fail; whether it did not."""
    try:
        await backend.run(*statements)
    except BackendLostError:
        raise
    except SluiceError:
        return False
    return True
