"""Which errors of a statement that fires row triggers come after PostgreSQL has locked the row.

Source: nodeModifyTable.c and trigger.c of PostgreSQL. UPDATE computes the new row first. A BEFORE trigger locks the old
one; then come NOT NULL and CHECK. Without such a trigger these come first, and the lock after them. Keys, references
and AFTER triggers are last.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from catalog.errors import SqlState
from gateway.backend.own_statement import Statement
from planner.plans.routes import Route, command

if TYPE_CHECKING:
    from catalog.errors import SluiceError
    from gateway.session.session_context import SessionContext
    from planner.tree.nodes import Node

# Bits of pg_trigger.tgtype (pg_trigger.h).
_ROW, _BEFORE, _DELETE, _UPDATE = 1, 2, 8, 16
_TRIGGERS: Final = """
SELECT tgfoid::pg_catalog.regprocedure::pg_catalog.text,
    tgtype::pg_catalog.int4 OPERATOR(pg_catalog.&) $3::pg_catalog.int4 OPERATOR(pg_catalog.=) $3::pg_catalog.int4
FROM pg_catalog.pg_trigger
WHERE tgrelid OPERATOR(pg_catalog.=) $1::pg_catalog.int8::pg_catalog.oid AND NOT tgisinternal
    AND tgtype::pg_catalog.int4 OPERATOR(pg_catalog.&) $2::pg_catalog.int4 OPERATOR(pg_catalog.=) $2::pg_catalog.int4
"""
_OF_ROW: Final = (SqlState.CHECK_VIOLATION, SqlState.NOT_NULL_VIOLATION)


async def fails_behind_lock(session: SessionContext, error: SluiceError, table_oid: int, *, updates: bool) -> bool:
    """Whether PostgreSQL raises the error of an UPDATE (`updates`) or DELETE after it has locked the row."""
    event = _ROW | (_UPDATE if updates else _DELETE)
    asked = Statement(_TRIGGERS, (str(table_oid), str(event), str(event | _BEFORE)))
    [found] = await session.backend.run(asked)
    if error.sqlstate in _OF_ROW and not _context(error):
        return any(is_before == b"t" for _, is_before in found.rows)
    if error.sqlstate[:2] == "23" and not _context(error):
        return True
    return any(
        _context(error).startswith(f"PL/pgSQL function {(name or b'').decode()} line ") for name, _ in found.rows
    )


def _context(error: SluiceError) -> str:
    """The outermost line of the error's context."""
    return error.fields.get("W", "").rpartition("\n")[2]


def assigned_by(query: Node) -> Collection[int] | None:
    """The columns that UPDATE or ON CONFLICT sets; None if the statement deletes."""
    if query.onConflict is not None:
        return {int(each.resno) for each in query.onConflict.onConflictSet}
    if command(query) is not Route.UPDATE:
        return None
    return {int(each.resno) for each in query.targetList if not each.resjunk}
