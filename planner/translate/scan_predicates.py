"""Scan predicates: the conditions by which a scan may skip files, from statistics (`Scan.predicate`).

Only conjuncts of the form column-operator-constant count, in WHERE or in the ON of inner joins, on tables that no outer
join can fill with NULLs. An unrecognised condition is left out: it only costs reading.
"""

from __future__ import annotations

import datetime
import math
from typing import Any, Final

from catalog.datatypes import BPCHAR, NUMERIC
from catalog.errors import SluiceError
from planner.spark.plan import Comparison, KeyComparison, Operator
from planner.spark.values import MISSING, Value
from planner.translate import index_matching
from planner.translate.array_comparison import array_items
from planner.translate.expressions import Translator
from planner.translate.scope import RTE_RELATION, ScanBuilder, Scope
from planner.tree.alternatives import alternatives
from planner.tree.datum import Infinite, Interval
from planner.tree.nodes import Node, walk

_SUFFIXES: Final[dict[str, Operator]] = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_MIRRORED: Final[dict[Operator, Operator]] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Signatures of comparisons that mean the same on the column's values as on those of the constant's type.
_TABLE: Final[dict[str, Operator]] = {
    f"{prefix}{suffix}({arguments})": operator
    for prefix, arguments in (
        ("int2", "int2,int2"), ("int4", "int4,int4"), ("int8", "int8,int8"), ("int24", "int2,int4"),
        ("int42", "int4,int2"), ("int28", "int2,int8"), ("int82", "int8,int2"), ("int48", "int4,int8"),
        ("int84", "int8,int4"), ("date_", "date,date"), ("time_", "time,time"),
        ("timestamp_", "timestamp,timestamp"), ("timestamptz_", "timestamptz,timestamptz"), ("uuid_", "uuid,uuid"),
        ("numeric_", "numeric,numeric"), ("bytea", "bytea,bytea"), ("bool", "bool,bool"),
    )
    for suffix, operator in _SUFFIXES.items()
} | {
    "texteqname(text,name)": "=", "nameeqtext(name,text)": "=",
    "texteq(text,text)": "=", "text_lt(text,text)": "<", "text_le(text,text)": "<=", "text_gt(text,text)": ">",
    "text_ge(text,text)": ">=", "bpchareq(bpchar,bpchar)": "=", "enum_eq(anyenum,anyenum)": "=",
}  # fmt: skip


def derive(scope: Scope, node: Node) -> None:
    """Record what the condition says of the level's scans."""
    if node.type == "BOOLEXPR" and node.boolop == "and":
        for part in node.args:
            derive(scope, part)
        return
    if node.type == "BOOLEXPR" and node.boolop == "or":
        merged = alternatives(node)
        node = merged[0] if len(merged) == 1 else node
    index_matching.note(scope, node)
    if node.type == "OPEXPR":
        _comparison(scope, node)
    elif node.type == "NULLTEST" and not node.argisrow:
        _record(scope, node.arg, "is null" if node.nulltesttype == 0 else "is not null", ())
    elif node.type == "SCALARARRAYOPEXPR" and node.useOr:
        _membership(scope, node)
    elif node.type == "VAR":
        _record(scope, node, "=", (True,))
    elif node.type == "BOOLEXPR" and node.boolop == "not" and node.args[0].type == "VAR":
        _record(scope, node.args[0], "=", (False,))


def _record(scope: Scope, node: Node, operator: Operator, values: tuple[Any, ...]) -> None:
    """Record a condition on a column, or on an expression of an index."""
    found = _column(scope, node)
    if found is None:
        for scan, index, place in index_matching.matched(scope, node):
            scan.keys.append(KeyComparison(index.oid, place, operator, values))
        return
    scan, attnum = found
    column = scan.table.column(attnum)
    if column.type_oid == BPCHAR:
        values = tuple(str(each).rstrip(" ").ljust(column.typmod - 4) for each in values)
    scan.predicate.append(Comparison(attnum, operator, values))


def _column(scope: Scope, node: Node) -> tuple[ScanBuilder, int] | None:
    """Return the scan and attnum of a bare column of this level."""
    while node.type == "RELABELTYPE":
        node = node.arg
    if node.type != "VAR" or node.varlevelsup or node.varattno <= 0:
        return None
    scan = scope.scan_ranges.get(node.varno)
    if scan is None or scope.entry(node.varno).rtekind != RTE_RELATION:
        return None
    column = scan.table.column(node.varattno)
    if column.type_oid == NUMERIC and column.form.spark == "STRING":
        return None  # its statistics, if any, are of texts
    return scan, node.varattno


def _constant(scope: Scope, node: Node) -> Any:
    """Return the Python value if the expression is constant and readable; otherwise MISSING."""
    if node.type not in ("CONST", "PARAM", "OPEXPR", "FUNCEXPR", "RELABELTYPE", "SQLVALUEFUNCTION"):
        return MISSING
    try:
        value: Value = Translator(scope).value(node)
    except SluiceError:
        return MISSING  # refused when the whole condition is translated
    constant = value.constant
    if constant is None or isinstance(constant, (Infinite, Interval)) or _is_nan(constant):
        return MISSING
    return constant


def _is_nan(constant: Any) -> bool:
    return isinstance(constant, float) and math.isnan(constant)


def _comparison(scope: Scope, node: Node) -> None:
    signature = scope.statement.context.builtins.signature(node.opfuncid)
    left, right = (node.args[0], node.args[1]) if len(node.args) == 2 else (None, None)
    if left is None or right is None:
        return
    mirrored = not _depends_on_rows(left)
    if mirrored:
        left, right = right, left
    if _depends_on_rows(right):
        return
    operator = _TABLE.get(signature)
    constant: Any = MISSING
    if operator is not None:
        constant = _constant(scope, right)
    else:
        named = _DATE_TIMESTAMP.get(signature)
        if named is not None:
            operator, constant = _date(scope, named, right)
    if operator is None or constant is MISSING:
        return
    _record(scope, left, _MIRRORED[operator] if mirrored else operator, (constant,))


_DATE_TIMESTAMP: Final[dict[str, Operator]] = {
    f"date_{suffix}_timestamp(date,timestamp)": operator for suffix, operator in _SUFFIXES.items()
}


def _date(scope: Scope, operator: Operator, node: Node) -> tuple[Operator | None, Any]:
    """Compare a date column with a timestamp: its midnight counts."""
    moment = _constant(scope, node)
    if not isinstance(moment, datetime.datetime):
        return None, MISSING
    if moment.time() == datetime.time():
        return operator, moment.date()
    if operator in ("<", "<="):
        return "<=", moment.date()
    if operator in (">", ">="):
        return ">", moment.date()
    return None, MISSING


def _depends_on_rows(node: Node) -> bool:
    return any(item.type in ("VAR", "SUBLINK", "AGGREF", "WINDOWFUNC") for item in walk(node))


def _membership(scope: Scope, node: Node) -> None:
    signature = scope.statement.context.builtins.signature(node.opfuncid)
    if _TABLE.get(signature) != "=":
        return
    if _depends_on_rows(node.args[1]):
        return
    try:
        items = array_items(Translator(scope), node.args[1])
    except SluiceError:
        return
    if not items or any(not item.is_constant for item in items):
        return
    constants = [item.constant for item in items if item.constant is not None]
    if any(isinstance(constant, (Infinite, Interval)) or _is_nan(constant) for constant in constants):
        return
    _record(scope, node.args[0], "in", tuple(constants))
