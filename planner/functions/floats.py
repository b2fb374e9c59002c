"""real and double precision: arithmetic, and the functions that are exact in IEEE 754.

ln, exp, power and the trigonometric functions are not here: Java's and C's may differ in the last digit.
"""

from __future__ import annotations

from typing import Final

from planner.functions.call import Build, Call, Row, row
from planner.functions.casts import on
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    call,
    case,
    cast,
    is_simple,
    let,
    negative,
    or_,
    raise_error,
    raw,
    struct,
    variable,
)
from planner.spark.values import Value, spark_type

_INFINITE: Final = "CAST('Infinity' AS DOUBLE)"


def _arithmetic(operator: str) -> Build:
    """Compute; overflow to infinity and underflow to zero raise in PostgreSQL (float8_mul and the like in float.h)."""

    def build(given: Call) -> Value:
        spark = spark_type(given.result_type)
        left, right = (cast(argument.sql, spark) if argument.type_oid != given.result_type else argument.sql
                       for argument in given.arguments)  # fmt: skip
        if all(is_simple(side) for side in (left, right)):
            return given.result(_checked(operator, left, right, spark))
        body = _checked(operator, variable("p.l"), variable("p.r"), spark)
        return given.result(let("p", struct(l=left, r=right), body))

    return build


def _checked(operator: str, left: Expression, right: Expression, spark: str) -> Expression:
    result = binary(operator, left, right)
    if operator == "/":
        result = cast(result, spark)  # for two FLOATs Spark computes a DOUBLE; rounding it once more changes nothing
    infinite = raw(_INFINITE)
    overflow = and_(
        binary("=", call("abs", result), infinite),
        binary("<", call("abs", left), infinite),
        binary("<", call("abs", right), infinite),
    )
    branches = [(overflow, raise_error("22003", "value out of range: overflow"))]
    if operator == "/":
        branches.insert(0, (call("isnan", left), left))  # NaN / 0 is NaN, and no division by zero
    if operator in "*/":
        zero = raw("0D")
        lost = [binary("=", result, zero), binary("<>", left, zero)]
        lost.append(binary("<>", right, zero) if operator == "*" else binary("<", call("abs", right), infinite))
        branches.append((and_(*lost), raise_error("22003", "value out of range: underflow")))
    return case(*branches, default=result)


def _whole(function: str) -> Build:
    """ceil, floor, trunc: Spark's return BIGINT; past 2^52 every double is whole, and -0 stays -0."""

    def build(given: Call) -> Value:
        return given.result(on(given.sql[0], lambda sql: _rounded(function, sql)))

    return build


def _rounded(function: str, sql: Expression) -> Expression:
    large = or_(
        binary(">=", call("abs", sql), raw("4503599627370496D")), call("isnan", sql), binary("=", sql, raw("0D"))
    )
    up, down = cast(call("ceil", sql), "DOUBLE"), cast(call("floor", sql), "DOUBLE")
    minus_zero = raw("CAST('-0.0' AS DOUBLE)")
    just_below = and_(binary("<", sql, raw("0D")), binary(">", sql, raw("(-1D)")))
    if function == "floor":
        return case((large, sql), default=down)
    if function == "ceil":
        return case((large, sql), (just_below, minus_zero), default=up)
    return case((large, sql), (just_below, minus_zero), (binary("<", sql, raw("0D")), up), default=down)


def _square_root(given: Call) -> Value:
    def build(sql: Expression) -> Expression:
        refusal = raise_error("2201F", "cannot take square root of a negative number")
        return case((binary("<", sql, raw("0D")), refusal), default=call("sqrt", sql))

    return given.result(on(given.sql[0], build))


def _function(name: str) -> Build:
    return lambda given: given.result(call(name, *given.sql))


def _negative(given: Call) -> Value:
    return given.result(negative(given.sql[0]))


_NAMES: Final = (("pl", "+"), ("mi", "-"), ("mul", "*"), ("div", "/"))
_PAIRS: Final = (
    ("float8", "float8", "float8", "d", "d"),
    ("float4", "float4", "float4", "r", "r"),
    ("float48", "float4", "float8", "r", "d"),
    ("float84", "float8", "float4", "d", "r"),
)


def _rows() -> list[Row]:
    rows = []
    for prefix, left, right, a, b in _PAIRS:
        for suffix, operator in _NAMES:
            rows.append(
                row(f"{prefix}{suffix}({left},{right})", _arithmetic(operator),
                    f"SELECT id, {a} {operator} 1.5::{right} FROM floats",
                    f"SELECT id, {a} {operator} {b} FROM floats WHERE abs({a}) BETWEEN 0.001 AND 1e10 "
                    f"AND abs({b}) BETWEEN 0.001 AND 1e10",
                    f"SELECT {a} {operator} 0::{right} FROM floats WHERE id = 1",
                    f"SELECT {a} {operator} 0::{right} FROM floats WHERE id = 3",
                    f"SELECT id, ({a} {operator} 1.5::{right}) {operator} {b} FROM floats WHERE id < 3")
            )  # fmt: skip
    return rows


ROWS: Final[tuple[Row, ...]] = (
    *_rows(),
    row("float8um(float8)", _negative, "SELECT id, -d FROM floats"),
    row("float4um(float4)", _negative, "SELECT id, -r FROM floats"),
    row("abs(float8)", _function("abs"), "SELECT id, abs(d) FROM floats"),
    row("abs(float4)", _function("abs"), "SELECT id, abs(r) FROM floats"),
    row("round(float8)", _function("rint"), "SELECT id, round(d), round(d + 0.5::float8) FROM floats "
        "WHERE abs(d) < 1e10"),
    row("ceil(float8)", _whole("ceil"), "SELECT id, ceil(d) FROM floats"),
    row("ceiling(float8)", _whole("ceil"), "SELECT id, ceiling(d) FROM floats"),
    row("floor(float8)", _whole("floor"), "SELECT id, floor(d) FROM floats"),
    row("trunc(float8)", _whole("trunc"), "SELECT id, trunc(d) FROM floats"),
    row("sqrt(float8)", _square_root, "SELECT id, sqrt(d) FROM floats WHERE d >= 0", "SELECT sqrt(d) FROM floats"),
)  # fmt: skip
