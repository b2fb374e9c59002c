"""Expressions whose value is known, but whose parts must be computed, because they may raise errors.

Spark's optimizer replaces `x IN (NULL)` by NULL, and `CASE WHEN x THEN y ELSE y END` by y; PostgreSQL computes x. No
rule of Spark's sees through what is made here (ConstantFolding, NullPropagation, SimplifyConditionals,
SimplifyExtractValueOps).
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.spark.builders import Expression, call, case, cast, raw


def null_after(parts: Sequence[Expression], spark_type: str) -> Expression:
    """Return a NULL of the type, once all parts are computed."""
    return cast(call("nullif", call("size", call("array", *parts)), raw(str(len(parts)))), spark_type)


def case_of_all(conditions: Sequence[Expression], results: Sequence[Expression], default: Expression) -> Expression:
    """Return CASE WHEN … of which conditions are computed even if nothing depends on them."""
    last = len(results)
    while last and results[last - 1] == default:
        last -= 1
    if last < len(results):
        places = [(condition, raw(str(place))) for place, condition in enumerate(conditions[last:])]
        place = call("least", raw("0"), case(*places, default=raw(str(len(places)))))
        default = call("get", call("array", default), place)
    pairs = list(zip(conditions[:last], results[:last], strict=True))
    return case(*pairs, default=default) if pairs else default
