"""Checks the privileges that a statement needs, by its analysed tree (`planner.tree.tree_rights`).

EXPLAIN checks them too, with PostgreSQL's errors. But it analyses the statement's text again, when names may mean
other objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.arrays import number_array, text_array
from gateway.backend.connection import Result
from gateway.backend.own_statement import Statement

if TYPE_CHECKING:
    from planner.tree.tree_rights import Demand

_MISSING: Final = """
SELECT c.relname, c.relkind FROM ROWS FROM (
    pg_catalog.unnest($1::pg_catalog.oid[]), pg_catalog.unnest($2::pg_catalog.oid[]),
    pg_catalog.unnest($3::pg_catalog.text[]), pg_catalog.unnest($4::pg_catalog.text[])
) WITH ORDINALITY AS d (relation, role, wanted, number, place)
JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) d.relation
CROSS JOIN LATERAL (
    SELECT CASE WHEN d.role OPERATOR(pg_catalog.=) 0 THEN r.oid ELSE d.role END
    FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) current_user
) AS a (role)
WHERE NOT pg_catalog.has_table_privilege(a.role, d.relation, d.wanted) AND CASE
    WHEN d.wanted OPERATOR(pg_catalog.=) ANY ('{DELETE,TRUNCATE,MAINTAIN}'::pg_catalog.text[]) THEN true
    WHEN d.number OPERATOR(pg_catalog.=) '' THEN NOT pg_catalog.has_any_column_privilege(a.role, d.relation, d.wanted)
    WHEN d.number OPERATOR(pg_catalog.<>) '0'
    THEN NOT pg_catalog.has_column_privilege(a.role, d.relation, d.number::smallint, d.wanted)
    ELSE EXISTS (
        SELECT FROM pg_catalog.pg_attribute t
        WHERE t.attrelid OPERATOR(pg_catalog.=) d.relation AND t.attnum OPERATOR(pg_catalog.>) 0 AND NOT t.attisdropped
            AND NOT pg_catalog.has_column_privilege(a.role, d.relation, t.attnum, d.wanted)) END
ORDER BY d.place LIMIT 1
"""
# The kinds of objects, as aclcheck_error names them.
_KINDS: Final = {b"v": "view", b"m": "materialized view", b"S": "sequence", b"f": "foreign table"}


def missing(demands: Sequence[Demand]) -> Statement:
    """The question for a relation on which the client lacks such a privilege."""
    return Statement(
        _MISSING,
        (
            number_array(each.relation for each in demands),
            number_array(each.role for each in demands),
            text_array([each.right for each in demands]),
            text_array(["" if each.column is None else str(each.column) for each in demands]),
        ),
    )


def refuse_missing(answer: Result) -> None:
    """Raise 42501 by the answer to `missing`."""
    for name, kind in answer.rows:
        what = _KINDS.get(kind or b"", "table")
        raise SluiceError(SqlState.INSUFFICIENT_PRIVILEGE, f"permission denied for {what} {(name or b'').decode()}")
