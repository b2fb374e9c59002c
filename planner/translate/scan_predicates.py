"""Scan predicates: the conditions by which a scan may skip files, from statistics (`Scan.predicate`).

Only conjuncts of the form column-operator-constant count, in WHERE or in the ON of inner joins, on tables that no outer
join can fill with NULLs. An unrecognised condition is left out: it only costs reading.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from catalog.datatypes import BPCHAR, NUMERIC
from catalog.errors import SluiceError
from catalog.model import Column
from planner.spark.plan import Comparison, KeyComparison, Operator
from planner.spark.values import MISSING, Value
from planner.translate import index_matching
from planner.translate.array_comparison import array_items
from planner.translate.expressions import Translator
from planner.translate.scope import RTE_RELATION, ScanBuilder, Scope
from planner.tree.alternatives import alternatives
from planner.tree.datum import Infinite, Interval
from planner.tree.nodes import Node, walk

SUFFIXES: Final[dict[str, Operator]] = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_MIRRORED: Final[dict[Operator, Operator]] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Signatures of comparisons that mean the same on the column's values as on those of the constant's type.
COMPARISONS: Final[dict[str, Operator]] = {
    f"{prefix}{suffix}({arguments})": operator
    for prefix, arguments in (
        ("int2", "int2,int2"), ("int4", "int4,int4"), ("int8", "int8,int8"), ("int24", "int2,int4"),
        ("int42", "int4,int2"), ("int28", "int2,int8"), ("int82", "int8,int2"), ("int48", "int4,int8"),
        ("int84", "int8,int4"), ("date_", "date,date"), ("time_", "time,time"),
        ("timestamp_", "timestamp,timestamp"), ("timestamptz_", "timestamptz,timestamptz"), ("uuid_", "uuid,uuid"),
        ("numeric_", "numeric,numeric"), ("bytea", "bytea,bytea"), ("bool", "bool,bool"),
    )
    for suffix, operator in SUFFIXES.items()
} | {
    "texteqname(text,name)": "=", "nameeqtext(name,text)": "=",
    "texteq(text,text)": "=", "text_lt(text,text)": "<", "text_le(text,text)": "<=", "text_gt(text,text)": ">",
    "text_ge(text,text)": ">=", "bpchareq(bpchar,bpchar)": "=", "enum_eq(anyenum,anyenum)": "=",
}  # fmt: skip


class Compared(NamedTuple):
    """`operator` and `values` as of a `Comparison`; `node` is what they are compared with."""

    node: Node
    operator: Operator
    values: tuple[Any, ...]


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
    found = compared(scope, node)
    if found is not None:
        _record(scope, *found)


def compared(scope: Scope, node: Node, operators: Mapping[str, Operator] = COMPARISONS) -> Compared | None:
    """Return what a condition without AND and OR compares with constants, by `operators` of these signatures.

    Rows meet the condition exactly if they meet the comparison, where the node's values are of the signature's type
    and strings compare by bytes.
    """
    if node.type == "OPEXPR":
        return _comparison(scope, node, operators)
    if node.type == "NULLTEST" and not node.argisrow:
        return Compared(node.arg, "is null" if node.nulltesttype == 0 else "is not null", ())
    if node.type == "SCALARARRAYOPEXPR" and node.useOr:
        return _membership(scope, node, operators)
    if node.type == "VAR":
        return Compared(node, "=", (True,))
    if node.type == "BOOLEXPR" and node.boolop == "not" and node.args[0].type == "VAR":
        return Compared(node.args[0], "=", (False,))
    return None


def _record(scope: Scope, node: Node, operator: Operator, values: tuple[Any, ...]) -> None:
    """Record a condition on a column, or on an expression of an index."""
    found = _column(scope, node)
    if found is None:
        for scan, index, place in index_matching.matched(scope, node):
            scan.keys.append(KeyComparison(index.oid, place, operator, values))
        return
    scan, attnum = found
    column = scan.table.column(attnum)
    scan.predicate.append(Comparison(attnum, operator, as_kept(column, values)))


def as_kept(column: Column, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return constants as the column has them: strings of a length with their spaces."""
    if column.type_oid != BPCHAR:
        return values
    return tuple(str(each).rstrip(" ").ljust(column.typmod - 4) for each in values)


def _column(scope: Scope, node: Node) -> tuple[ScanBuilder, int] | None:
    """Return the scan and attnum of a bare column of this level, whose values compare as those of the node's type."""
    padded = False
    while node.type == "RELABELTYPE":
        padded = padded or node.resulttype == BPCHAR
        node = node.arg
    if node.type != "VAR" or node.varlevelsup or node.varattno <= 0:
        return None
    scan = scope.scan_ranges.get(node.varno)
    if scan is None or scope.entry(node.varno).rtekind != RTE_RELATION:
        return None
    column = scan.table.column(node.varattno)
    if column.type_oid == NUMERIC and column.form.spark == "STRING":
        return None  # its statistics, if any, are of texts
    if padded and column.type_oid != BPCHAR:
        return None  # char(n) without its spaces may equal several texts
    return scan, node.varattno


def constant_of(scope: Scope, node: Node) -> Any:
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


def _comparison(scope: Scope, node: Node, operators: Mapping[str, Operator]) -> Compared | None:
    signature = scope.statement.context.builtins.signature(node.opfuncid)
    sides = constant_side(node)
    if sides is None:
        return None
    left, right, mirrored = sides
    operator = operators.get(signature)
    constant: Any = MISSING
    if operator is not None:
        constant = constant_of(scope, right)
    else:
        named = _DATE_TIMESTAMP.get(signature)
        if named is not None:
            operator, constant = _date(scope, named, right)
    if operator is None or constant is MISSING:
        return None
    return Compared(left, _MIRRORED[operator] if mirrored else operator, (constant,))


def constant_side(node: Node) -> tuple[Node, Node, bool] | None:
    """Return the operands of an operator, of which the second does not depend on rows; and whether they are
    exchanged."""
    if len(node.args) != 2:
        return None
    left, right = node.args
    if not _depends_on_rows(right):
        return left, right, False
    return None if _depends_on_rows(left) else (right, left, True)


_DATE_TIMESTAMP: Final[dict[str, Operator]] = {
    f"date_{suffix}_timestamp(date,timestamp)": operator for suffix, operator in SUFFIXES.items()
}


def _date(scope: Scope, operator: Operator, node: Node) -> tuple[Operator | None, Any]:
    """Compare a date column with a timestamp: its midnight counts."""
    moment = constant_of(scope, node)
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


def _membership(scope: Scope, node: Node, operators: Mapping[str, Operator]) -> Compared | None:
    signature = scope.statement.context.builtins.signature(node.opfuncid)
    listed = listed_constants(scope, node) if operators.get(signature) == "=" else None
    if not listed:
        return None
    return Compared(node.args[0], "in", tuple(constant for constant in listed if constant is not None))


def listed_constants(scope: Scope, node: Node) -> list[Any] | None:
    """Return the constants that `x op ANY (array)` compares with, None for NULL; None if they are not known."""
    if _depends_on_rows(node.args[1]):
        return None
    try:
        items = array_items(Translator(scope), node.args[1])
    except SluiceError:
        return None
    if items is None or any(not item.is_constant for item in items):
        return None
    constants = [item.constant for item in items]
    if any(isinstance(constant, (Infinite, Interval)) or _is_nan(constant) for constant in constants):
        return None
    return constants
