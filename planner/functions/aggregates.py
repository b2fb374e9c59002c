"""Aggregates, grouped or over a window: each as elementary Spark aggregates and an expression over them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from catalog.datatypes import FLOAT8, INT8, NUMERIC, element_type, is_enumeration
from catalog.errors import unsupported
from planner.functions import intervals
from planner.functions.call import Build, Call, Row, row
from planner.functions.comparison import comparable
from planner.spark import numerics
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    call,
    case,
    cast,
    field,
    integer,
    is_not_null,
    raise_error,
    raw,
    string,
    struct,
    try_cast,
)
from planner.spark.values import MISSING, Decimal, Value

_SUM_DIGITS: Final = 10  # Spark's sum of DECIMAL(p, s) is DECIMAL(p + 10, s)
_AVERAGE_DIGITS_MAX: Final = 14
_AVERAGE_DIGITS_MIN: Final = 10


def _count_all(given: Call) -> Value:
    return given.result(given.parts()("count", exp.Star()))


def _count(given: Call) -> Value:
    (value,) = given.arguments
    parts = given.parts()
    return given.result(parts("count", comparable(value) if parts.distinct else value.sql))


def _sum_of_integers(given: Call) -> Value:
    return given.result(given.parts()("sum", given.sql[0]))


def _sum_of_numerics(given: Call) -> Value:
    return _summed(given, numerics.computable(given.arguments[0]))


def _sum_of_bigints(given: Call) -> Value:
    return _summed(given, numerics.from_integer(given.arguments[0]))


def _summed(given: Call, value: Value) -> Value:
    """Sum; its display scale is the largest of its terms'."""
    parts = given.parts()
    held = value.held
    display: int | Expression
    if isinstance(held.display, int):
        display = held.display
    else:
        if parts.distinct:
            raise unsupported(f"{given.signature} with DISTINCT over numerics of several scales")
        display = parts("max", case((is_not_null(value.sql), numerics.display_of(value))))
    return numerics.make(parts("sum", value.sql), held.precision + _SUM_DIGITS, held.scale, display)


def _average(given: Call) -> Value:
    (value,) = given.arguments
    value = numerics.computable(value) if value.type_oid == NUMERIC else numerics.from_integer(value)
    total = _summed(given, value)
    count = Value(call("nullif", given.parts()("count", value.sql), raw("0L")), INT8)
    digits = min(max(value.held.integer_digits, _AVERAGE_DIGITS_MIN), _AVERAGE_DIGITS_MAX)
    return numerics.divide(total, numerics.from_integer(count), digits)


def _float_sum(function: str) -> Build:
    """Aggregate floats; an infinite result without an infinite term is an overflow, which raises in PostgreSQL."""

    def build(given: Call) -> Value:
        parts = given.parts()
        if parts.ordered:
            raise unsupported(f"{given.signature} in an order")  # the last digits depend on it
        number = cast(given.sql[0], "DOUBLE")
        result = parts(function, number)
        infinite = raw("CAST('Infinity' AS DOUBLE)")
        overflowed = and_(
            binary("=", call("abs", result), infinite), binary("<", parts("max", call("abs", number)), infinite)
        )
        return Value(case((overflowed, raise_error("22003", "value out of range: overflow")), default=result), FLOAT8)

    return build


def _extreme(function: str) -> Build:
    def build(given: Call) -> Value:
        (value,) = given.arguments
        if is_enumeration(value.type_oid):
            raise unsupported(f"{given.signature} by the texts of labels")
        parts = given.parts()
        if value.type_oid != NUMERIC:
            return given.result(parts(function, value.sql))
        value = numerics.computable(value)
        if isinstance(value.held.display, int):
            return replace(value, sql=parts(function, value.sql), typmod=-1, constant=MISSING)
        pair = case((is_not_null(value.sql), struct(v=value.sql, s=numerics.display_of(value))))
        found = parts(function, pair)
        held = Decimal(value.held.precision, value.held.scale, field(found, "s"))
        return Value(field(found, "v"), NUMERIC, -1, held)

    return build


def _bpchar_extreme(function: str) -> Build:
    def build(given: Call) -> Value:
        (value,) = given.arguments
        if value.typmod <= 4:
            raise unsupported(f"{given.signature} of a character without a length")
        found = given.parts()(function, comparable(value))
        return Value(call("rpad", found, integer(value.typmod - 4), string(" ")), value.type_oid, value.typmod)

    return build


def _plain(function: str) -> Build:
    return lambda given: given.result(given.parts()(function, given.sql[0]))


def _any_value(given: Call) -> Value:
    (value,) = given.arguments
    if value.decimal is not None and not numerics.is_static(value):
        raise unsupported("any_value of numerics of several scales")
    # PostgreSQL's any_value takes the first value that is not NULL: in the call's order, or that of DISTINCT.
    parts = given.parts()
    if parts.ordered or parts.distinct:
        there = call("filter", parts.sorted_list(value.sql), raw("e -> e IS NOT NULL"))
        found: Expression = call("get", there, integer(0))
    else:
        found = parts("any_value", value.sql, raw("TRUE"))
    return replace(value, sql=found, constant=MISSING)


def _array_agg(given: Call) -> Value:
    element = element_type(given.result_type)
    if element is None or element.oid == NUMERIC:
        raise unsupported(f"{given.signature} of this type")
    return given.result(given.parts().sorted_list(given.sql[0]))


def _string_agg(given: Call) -> Value:
    delimiter = given.constant(1, "a delimiter")
    assert delimiter is None or isinstance(delimiter, str)
    parts = given.parts()
    listed = parts.sorted_list(given.sql[0])
    present = call("filter", listed, raw("e -> e IS NOT NULL"))
    joined = call("array_join", present, string(delimiter or ""))
    return given.result(case((binary(">", call("size", present), raw("0")), joined)))


def _sum_of_intervals(given: Call) -> Value:
    parts = given.parts()
    if parts.distinct:
        raise unsupported(f"{given.signature} with DISTINCT")
    (value,) = given.sql
    # Fields too large for their type are NULL.
    whole = parts("sum", field(value, "months"))
    sums = {
        "months": try_cast(whole, "INT"),
        "days": try_cast(parts("sum", field(value, "days")), "INT"),
        "microseconds": parts("try_sum", field(value, "microseconds")),
    }
    return given.result(case(
        (parts("bool_or", intervals.beyond(value)), intervals.left_to_postgresql()),
        (and_(*map(is_not_null, sums.values())), struct(**sums)),
        (is_not_null(whole), intervals.left_to_postgresql()),
    ))  # fmt: skip


def _variance(root: bool, population: bool) -> Build:
    """Compute exactly for integers and numerics: (N·ΣX² - (ΣX)²) / (N·(N - 1)), as numeric_stddev_internal divides
    it."""

    def build(given: Call) -> Value:
        if root:
            raise unsupported(f"the aggregate {given.signature}")
        (value,) = given.arguments
        value = numerics.computable(value) if value.type_oid == NUMERIC else numerics.from_integer(value)
        if not isinstance(value.held.display, int) or value.held.scale > 9:
            raise unsupported(f"{given.signature} of numerics of several scales")
        parts = given.parts()
        if parts.distinct:
            raise unsupported(f"{given.signature} with DISTINCT")
        square = numerics.multiply(value, value)
        scale = square.held.scale
        count = cast(parts("count", value.sql), "DECIMAL(19,0)")
        total = parts("sum", value.sql)
        squares = cast(parts("sum", cast(square.sql, f"DECIMAL(38,{scale})")), f"DECIMAL(38,{scale})")
        total_squared = cast(binary("*", total, total), f"DECIMAL(38,{scale})")
        above = binary("-", cast(binary("*", count, squares), f"DECIMAL(38,{scale})"), total_squared)
        below = cast(binary("*", count, count if population else binary("-", count, raw("1BD"))), "DECIMAL(38,0)")
        numerator = numerics.make(cast(above, f"DECIMAL(38,{scale})"), 38, scale, scale)
        denominator = numerics.make(call("nullif", below, raw("0BD")), 38, 0, 0)
        # A variance of a single value is plain zero in PostgreSQL.
        quotient = numerics.divide(numerator, denominator)
        zero = binary("=", above, raw("0BD"))
        display = case((zero, raw("0")), default=numerics.display_of(quotient))
        return replace(quotient, decimal=replace(quotient.held, display=display))

    return build


_EXTREME_TYPES: Final = {
    "int2": ("integers", "s"), "int4": ("integers", "i"), "int8": ("integers", "b"), "text": ("texts", "t"),
    "float4": ("floats", "r"), "float8": ("floats", "d"), "date": ("dates", "d"), "timestamp": ("dates", "ts"),
    "timestamptz": ("dates", "tz"), "time": ("dates", "t"), "bytea": ("binaries", "x"),
}  # fmt: skip


def _rows() -> list[Row]:
    rows = []
    for function in ("min", "max"):
        for name, (table, column) in _EXTREME_TYPES.items():
            rows.append(
                row(f"{function}({name})", _extreme(function), f"SELECT {function}({column}) FROM {table}",
                    f"SELECT id % 2, {function}({column}) FROM {table} GROUP BY 1",
                    f"SELECT {function}({column}) FROM {table} WHERE id < 0")
            )  # fmt: skip
        rows += [
            row(f"{function}(tid)", _extreme(function)),
            # for ranks: planner.translate.user_types
            row(f"{function}(anyenum)", _extreme(function), f"SELECT id % 2, {function}(m) FROM moods GROUP BY 1"),
            row(f"{function}(numeric)", _extreme(function), f"SELECT {function}(n), {function}(m) FROM decimals",
                f"SELECT id % 2, {function}(n / 3) FROM decimals GROUP BY 1"),
            row(f"{function}(bpchar)", _bpchar_extreme(function), f"SELECT {function}(c) FROM texts"),
        ]  # fmt: skip
    for name, column in (("int2", "s"), ("int4", "i")):
        rows.append(
            row(f"sum({name})", _sum_of_integers, f"SELECT sum({column}) FROM integers",
                f"SELECT id % 2, sum({column}) FILTER (WHERE id > 1), sum(DISTINCT {column}) FROM integers GROUP BY 1")
        )  # fmt: skip
    for name, table, column in (("int2", "integers", "s"), ("int4", "integers", "i"), ("int8", "integers", "b"),
                                ("numeric", "decimals", "n")):  # fmt: skip
        rows.append(
            row(f"avg({name})", _average, f"SELECT avg({column}) FROM {table}",
                f"SELECT id % 3, avg({column}), avg({column}) FILTER (WHERE id > 2) FROM {table} GROUP BY 1",
                f"SELECT avg({column}) FROM {table} WHERE id < 0",
                f"SELECT id, avg({column}) FROM {table} GROUP BY id")
        )  # fmt: skip
    return rows


ROWS: Final[tuple[Row, ...]] = (
    *_rows(),
    row("count()", _count_all, "SELECT count(*), count(*) FILTER (WHERE id > 2) FROM integers",
        "SELECT count(*) FROM integers WHERE id < 0"),
    row("count(any)", _count, "SELECT count(s), count(DISTINCT s % 2), count(DISTINCT b) FROM integers",
        "SELECT count(n), count(DISTINCT n) FROM decimals", "SELECT count(DISTINCT c), count(t) FROM texts"),
    row("sum(int8)", _sum_of_bigints, "SELECT sum(b) FROM integers", "SELECT id % 2, sum(b) FROM integers GROUP BY 1"),
    row("sum(numeric)", _sum_of_numerics, "SELECT sum(n), sum(m), sum(n * m) FROM decimals",
        "SELECT sum(CASE WHEN id > 3 THEN n ELSE 0 END) FROM decimals",
        "SELECT sum(CASE WHEN id > 999 THEN n ELSE 0 END) FROM decimals",
        "SELECT id % 2, sum(f) FROM decimals WHERE abs(f) < 1e15 GROUP BY 1"),
    row("sum(float8)", _float_sum("sum"), "SELECT sum(d) FROM floats WHERE abs(d) < 100",
        "SELECT sum(d) FROM floats"),
    row("avg(float8)", _float_sum("avg"), "SELECT avg(d) FROM floats WHERE abs(d) < 100"),
    row("avg(float4)", _float_sum("avg"), "SELECT avg(r) FROM floats WHERE abs(r) < 100"),
    row("sum(interval)", _sum_of_intervals, "SELECT sum(v) FROM intervals", "SELECT sum(v) FROM intervals WHERE id<0"),
    row("bool_and(bool)", _plain("bool_and"), "SELECT bool_and(x), bool_and(y) FROM booleans"),
    row("every(bool)", _plain("every"), "SELECT every(x) FROM booleans"),
    row("bool_or(bool)", _plain("bool_or"), "SELECT bool_or(x), bool_or(y) FROM booleans"),
    *(row(f"bit_{name}({kind})", _plain(f"bit_{name}"), f"SELECT bit_{name}({column}) FROM integers")
      for name in ("and", "or", "xor") for kind, column in (("int2", "s"), ("int4", "i"), ("int8", "b"))),
    row("any_value(anyelement)", _any_value, "SELECT id, any_value(i) FROM integers GROUP BY id",
        "SELECT any_value(i ORDER BY id DESC), any_value(s ORDER BY s NULLS FIRST, id) FROM integers",
        "SELECT id % 2, any_value(DISTINCT s), any_value(t ORDER BY t DESC, id) FILTER (WHERE id > 1) "
        "FROM integers JOIN texts USING (id) GROUP BY 1", "SELECT any_value(i ORDER BY id) FROM integers WHERE id < 0"),
    row("array_agg(anynonarray)", _array_agg, "SELECT array_agg(s ORDER BY id) FROM integers",
        "SELECT array_agg(t ORDER BY t DESC NULLS LAST, id) FROM texts", "SELECT array_agg(DISTINCT s) FROM integers",
        "SELECT array_agg(i ORDER BY id) FROM integers WHERE id < 0",
        "SELECT id % 2, array_agg(s ORDER BY s NULLS FIRST) FILTER (WHERE id > 1) FROM integers GROUP BY 1"),
    row("string_agg(text,text)", _string_agg, "SELECT string_agg(t, ',' ORDER BY id) FROM texts",
        "SELECT string_agg(DISTINCT t, '; ') FROM texts", "SELECT string_agg(t, ',') FROM texts WHERE id < 0",
        "SELECT id % 2, string_agg(v, '' ORDER BY v DESC, id) FROM texts GROUP BY 1"),
    *(row(f"{name}({kind})", _variance(False, name == "var_pop"),
          f"SELECT {name}({column}) FROM {table} WHERE {limit}", f"SELECT {name}({column}) FROM {table} WHERE id = 1")
      for name in ("var_samp", "variance", "var_pop")
      for kind, column, table, limit in (("int2", "s", "integers", "true"), ("int4", "i", "integers", "id < 3"),
                                         ("int8", "b", "integers", "id < 3"),
                                         ("numeric", "n", "decimals", "true"))),
)  # fmt: skip
