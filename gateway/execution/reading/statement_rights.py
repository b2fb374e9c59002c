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

_MISSING: Final = (
    "SELECT relname, relkind FROM pg_sluice.missing_right("
    "$1::pg_catalog.oid[], $2::pg_catalog.oid[], $3::pg_catalog.text[], $4::pg_catalog.text[])"
)
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
