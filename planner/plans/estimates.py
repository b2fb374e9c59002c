"""EXPLAIN's estimates: the number of rows of a statement, their width and its cost. Pure.

The rows of tables are counted. The selectivity of conditions is PostgreSQL's default for columns without statistics
(selfuncs.h). Costs are in PostgreSQL's units (costsize.c), and only tell which of two statements reads less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog.datatypes import BY_OID, INT4, INT8
from catalog.model import Table
from planner.functions import registry
from planner.tree import datum
from planner.tree.builtins import Builtins
from planner.tree.nodes import Node

_ROWS_OF_EQUAL: Final = 0.005
_ROWS_OF_INEQUALITY: Final = 1 / 3
_GROUPS: Final = 200
_COST_OF_ROW: Final = 0.01
_COST_OF_PAGE: Final = 1.0
_PAGE_BYTES: Final = 8192
_VARIABLE_BYTES: Final = 32
_SELECT: Final = 1  # CmdType of nodes.h
_INT8_OF_INT4: Final = 481  # int8(integer) of pg_proc.dat

Estimate = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scanned:
    """A table, and how many of its rows are read."""

    table: Table
    rows: int


def of_scan(scanned: Scanned) -> Estimate:
    """Return the estimate of reading these rows."""
    width = sum(_width(column.type_oid, -1) for column in scanned.table.columns)
    return _estimate(0.0, _scan_cost(scanned), scanned.rows, width)


def of_query(query: Node, scans: Sequence[Scanned], sizes: Sequence[int], builtins: Builtins) -> Estimate:
    """Return the estimate of a whole statement; `sizes` are those of its columns' types (pg_type.typlen)."""
    cost = sum(map(_scan_cost, scans), 0.0)
    if query.commandType != _SELECT and not query.returningList:
        return _estimate(0.0, cost, 0, 0)
    conditions = list(_conditions(query.jointree.quals if query.jointree is not None else None))
    rows = float(max((scanned.rows for scanned in scans), default=1))
    if any(_is_of_key(scanned.table, query, conditions, builtins) for scanned in scans) and len(scans) == 1:
        rows = min(rows, 1)
    else:
        for condition in conditions:
            rows *= _ROWS_OF_EQUAL if _equal(condition, builtins) else _ROWS_OF_INEQUALITY
    startup = 0.0
    if query.groupClause or query.hasAggs or query.distinctClause:
        startup = cost
        rows = min(rows, _GROUPS) if query.groupClause or query.distinctClause else 1
    limit = constant_integer(query.limitCount)
    if limit is not None:
        rows = min(rows, limit)
    return _estimate(startup, cost, max(1, round(rows)), sum(_width(0, size) for size in sizes))


def _estimate(startup: float, total: float, rows: int, width: int) -> Estimate:
    return {
        "Startup Cost": round(startup, 2),
        "Total Cost": round(total, 2),
        "Plan Rows": rows,
        "Plan Width": width,
    }


def _scan_cost(scanned: Scanned) -> float:
    bytes_read = scanned.rows * sum(_width(column.type_oid, -1) for column in scanned.table.columns)
    return scanned.rows * _COST_OF_ROW + bytes_read / _PAGE_BYTES * _COST_OF_PAGE


def _width(type_oid: int, size: int) -> int:
    known = BY_OID.get(type_oid)
    if known is not None:
        size = known.length
    return size if size > 0 else _VARIABLE_BYTES


def _conditions(quals: Node | None) -> Iterator[Node]:
    if quals is None:
        return
    if quals.type == "BOOLEXPR" and quals.boolop == "and":
        for part in quals.args:
            yield from _conditions(part)
    elif quals.type != "BOOLEXPR":
        yield quals


def _equal(condition: Node, builtins: Builtins) -> bool:
    if condition.type not in ("OPEXPR", "SCALARARRAYOPEXPR"):
        return False
    function = builtins.functions.get(condition.opfuncid)
    return function is not None and builtins.signature(function.oid) in registry.EQUALITIES


def _is_of_key(table: Table, query: Node, conditions: Iterable[Node], builtins: Builtins) -> bool:
    """Whether the conditions give each column of one of its keys a value."""
    given = {
        side.varattno
        for condition in conditions
        if condition.type == "OPEXPR" and _equal(condition, builtins)
        for side, other in (condition.args, tuple(condition.args)[::-1])
        if side.type == "VAR" and other.type in ("CONST", "PARAM") and _reads(query, side.varno, table)
    }
    return any(given >= set(key.attnums) for key in table.keys)


def _reads(query: Node, place: int, table: Table) -> bool:
    entry = query.rtable[place - 1]
    return bool(entry.fields.get("relid") == table.oid)


def constant_integer(node: Node | None) -> int | None:
    """Return a constant integer, with the cast to bigint around it that LIMIT brings, or none."""
    if node is not None and node.type == "FUNCEXPR" and node.funcid == _INT8_OF_INT4:
        node = node.args[0]
    if node is None or node.type != "CONST" or node.constisnull or node.consttype not in (INT4, INT8):
        return None
    found: int = datum.read(node.consttype, node.constvalue)
    return found
