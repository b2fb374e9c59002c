"""Whether a new constraint's question is about columns alone, whose equal values have equal bytes. Pure.

The questions are the catalog's (catalog/sql/obligations.sql), for keys that are there twice and for references to keys
that are not there. Where this finds columns, no engine is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from catalog import datatypes
from catalog.model import Column, Table
from planner.translate.from_clause import is_true
from planner.translate.scope import RTE_GROUP
from planner.tree.nodes import Node

_IS_NULL: Final = 0
_IS_NOT_NULL: Final = 1
_LEFT: Final = 1
_NUMBERS: Final = frozenset({datatypes.INT2, datatypes.INT4, datatypes.INT8})
_BY_BYTES: Final = _NUMBERS | {
    datatypes.BOOL,
    datatypes.DATE,
    datatypes.TIME,
    datatypes.TIMESTAMP,
    datatypes.TIMESTAMPTZ,
    datatypes.UUID,
}
_TEXTS: Final = frozenset({datatypes.TEXT, datatypes.VARCHAR})
# No collation; the database's, which is deterministic; C.
_COLLATIONS: Final = frozenset({0, 100, 950})


def repeated_key(query: Node, table: Table) -> tuple[Column, ...] | None:
    """Return the columns of which no two rows without NULLs may have equal values; None for all other questions.

    The question is `SELECT keys FROM table WHERE keys IS NOT NULL GROUP BY keys HAVING count(*) > 1 LIMIT 1`. Another
    condition is a partial index's.
    """
    groups = [entry for entry in query.rtable or () if entry.rtekind == RTE_GROUP]
    if len(groups) != 1 or query.groupingSets or len(query.rtable) != 2:
        return None
    keys = groups[0].groupexprs
    found = tuple(column for key in keys if (column := _column(key, table)) is not None)
    if len(found) != len(keys) or _tested(query.jointree.quals, _IS_NOT_NULL) != {_place(key) for key in keys}:
        return None
    return found


def missing_reference(query: Node, table: Table, parent: Table) -> tuple[tuple[Column, ...], tuple[Column, ...]] | None:
    """Return the referencing columns and those that must have their values; None for all other questions.

    The question is `SELECT keys FROM table LEFT JOIN parent ON keys = others WHERE other IS NULL AND keys IS NOT NULL
    LIMIT 1`.
    """
    [join, *more] = query.jointree.fromlist or (None,)
    if more or join is None or join.type != "JOINEXPR" or int(join.jointype) != _LEFT or join.quals is None:
        return None
    mine, others = list[Column](), list[Column]()
    places = set[tuple[int, int]]()
    for each in _conjuncts(join.quals):
        pair = _equal(each, table, parent)
        if pair is None:
            return None
        mine.append(pair[0])
        others.append(pair[1])
        places.add((1, pair[0].attnum))
    present = _tested(query.jointree.quals, _IS_NOT_NULL, others=_IS_NULL)
    return (tuple(mine), tuple(others)) if present == places else None


def _equal(test: Node, table: Table, parent: Table) -> tuple[Column, Column] | None:
    """Return the columns of `parent.other = table.key`, if their bytes decide it."""
    if test.type != "OPEXPR" or int(test.opfuncid) >= datatypes.FIRST_USER_OID or len(test.args) != 2:
        return None
    other, key = test.args
    if other.type != "VAR" or key.type != "VAR" or (int(other.varno), int(key.varno)) != (2, 1):
        return None
    mine, its = _column(key, table), _column(other, parent)
    if mine is None or its is None:
        return None
    alike = any({mine.type_oid, its.type_oid} <= kinds for kinds in (_NUMBERS, _TEXTS))
    return (mine, its) if alike or mine.type_oid == its.type_oid else None


def _column(variable: Node, table: Table) -> Column | None:
    if variable.type != "VAR":
        return None
    column = next((each for each in table.columns if each.attnum == int(variable.varattno)), None)
    if column is None or column.carried is not None:
        return None
    is_text = column.type_oid in _TEXTS and int(variable.varcollid) in _COLLATIONS
    return column if is_text or column.type_oid in _BY_BYTES else None


def _place(variable: Node) -> tuple[int, int]:
    return int(variable.varno), int(variable.varattno)


def _conjuncts(quals: Node | None) -> Iterable[Node]:
    if quals is None:
        return ()
    found: Iterable[Node] = quals.args if quals.type == "BOOLEXPR" and quals.boolop == "and" else (quals,)
    return found


def _tested(quals: Node | None, kind: int, *, others: int | None = None) -> set[tuple[int, int]] | None:
    """Return the columns of a condition that only says of columns whether they are NULL: those tested by `kind`.

    None for another condition, or a test of neither that kind nor of `others`.
    """
    found = set[tuple[int, int]]()
    for test in _conjuncts(quals):
        if is_true(test):
            continue
        if test.type != "NULLTEST" or test.arg.type != "VAR" or int(test.nulltesttype) not in (kind, others):
            return None
        if int(test.nulltesttype) == kind:
            found.add(_place(test.arg))
    return found
