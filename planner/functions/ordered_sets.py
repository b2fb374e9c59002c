"""Ordered-set aggregates: percentile_cont, percentile_disc and mode, WITHIN GROUP (ORDER BY one expression).

The group's values are collected and sorted; PostgreSQL keeps them all as well. Source: PostgreSQL 18,
src/backend/utils/adt/orderedsetaggs.c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from catalog.datatypes import (
    BOOL,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
)
from catalog.errors import unsupported
from planner.functions.call import Call, Row, row
from planner.spark import numerics
from planner.spark.builders import Expression, binary, boolean, call, case, cast, let, raw, variable
from planner.spark.values import Value, null_value

_CHOSEN: Final = frozenset({BOOL, DATE, FLOAT4, FLOAT8, INT2, INT4, INT8, TEXT, TIMESTAMP, TIMESTAMPTZ, VARCHAR})


def _fraction(given: Call) -> float | None:
    fraction = given.constant(0, "a fraction")
    if fraction is None:
        return None
    if not isinstance(fraction, float) or not 0 <= fraction <= 1:
        raise unsupported(f"{given.signature} with this fraction")
    return fraction


def _value(given: Call) -> Value:
    """Return the sorted value, of a type whose equal values are displayed alike."""
    value = given.arguments[-1]
    if value.type_oid == NUMERIC:
        value = numerics.computable(value)
        if not numerics.is_static(value):
            raise unsupported(f"{given.signature} of numerics of several scales")
    elif value.type_oid not in _CHOSEN:
        raise unsupported(f"{given.signature} of this type")
    return value


def _sorted(given: Call, value: Value, body: Callable[[Expression, Expression], Expression]) -> Expression:
    """Return `body` of the sorted array and the number of values as a DOUBLE; NULL if there are none."""
    parts = given.parts()
    values = call("sort_array", parts("collect_list", value.sql), boolean(not parts.descending))
    array = variable("a")
    size = call("size", array)
    return let("a", values, case((binary(">", size, raw("0")), body(array, cast(size, "DOUBLE")))))


def _item(array: Expression, index: Expression) -> Expression:
    return call("get", array, cast(index, "INT"))


def _continuous(given: Call) -> Value:
    fraction = _fraction(given)
    if fraction is None:
        return null_value(given.result_type)

    def body(array: Expression, count: Expression) -> Expression:
        position = binary("*", raw(f"{fraction!r}D"), binary("-", count, raw("1D")))
        before, after = call("floor", position), call("ceil", position)
        low, high = _item(array, before), _item(array, after)
        share = binary("-", position, cast(before, "DOUBLE"))
        between = binary("+", low, binary("*", share, binary("-", high, low)))
        return case((binary("=", before, after), low), default=between)

    return given.result(_sorted(given, _value(given), body))


def _discrete(given: Call) -> Value:
    fraction = _fraction(given)
    value = _value(given)
    if fraction is None:
        return null_value(value.type_oid)

    def body(array: Expression, count: Expression) -> Expression:
        number = call("greatest", call("ceil", binary("*", raw(f"{fraction!r}D"), count)), raw("1L"))
        return _item(array, binary("-", number, raw("1L")))

    return Value(_sorted(given, value, body), value.type_oid, -1, value.decimal)


def _mode(given: Call) -> Value:
    """Return the most frequent value; of several, the first."""
    value = _value(given)
    parts = given.parts()
    if parts.descending or value.type_oid in (FLOAT4, FLOAT8):
        raise unsupported(f"{given.signature} in descending order or of floating-point numbers")
    return Value(parts("mode", value.sql, boolean(True)), value.type_oid, -1, value.decimal)


def _within(call_: str, *columns: str) -> str:
    return ", ".join(f"{call_} WITHIN GROUP (ORDER BY {column})" for column in columns)


ROWS: Final[tuple[Row, ...]] = (
    row("percentile_cont(float8,float8)", _continuous,
        f"SELECT {_within('percentile_cont(0.5)', 's', 'i', 'b', 's DESC')} FROM integers",
        f"SELECT id % 3, {_within('percentile_cont(0.37)', 'd')} FROM floats WHERE d <> 'NaN' GROUP BY 1",
        f"SELECT {_within('percentile_cont(0.9)', 'n', 'm')}, percentile_cont(0.25) WITHIN GROUP (ORDER BY n) "
        "FILTER (WHERE id < 4) FROM decimals", f"SELECT {_within('percentile_cont(0)', 'd')} FROM floats WHERE id < 0",
        f"SELECT {_within('percentile_cont(NULL)', 'd')}, {_within('percentile_cont(1)', 'd')} FROM floats"),
    row("percentile_disc(float8,anyelement)", _discrete,
        f"SELECT {_within('percentile_disc(0.5)', 's', 'i', 'b DESC')} FROM integers",
        f"SELECT {_within('percentile_disc(0.3)', 't', 'v DESC')} FROM texts",
        f"SELECT id % 2, {_within('percentile_disc(0.75)', 'n')} FROM decimals GROUP BY 1",
        f"SELECT {_within('percentile_disc(0)', 'd', 'ts', 'tz DESC')} FROM dates",
        f"SELECT {_within('percentile_disc(1)', 'd')} FROM floats"),
    row("mode(anyelement)", _mode, f"SELECT {_within('mode()', 's')} FROM integers",
        f"SELECT {_within('mode()', 'i')} FROM integers",
        f"SELECT id % 2, {_within('mode()', 't')} FROM texts GROUP BY 1",
        f"SELECT {_within('mode()', 'n')} FROM decimals WHERE id < 0"),
)  # fmt: skip
