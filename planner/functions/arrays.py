"""Array functions: one-dimensional arrays whose subscripts begin at 1, the only ones of lake tables."""

from __future__ import annotations

from typing import Final

from catalog.datatypes import NUMERIC, element_type
from catalog.errors import unsupported
from planner.functions.call import Build, Call, Row, row
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    boolean,
    call,
    case,
    cast,
    is_not_null,
    is_null,
    lambda_,
    raw,
    variable,
)
from planner.spark.values import INTEGERS, STRINGS, Value, spark_type


def _plain_element(given: Call, value: Value) -> int:
    """Return the element's type, if Spark compares elements as PostgreSQL does."""
    element = element_type(value.type_oid)
    if element is None or element.oid == NUMERIC or (element.oid not in INTEGERS and element.name not in _COMPARED):
        raise unsupported(f"{given.signature} of this array")
    return element.oid


_COMPARED: Final = frozenset({"text", "varchar", "bool", "date", "timestamp", "timestamptz", "uuid", "time"})


def _array_length(given: Call) -> Value:
    if given.constant(1, "a dimension") != 1:
        raise unsupported(f"{given.signature} of another dimension than the first")
    size = call("size", given.sql[0])
    return given.result(case((binary(">", size, raw("0")), size)))


def _cardinality(given: Call) -> Value:
    return given.result(case((is_not_null(given.sql[0]), call("size", given.sql[0]))))


def _contains(swapped: bool) -> Build:
    def build(given: Call) -> Value:
        outer, inner = reversed(given.arguments) if swapped else given.arguments
        _plain_element(given, outer)
        equal = binary("=", variable("x"), variable("y"))
        found = call("coalesce", call("exists", outer.sql, lambda_("x", equal)), boolean(False))
        result = call("forall", inner.sql, lambda_("y", found))
        return given.result(_strict(given, result))

    return build


def _overlaps(given: Call) -> Value:
    left, right = given.arguments
    _plain_element(given, left)
    equal = binary("=", variable("x"), variable("y"))
    found = call("coalesce", call("exists", left.sql, lambda_("x", equal)), boolean(False))
    return given.result(_strict(given, call("exists", right.sql, lambda_("y", found))))


def _strict(given: Call, result: Expression) -> Expression:
    left, right = given.sql
    return case((and_(is_not_null(left), is_not_null(right)), result))


def _equal(operator: str) -> Build:
    def build(given: Call) -> Value:
        _plain_element(given, given.arguments[0])
        return given.result(binary(operator, *given.sql))

    return build


def _append(given: Call) -> Value:
    array, item = given.arguments
    element = element_type(given.result_type)
    if element is None or element.oid == NUMERIC:
        raise unsupported(f"{given.signature} of this array")
    empty = call("array")
    empty_typed = cast(empty, spark_type(given.result_type))
    return Value(call("concat", call("coalesce", array.sql, empty_typed), call("array", item.sql)), given.result_type)


def _array_to_string(given: Call) -> Value:
    array, *rest = given.arguments
    element = element_type(array.type_oid)
    if element is None or (element.oid not in INTEGERS and element.oid not in STRINGS) or element.name == "bpchar":
        raise unsupported(f"{given.signature} of this array")
    items = array.sql
    if element.oid in INTEGERS:
        items = call("transform", items, raw("e -> CAST(e AS STRING)"))
    without = call("array_join", items, rest[0].sql)
    if len(rest) == 1 or rest[1].constant is None:
        return given.result(without)
    shown = call("array_join", items, rest[0].sql, rest[1].sql)
    return given.result(shown if rest[1].is_constant else case((is_null(rest[1].sql), without), default=shown))


def _position(given: Call) -> Value:
    array, item = given.arguments
    _plain_element(given, array)
    # PostgreSQL finds a NULL among the elements, too.
    null = call("array_position", call("transform", array.sql, raw("e -> e IS NULL")), boolean(True))
    found: Expression = null
    if item.constant is not None:
        found = case((is_null(item.sql), null), default=call("array_position", array.sql, item.sql))
    return given.result(cast(call("nullif", found, raw("0L")), "INT"))


_A: Final = "FROM lists"

ROWS: Final[tuple[Row, ...]] = (
    row("array_length(anyarray,int4)", _array_length, f"SELECT id, array_length(a, 1), array_length(t, 1) {_A}"),
    row("cardinality(anyarray)", _cardinality, f"SELECT id, cardinality(a) {_A}"),
    row("arraycontains(anyarray,anyarray)", _contains(False), f"SELECT id, a @> ARRAY[1], t @> ARRAY['x', 'y'] {_A}",
        f"SELECT id, a @> '{{}}', a @> ARRAY[NULL]::int[] {_A}"),
    row("arraycontained(anyarray,anyarray)", _contains(True), f"SELECT id, a <@ ARRAY[1, 2, 3] {_A}"),
    row("arrayoverlap(anyarray,anyarray)", _overlaps, f"SELECT id, a && ARRAY[1, 7] {_A}"),
    row("array_eq(anyarray,anyarray)", _equal("="), f"SELECT id, a = ARRAY[1, 2], a = a, t = '{{}}' {_A}"),
    row("array_ne(anyarray,anyarray)", _equal("<>"), f"SELECT id, a <> ARRAY[1, 2] {_A}"),
    row("array_append(anycompatiblearray,anycompatible)", _append, f"SELECT id, array_append(a, 9), "
        f"array_append(t, 'z'), t || 'z'::text {_A}"),
    row("array_to_string(anyarray,text)", _array_to_string, f"SELECT id, array_to_string(a, ','), "
        f"array_to_string(t, '') {_A}"),
    row("array_to_string(anyarray,text,text)", _array_to_string, f"SELECT id, array_to_string(a, ',', '?') {_A}",
        f"SELECT id, array_to_string(a, ',', NULL), array_to_string(a, ',', t[2]), array_to_string(a, NULL, '?') {_A}"),
    row("array_position(anycompatiblearray,anycompatible)", _position, f"SELECT id, array_position(a, 2) {_A}",
        f"SELECT id, array_position(a, a[3]), array_position(a, NULL), array_position(t, t[2]) {_A}"),
)  # fmt: skip
