"""Sort keys and grouping keys, by which Spark sorts and groups as PostgreSQL does."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from catalog.datatypes import (
    BPCHAR,
    CARRIED,
    EQUAL_TEXTS,
    FLOAT4,
    FLOAT8,
    INTERVAL,
    NUMERIC,
    element_type,
    is_enumeration,
)
from catalog.errors import unsupported
from planner.functions import registry
from planner.functions.comparison import comparable
from planner.spark import numerics
from planner.spark.builders import Expression, binary, call, case, is_not_null, raise_error, struct
from planner.spark.values import Value
from planner.translate.user_types import UserTypes
from planner.tree.nodes import Node, malformed

_SORTABLE_BESIDES = frozenset({BPCHAR, INTERVAL})


def sort_key(value: Value, types: UserTypes) -> Expression:
    """Return the sort key. 0A000 for types that Spark would order otherwise."""
    if is_enumeration(value.type_oid):
        return types.rank(value).sql
    if value.type_oid not in registry.ORDERED_PLAINLY | _SORTABLE_BESIDES:
        raise unsupported(f"sorting by the type with OID {value.type_oid}")
    return comparable(value)


def ordered(value: Value, clause: Node, types: UserTypes) -> exp.Ordered:
    """Return an item of ORDER BY, with NULLS FIRST or LAST always explicit."""
    return exp.Ordered(
        this=sort_key(value, types), desc=bool(clause.reverse_sort), nulls_first=bool(clause.nulls_first)
    )


def group_key(value: Value) -> Expression:
    """Return the grouping key, by which values that are equal in PostgreSQL fall together."""
    if _groups_by_itself(value):
        return value.sql
    if value.type_oid not in registry.GROUPED_PLAINLY | _SORTABLE_BESIDES and not is_enumeration(value.type_oid):
        raise unsupported(f"grouping by the type with OID {value.type_oid}")
    if value.type_oid == BPCHAR and value.typmod > 4:
        return value.sql
    return comparable(value)


def _groups_by_itself(value: Value) -> bool:
    """Whether it is of a type unknown to Spark whose equal values have equal texts, or a plain array."""
    if value.type_oid == CARRIED:
        return value.typmod == EQUAL_TEXTS
    element = element_type(value.type_oid)
    return element is not None and element.oid in registry.GROUPED_PLAINLY - {NUMERIC, FLOAT4, FLOAT8}


def is_its_own_key(value: Value) -> bool:
    """Whether values that group together are also displayed alike."""
    if value.type_oid == NUMERIC:
        return numerics.is_static(value)
    if value.type_oid == BPCHAR:
        return value.typmod > 4
    return value.type_oid not in (INTERVAL, FLOAT4, FLOAT8)


def representative(value: Value) -> Expression:
    """Return an aggregate of what to display for a group of equal values (a numeric of varying scale: packed).

    PostgreSQL shows whichever comes first. If they differ, no answer is certain, and the query fails.
    """
    if value.type_oid in (FLOAT4, FLOAT8):
        return call("any_value", value.sql)
    if value.type_oid == NUMERIC and not value.held.is_text:
        return struct(v=call("any_value", value.sql), s=_only(numerics.display_of(value)))
    return _only(value.sql)


def _only(sql: Expression) -> Expression:
    low, high = call("min", sql), call("max", sql)
    refusal = raise_error("0A000", "grouping equal values that are displayed differently is not supported "
                          "on lake tables")  # fmt: skip
    return case((binary("=", low, high), high), (is_not_null(low), refusal))


def by_reference(targets: Sequence[Node], reference: int) -> int:
    """Return the index of the target list entry that a SORTGROUPCLAUSE means."""
    for index, target in enumerate(targets):
        if target.ressortgroupref == reference:
            return index
    raise malformed(f"no target with the sort reference {reference}")
