"""Whether a question for repeated keys is about columns alone, whose equal values have equal bytes. Pure.

The question is the catalog's (catalog/sql/obligations.sql): `SELECT keys FROM table WHERE keys IS NOT NULL GROUP BY
keys HAVING count(*) > 1 LIMIT 1`. Another condition is a partial index's.
"""

from __future__ import annotations

from typing import Final

from catalog import datatypes
from catalog.model import Column, Table
from planner.translate.scope import RTE_GROUP
from planner.tree.nodes import Node

_IS_NOT_NULL: Final = 1
_BY_BYTES: Final = frozenset(
    {
        datatypes.BOOL,
        datatypes.INT2,
        datatypes.INT4,
        datatypes.INT8,
        datatypes.DATE,
        datatypes.TIME,
        datatypes.TIMESTAMP,
        datatypes.TIMESTAMPTZ,
        datatypes.UUID,
    }
)
_TEXTS: Final = frozenset({datatypes.TEXT, datatypes.VARCHAR})
# No collation; the database's, which is deterministic; C.
_COLLATIONS: Final = frozenset({0, 100, 950})


def repeated_key(query: Node, table: Table) -> tuple[Column, ...] | None:
    """Return the columns of which no two rows without NULLs may have equal values; None for all other questions."""
    groups = [entry for entry in query.rtable or () if entry.rtekind == RTE_GROUP]
    if len(groups) != 1 or query.groupingSets or len(query.rtable) != 2:
        return None
    columns = {int(node.varattno): _column(node, table) for node in groups[0].groupexprs if node.type == "VAR"}
    found = tuple(column for column in columns.values() if column is not None)
    if len(found) != len(groups[0].groupexprs) or _required(query.jointree.quals) != set(columns):
        return None
    return found


def _column(variable: Node, table: Table) -> Column | None:
    column = next((each for each in table.columns if each.attnum == int(variable.varattno)), None)
    if column is None or column.carried is not None:
        return None
    in_bytes = column.type_oid in _BY_BYTES or (column.type_oid in _TEXTS and int(variable.varcollid) in _COLLATIONS)
    return column if in_bytes else None


def _required(quals: Node | None) -> set[int] | None:
    """Return the columns of a condition that only says that they are not NULL; None for another condition."""
    if quals is None:
        return None
    tests = quals.args if quals.type == "BOOLEXPR" and quals.boolop == "and" else (quals,)
    found = set[int]()
    for test in tests:
        if test.type != "NULLTEST" or int(test.nulltesttype) != _IS_NOT_NULL or test.arg.type != "VAR":
            return None
        found.add(int(test.arg.varattno))
    return found
