"""Waits for transactions that change rows which ON CONFLICT DO NOTHING meets.

Source: check_exclusion_or_unique_constraint of PostgreSQL. It waits for a transaction that changes or deletes a row
with the key, not for one that has only locked it, and holds nothing afterwards. A row lock of the lake does not tell
which it is; but a transaction that changes rows has also locked the table for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.locks.row_locks import Rows, Strength, Waiting, lock_positions, untouched

if TYPE_CHECKING:
    from catalog.model import TableVersion
    from gateway.session.session_context import SessionContext

# Of more rows, none is waited for.
_ROWS_MAX: Final = 1_000
_OTHERS_WRITE: Final = """
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l.relation
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    WHERE n.nspname OPERATOR(pg_catalog.=) 'pg_sluice' AND c.relname OPERATOR(pg_catalog.=) $1::pg_catalog.text
        AND l.granted AND l.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()
        AND l.mode OPERATOR(pg_catalog.<>) ALL ('{AccessShareLock,RowShareLock}'))
"""


async def others_change(session: SessionContext, version: TableVersion, rows: Rows) -> bool:
    """Wait for transactions that are changing these rows; return whether one has been changed or deleted."""
    if not 0 < sum(map(len, rows.values())) <= _ROWS_MAX:
        return False
    [writing] = await session.backend.run(Statement(_OTHERS_WRITE, (f"table_lock_{version.table.table_id}",)))
    if writing.rows[0][0] != b"t":
        return False
    free = await _locked(session, version, rows, Waiting.SKIP)
    held = {path: np.setdiff1d(each, free.get(path, each[:0])) for path, each in rows.items()}
    held = {path: each for path, each in held.items() if len(each)}
    if not held:
        return False
    await _locked(session, version, held, Waiting.WAIT)
    return not await untouched(session, held, version)


async def _locked(session: SessionContext, version: TableVersion, rows: Rows, waiting: Waiting) -> Rows:
    """The rows that no other transaction changes. Their locks are not kept, except in blocks with deferred changes,
    whose windows have savepoints of their own.
    """
    if session.transaction.deferred.pending:
        return await lock_positions(session, rows, version, Strength.SHARE, waiting)
    await session.backend.run(TRIAL.begin)
    found = await lock_positions(session, rows, version, Strength.SHARE, waiting)
    await session.backend.run(*TRIAL.undo)
    return found
