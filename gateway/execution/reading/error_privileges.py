"""Limits the row values in errors to columns that the client may read or has written, as in PostgreSQL.

If policies decide which rows of a table it sees, it gets none. Source: ExecBuildSlotValueDescription in PostgreSQL's
execMain.c, BuildIndexValueDescription in genam.c, ri_ReportViolation in ri_triggers.c.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from catalog.errors import SluiceError
from catalog.model import Table
from gateway.backend.arrays import number_array, text_array
from gateway.backend.own_statement import Statement

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_Error = TypeVar("_Error", bound=SluiceError)
# In place of a column: an expression or a row, which requires the privilege on the table.
WHOLE_TABLE: Final = 0
# Which of these columns may be read, or are set by the statement itself; none if policies are in force.
_TOLD: Final = """
SELECT a FROM pg_catalog.unnest($2::pg_catalog.int2[]) a
WHERE NOT pg_catalog.row_security_active($1::pg_catalog.oid) AND (a OPERATOR(pg_catalog.=) ANY ($3::pg_catalog.int2[])
    OR CASE WHEN a OPERATOR(pg_catalog.=) 0 THEN pg_catalog.has_table_privilege($1::pg_catalog.oid, 'SELECT')
        ELSE pg_catalog.has_column_privilege($1::pg_catalog.oid, a, 'SELECT') END)
"""
# Whether everything with these names may be read: columns, or an expression, which requires the whole table.
_ALL_NAMED: Final = """
SELECT NOT pg_catalog.row_security_active($1::pg_catalog.oid) AND (
    pg_catalog.has_table_privilege($1::pg_catalog.oid, 'SELECT') OR NOT EXISTS (
        SELECT FROM pg_catalog.unnest($2::pg_catalog.text[]) n WHERE NOT EXISTS (
            SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.oid
                AND CASE WHEN $3::pg_catalog.bool THEN pg_catalog.quote_ident(a.attname) ELSE a.attname END
                    OPERATOR(pg_catalog.=) n
                AND pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT'))))
"""


async def told_columns(
    session: SessionContext, table: Table, attnums: Iterable[int], written: Iterable[int] = ()
) -> frozenset[int]:
    """Those of the table's columns that the client may read or has written."""
    parameters = (str(table.oid), number_array(attnums), number_array(written))
    [answer] = await session.backend.run(Statement(_TOLD, parameters))
    return frozenset(int(number or 0) for (number,) in answer.rows)


async def discreet(
    session: SessionContext, error: _Error, table: Table, attnums: Collection[int], otherwise: str | None = None
) -> _Error:
    """The error with a key of the table in its detail; or `otherwise` if the client may not see the key."""
    if not await told_columns(session, table, attnums) >= set(attnums):
        error.fields.pop("D", None)
        if otherwise is not None:
            error.fields["D"] = otherwise
    return error


async def may_see_named(session: SessionContext, relid: int, names: Iterable[str], *, quoted: bool) -> bool:
    """Whether the client may read the columns that an index or a constraint names; `quoted` where names need it."""
    parameters = (str(relid), text_array(names), "true" if quoted else "false")
    [answer] = await session.backend.run(Statement(_ALL_NAMED, parameters))
    return answer.rows[0][0] == b"t"
