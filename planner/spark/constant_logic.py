"""What PostgreSQL decides about logic while it plans: a constant that decides an AND or OR is its result, and no error
of its other parts occurs (eval_const_expressions in clauses.c, canonicalize_qual in prepqual.c).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlglot import exp

from planner.spark.builders import Expression, and_, boolean, is_not_null, is_null, or_
from planner.spark.literals import literal
from planner.spark.values import BOOL, INTEGERS, MISSING, TEXT, VARCHAR, Value, null_value

# Types whose constants are equal as Python's are.
_EQUAL: Final = INTEGERS | {BOOL, TEXT, VARCHAR}


def connected(parts: Sequence[Value], *, conjunction: bool) -> Value:
    """Return the AND (`conjunction`) or OR of the parts."""
    if any(part.constant is (not conjunction) for part in parts):
        return literal(not conjunction, BOOL)
    rest = [part for part in parts if part.constant is not conjunction]
    if all(part.constant is None for part in rest):
        return null_value(BOOL) if rest else literal(conjunction, BOOL)
    return Value((and_ if conjunction else or_)(*(part.sql for part in rest)), BOOL)


def filtered(parts: Sequence[Expression], *, conjunction: bool) -> Expression:
    """Return the AND or OR of conditions of a filter, where NULL counts as false."""
    truths = [_truth(part) for part in parts]
    if conjunction and any(truth is False for truth in truths):
        return boolean(False)
    if not conjunction and any(truth is True for truth in truths):
        return boolean(True)
    rest = [part for part, truth in zip(parts, truths, strict=True) if truth is MISSING]
    return (and_ if conjunction else or_)(*rest) if rest else boolean(conjunction)


def _truth(condition: Expression) -> Any:
    """Whether a condition that is a constant keeps rows; MISSING for others."""
    if isinstance(condition, exp.Boolean):
        return bool(condition.this)
    return False if isinstance(condition, exp.Cast) and isinstance(condition.this, exp.Null) else MISSING


def negated(constant: bool | None) -> Value:
    """Return NOT of a constant."""
    return null_value(BOOL) if constant is None else literal(not constant, BOOL)


def distinct(left: Value, right: Value) -> Value | None:
    """Return IS DISTINCT FROM of two constants; None if it is not known while planning."""
    one, other = left.constant, right.constant
    if one is MISSING or other is MISSING:
        return None
    if one is None or other is None:
        return literal(one is not other, BOOL)
    return literal(one != other, BOOL) if {left.type_oid, right.type_oid} <= _EQUAL else None


def null_test(fields: Sequence[Value], *, wanted: bool) -> Value:
    """Return whether all fields of a row are NULL (`wanted`), or none is."""
    if any(field.is_constant and (field.constant is None) is not wanted for field in fields):
        return literal(False, BOOL)
    rest = [(is_null if wanted else is_not_null)(field.sql) for field in fields if not field.is_constant]
    return Value(and_(*rest), BOOL) if rest else literal(True, BOOL)
