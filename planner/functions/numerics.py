"""numeric: arithmetic and rounding, by `planner.spark.numerics`. Float and integer results are not here."""

from __future__ import annotations

from typing import Final

from catalog.errors import unsupported
from planner.functions.call import Build, Call, Row, row
from planner.spark import numerics
from planner.spark.builders import binary, call, case, raw
from planner.spark.values import Value


def _arithmetic(operator: str) -> Build:
    def build(given: Call) -> Value:
        left, right = given.arguments
        if operator == "*":
            return numerics.multiply(left, right)
        if operator == "/":
            return numerics.divide(left, right)
        return numerics.add(operator, left, right)

    return build


def _rounding(function: str) -> Build:
    def build(given: Call) -> Value:
        places = 0
        if len(given.arguments) > 1:
            constant = given.constant(1, "a number of digits")
            if not isinstance(constant, int) or constant < 0:
                raise unsupported(f"{given.signature} with this number of digits")
            places = constant
        return numerics.rounded(given.arguments[0], places, function)

    return build


def _negative(given: Call) -> Value:
    return numerics.negate(given.arguments[0])


def _same(given: Call) -> Value:
    return numerics.computable(given.arguments[0])


def _absolute(given: Call) -> Value:
    value = numerics.computable(given.arguments[0])
    return numerics.make(call("abs", value.sql), value.held.precision, value.held.scale, value.held.display or 0)


def _sign(given: Call) -> Value:
    value = numerics.computable(given.arguments[0])
    sql = case(
        (binary(">", value.sql, raw("0BD")), raw("1BD")),
        (binary("<", value.sql, raw("0BD")), raw("(-1BD)")),
        (binary("=", value.sql, raw("0BD")), raw("0BD")),
    )
    return numerics.make(sql, 1, 0, 0)


def _whole_quotient(given: Call) -> Value:
    """div(a, b): (a - a % b) / b, which is whole."""
    left, right = (numerics.computable(value) for value in given.arguments)
    remainder = numerics.add("%", left, right)
    return numerics.rounded(numerics.divide(numerics.add("-", left, remainder), right), 0, "trunc")


ROWS: Final[tuple[Row, ...]] = (
    row("numeric_add(numeric,numeric)", _arithmetic("+"), "SELECT id, n + m, n + 1.000, f + 1 FROM decimals "
        "WHERE abs(f) < 1e15"),
    row("numeric_sub(numeric,numeric)", _arithmetic("-"), "SELECT id, n - m, 1 - n, f - n FROM decimals "
        "WHERE abs(f) < 1e15"),
    row("numeric_mul(numeric,numeric)", _arithmetic("*"), "SELECT id, n * m, n * n, n * 0.5, f * 2 FROM decimals "
        "WHERE abs(f) < 1e9"),
    row("numeric_div(numeric,numeric)", _arithmetic("/"), "SELECT id, n / 3, n / 7.00, 1 / n FROM decimals "
        "WHERE n <> 0", "SELECT id, n / m, m / n FROM decimals WHERE n <> 0 AND m <> 0", "SELECT n / 0 FROM decimals",
        "SELECT id, 100 * n / 30, (n / 3) / 7, n / 3 * 3 FROM decimals", "SELECT id, f / 3 FROM decimals "
        "WHERE abs(f) < 1e9", "SELECT id, 1.0 / id, 2 / id::numeric, 1e4 / id, 9999 / (id * 1.0) FROM decimals",
        "SELECT id, (n::text)::numeric + 1, (n::text)::numeric FROM decimals",
        "SELECT id, n / 1000000, n / 99999, 12345.678 / (id * id * id * 1.5) FROM decimals"),
    row("numeric_mod(numeric,numeric)", _arithmetic("%"), "SELECT id, n % 3, n % 0.7, m % n FROM decimals "
        "WHERE n <> 0", "SELECT n % 0 FROM decimals"),
    row("mod(numeric,numeric)", _arithmetic("%"), "SELECT id, mod(n, 3) FROM decimals"),
    row("div(numeric,numeric)", _whole_quotient, "SELECT id, div(n, 3), div(n, 0.7) FROM decimals"),
    row("numeric_uminus(numeric)", _negative, "SELECT id, -n, -m, -(n / 3) FROM decimals"),
    row("numeric_uplus(numeric)", _same, "SELECT id, +n FROM decimals"),
    row("abs(numeric)", _absolute, "SELECT id, abs(n), abs(n / 3) FROM decimals"),
    row("numeric_abs(numeric)", _absolute, "SELECT id, @n FROM decimals"),
    row("sign(numeric)", _sign, "SELECT id, sign(n) FROM decimals"),
    row("round(numeric)", _rounding("round"), "SELECT id, round(n), round(n + 0.5), round(n / 3) FROM decimals"),
    row("round(numeric,int4)", _rounding("round"), "SELECT id, round(n, 1), round(n, 0), round(n, 5) FROM decimals",
        "SELECT id, round(n / 3, 2), round(avg(n) OVER (), 2) FROM decimals"),
    row("trunc(numeric)", _rounding("trunc"), "SELECT id, trunc(n), trunc(n / 3) FROM decimals"),
    row("trunc(numeric,int4)", _rounding("trunc"),
        "SELECT id, trunc(n, 1), trunc(n / 3, 3), trunc(n, 4) FROM decimals"),
    row("ceil(numeric)", _rounding("ceil"), "SELECT id, ceil(n), ceil(n / 3) FROM decimals"),
    row("ceiling(numeric)", _rounding("ceil"), "SELECT id, ceiling(n) FROM decimals"),
    row("floor(numeric)", _rounding("floor"), "SELECT id, floor(n), floor(n / 3) FROM decimals"),
)  # fmt: skip
