"""Takes locks on shadows for schema changes without making other sessions wait behind them.

PostgreSQL queues lock requests. A request for the lock of an altered table blocks all later ones, reads included,
while an earlier holder keeps its lock (an open cursor, CREATE VIEW in a block). So a schema change tries for a moment,
gives up, and tries again later. PostgreSQL finds a deadlock only if both sessions wait. If another session waits for
this transaction, one attempt waits long enough for that.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from catalog.errors import SluiceError, SqlState
from gateway.backend.connection import Backend, BackendLostError, Result
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import PATIENCE
from gateway.backend.statement_timeout import ASKED, seconds, timed_out, transaction_timed_out

_T = TypeVar("_T")

_SHORTEN: Final = (
    "pg_catalog.set_config('sluice.lock_timeout', pg_sluice.backend_setting('lock_timeout'), true),"
    " pg_catalog.set_config('lock_timeout', $1, true)"
)
_LIMIT: Final = (
    "SELECT (extract(epoch FROM pg_sluice.backend_setting('lock_timeout')::interval)"
    " OPERATOR(pg_catalog.*) 1000)::bigint,"
    f" {ASKED}, pg_sluice.backend_setting('transaction_timeout'),"
    " extract(epoch FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.now()),"
    f" {_SHORTEN}"
)
_RESTORE: Final = Statement(
    "SELECT pg_catalog.set_config('lock_timeout', pg_sluice.backend_setting('sluice.lock_timeout'), true)"
)
_DONE: Final = (_RESTORE, PATIENCE.release)
_PAUSE: Final = Statement("SELECT pg_catalog.pg_sleep(0.05)")
_IS_WAITED_FOR: Final = Statement(
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE NOT l.granted"
    " AND pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) ANY (pg_catalog.pg_blocking_pids(l.pid)))"
)
_MOMENT_MILLISECONDS: Final = 30
# Longer than PostgreSQL waits before it looks for a deadlock (deadlock_timeout).
_DEADLOCK_MILLISECONDS: Final = 1500


async def patiently(backend: Backend, carry_out: Callable[[], Awaitable[_T]]) -> _T:
    """Run statements that may need table locks, in a savepoint; repeat while other sessions hold the locks.

    The backend is in a block that has not failed. Raises the errors of `carry_out`, 55P03 after the client's
    lock_timeout, 57014 after its statement_timeout, BackendLostError after its transaction_timeout. 57014 also if it is
    cancelled between two attempts: PostgreSQL forgets a cancel for an idle backend.
    """
    result, _ = await patiently_between(backend, carry_out)
    return result


async def patiently_between(
    backend: Backend,
    carry_out: Callable[[], Awaitable[_T]],
    first: Sequence[Statement] = (),
    then: Sequence[Statement] = (),
) -> tuple[_T, list[Result]]:
    """`patiently`, with statements that need no such locks before the first attempt and after the last, in the same
    round trips; returns the answers to those after it, too."""
    started = time.monotonic()
    milliseconds = _MOMENT_MILLISECONDS
    while True:
        *_, asked = await backend.run(*first, PATIENCE.begin, Statement(_LIMIT, (str(milliseconds),)))
        first, asked_at = (), time.monotonic()
        limit, *timeouts = asked.rows[0][:4]
        try:
            result = await carry_out()
        except SluiceError as error:
            if error.sqlstate != SqlState.LOCK_NOT_AVAILABLE or backend.status != b"E":
                raise
            backend.check()
            late = _late(backend.begun, asked_at, *((each or b"0").decode() for each in timeouts))
            if late is not None:
                raise late from error
            if limit and 0 < int(limit) <= (time.monotonic() - started) * 1000:
                raise
        else:
            answers = await backend.run(*_DONE, *then)
            return result, answers[len(_DONE) :]
        *_, waited_for, _ = await backend.run(*PATIENCE.undo, _IS_WAITED_FOR, _PAUSE)
        milliseconds = _DEADLOCK_MILLISECONDS if waited_for.rows[0][0] == b"t" else _MOMENT_MILLISECONDS


def short_patience() -> Statement:
    """Before a statement that is tried for a moment only: 55P03 if it does not get its locks."""
    return Statement(f"SELECT {_SHORTEN}", (str(_MOMENT_MILLISECONDS),))


def patience_ends() -> Statement:
    """After that statement: locks are waited for as the client has set it."""
    return _RESTORE


def _late(begun: float, asked_at: float, statement: str, transaction: str, elapsed: str) -> SluiceError | None:
    """The error of a timeout that has passed. `elapsed` is what the transaction had taken when it was asked.

    PostgreSQL counts statement_timeout anew for each attempt, and forgets transaction_timeout at an attempt's error.
    """
    now = time.monotonic()
    limit = seconds(statement)
    if limit is not None and now - begun >= limit:
        return timed_out()
    limit = seconds(transaction)
    if limit is not None and float(elapsed) + now - asked_at >= limit:
        return BackendLostError(transaction_timed_out())
    return None
