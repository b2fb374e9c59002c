"""Refuses, with 55006, changes of tables for which PostgreSQL would have pending foreign key triggers.

The gateway checks deferred constraints in place of triggers. Pending checks are kept as a setting at the backend, like
the modes of constraints (`gateway.session.constraint_modes`), so that savepoints and the transaction's end restore
them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.arrays import number_array
from gateway.backend.own_statement import Statement
from gateway.session.backend_setting import kept

if TYPE_CHECKING:
    from gateway.backend.connection import Result
    from gateway.session.session_context import SessionContext

_NAME: Final = "sluice.pending_checks"
_SET: Final = f"SELECT pg_catalog.set_config('{_NAME}', $1, true)"
# The pending checks, the names of the tables in question, and the constraints that no longer exist.
_PENDING: Final = f"""
WITH pending (checks) AS (SELECT {kept(_NAME, "[]")}::json)
SELECT checks, (
    SELECT pg_catalog.json_object_agg(c.oid, c.relname) FROM pg_catalog.pg_class c
    WHERE c.oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[]) OR c.oid OPERATOR(pg_catalog.=) ANY (
        SELECT (e OPERATOR(pg_catalog.->>) 1)::pg_catalog.oid FROM pg_catalog.json_array_elements(checks) e
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k
            WHERE k.oid OPERATOR(pg_catalog.=) (e OPERATOR(pg_catalog.->>) 0)::pg_catalog.oid)))
FROM pending
"""


async def note_pending(session: SessionContext, checks: Iterable[tuple[int, int]]) -> None:
    """Record that the transaction must check these constraints at COMMIT, each for rows of that table (OIDs)."""
    wanted = set(checks)
    if not wanted:
        return
    pending, _ = await _ask(session, ())
    if not wanted <= pending:
        await _keep(session, pending | wanted)


async def forget_pending(session: SessionContext, constraints: Collection[int] | None) -> None:
    """Record that these constraints, or all (None), were checked."""
    pending, _ = await _ask(session, ())
    left = set() if constraints is None else {each for each in pending if each[0] not in constraints}
    if left != pending:
        await _keep(session, left)


async def is_pending(session: SessionContext, constraint: int, table: int) -> bool:
    """Whether a check of this constraint for rows of that table is still to be made."""
    pending, _ = await _ask(session, ())
    return (constraint, table) in pending


async def refuse_pending(session: SessionContext, what: str, tables: Collection[int]) -> None:
    """Raise 55006 if checks of one of these tables are pending, because a statement has changed it. The other table of
    a constraint that the statement has dropped counts too.
    """
    [answer] = await session.backend.run(pending_checks(tables))
    refuse_answered(what, answer)


def refuse_answered(what: str, answer: Result) -> None:
    """`refuse_pending`, by the answer to `pending_checks`."""
    pending, names = _read(answer)
    changed = [names[str(table)] for _, table in sorted(pending) if str(table) in names]
    if changed:
        raise SluiceError(SqlState.OBJECT_IN_USE, f'cannot {what} "{changed[0]}" because it has pending trigger events')


async def _keep(session: SessionContext, pending: set[tuple[int, int]]) -> None:
    await session.backend.run(Statement(_SET, (json.dumps(sorted(pending)),)))


def pending_checks(tables: Collection[int]) -> Statement:
    """The question for pending checks, and for the names of these tables."""
    return Statement(_PENDING, (number_array(tables),))


async def _ask(session: SessionContext, tables: Collection[int]) -> tuple[set[tuple[int, int]], dict[str, str]]:
    """The pending checks, as constraint and table, and the names of these tables."""
    [result] = await session.backend.run(pending_checks(tables))
    return _read(result)


def _read(result: Result) -> tuple[set[tuple[int, int]], dict[str, str]]:
    pending, names = result.rows[0]
    return {(constraint, table) for constraint, table in json.loads(pending or b"[]")}, json.loads(names or b"{}")
