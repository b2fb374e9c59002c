"""smallint, integer, bigint: arithmetic. Spark's ANSI mode raises on overflow, as PostgreSQL does."""

from __future__ import annotations

from typing import Final

from catalog.datatypes import BY_OID
from catalog.errors import SqlState
from planner.functions.call import Build, Call, Row, row
from planner.spark.builders import Expression, and_, binary, call, case, cast, is_not_null, marked, raise_error, raw
from planner.spark.values import Value, spark_type

_NAMES: Final = {"int2": "int2", "int4": "int4", "int8": "int8"}
_COLUMN: Final = {"int2": "s", "int4": "i", "int8": "b"}


def _arithmetic(operator: str) -> Build:
    def build(given: Call) -> Value:
        left, right = _operands(given)
        wide = spark_type(given.result_type)
        if operator == "DIV":
            return given.result(cast(binary("DIV", left, right), wide))
        # Spark widens to the wider operand, as PostgreSQL's mixed operators do.
        return given.result(binary(operator, left, right))

    return build


def _operands(given: Call) -> tuple[Expression, Expression]:
    left, right = given.sql
    return marked(left, BY_OID[given.result_type].sql_name), right


def _negative(given: Call) -> Value:
    """Subtract from zero, so that the operand is written once, however deeply these nest."""
    kind = BY_OID[given.result_type]
    zero = cast(raw("0"), spark_type(given.result_type))
    return given.result(binary("-", marked(zero, kind.sql_name), given.sql[0]))


def _absolute(given: Call) -> Value:
    return given.result(_but_least(given, call("abs", given.sql[0])))


def _but_least(given: Call, result: Expression) -> Expression:
    """Raise for the type's least value, which has no result. Spark's own error does not name the type."""
    kind = BY_OID[given.result_type]
    least = raw(f"({-(1 << 8 * kind.length - 1)})")
    error = raise_error(SqlState.NUMERIC_VALUE_OUT_OF_RANGE, f"{kind.sql_name} out of range")
    return case((binary("=", given.sql[0], least), error), default=result)


def _same(given: Call) -> Value:
    return given.result(given.sql[0])


def _extreme(name: str) -> Build:
    """Return the larger or smaller; NULL if either is, unlike Spark's greatest and least."""

    def build(given: Call) -> Value:
        left, right = given.sql
        return given.result(case((and_(is_not_null(left), is_not_null(right)), call(name, left, right))))

    return build


def _modulo(given: Call) -> Value:
    left, right = given.sql
    return given.result(cast(binary("%", left, right), spark_type(given.result_type)))


_SIGNATURES: Final = {
    ("int2", "int2"): ("int2pl", "int2mi", "int2mul", "int2div"),
    ("int4", "int4"): ("int4pl", "int4mi", "int4mul", "int4div"),
    ("int8", "int8"): ("int8pl", "int8mi", "int8mul", "int8div"),
    ("int2", "int4"): ("int24pl", "int24mi", "int24mul", "int24div"),
    ("int4", "int2"): ("int42pl", "int42mi", "int42mul", "int42div"),
    ("int2", "int8"): ("int28pl", "int28mi", "int28mul", "int28div"),
    ("int8", "int2"): ("int82pl", "int82mi", "int82mul", "int82div"),
    ("int4", "int8"): ("int48pl", "int48mi", "int48mul", "int48div"),
    ("int8", "int4"): ("int84pl", "int84mi", "int84mul", "int84div"),
}
_OPERATORS: Final = ("+", "-", "*", "DIV")


def _arithmetic_rows() -> list[Row]:
    rows = []
    for (left, right), names in _SIGNATURES.items():
        for name, operator in zip(names, _OPERATORS, strict=True):
            symbol = "/" if operator == "DIV" else operator
            a, b = _COLUMN[left], _COLUMN[right]
            rows.append(
                row(
                    f"{name}({left},{right})",
                    _arithmetic(operator),
                    f"SELECT id, {a} {symbol} 7::{right} FROM integers WHERE abs({a}::numeric) < 1000",
                    f"SELECT id, {a} {symbol} {b} FROM integers WHERE {b} <> 0 AND abs({a}::numeric) < 100 "
                    f"AND abs({b}::numeric) < 100",
                    f"SELECT {a} {symbol} 0::{right} FROM integers WHERE id = 1",
                    f"SELECT {a} {symbol} {a}::{right} FROM integers WHERE id = 3",
                )
            )
    return rows


def _unary_rows() -> list[Row]:
    rows = []
    for name in _NAMES:
        a = _COLUMN[name]
        rows += [
            row(f"{name}um({name})", _negative, f"SELECT id, -{a} FROM integers WHERE id <> 4",
                f"SELECT -{a} FROM integers WHERE id = 4"),
            row(f"{name}up({name})", _same, f"SELECT id, +{a} FROM integers"),
            row(f"abs({name})", _absolute, f"SELECT id, abs({a}) FROM integers WHERE id <> 4",
                f"SELECT abs({a}) FROM integers WHERE id = 4"),
            row(f"{name}abs({name})", _absolute, f"SELECT id, @{a} FROM integers WHERE id <> 4"),
            row(f"{name}mod({name},{name})", _modulo, f"SELECT id, {a} % 7::{name} FROM integers",
                f"SELECT id, {a} % (-7)::{name} FROM integers", f"SELECT {a} % 0::{name} FROM integers WHERE id = 1",
                f"SELECT id, {a} % (-1)::{name} FROM integers"),
            row(f"mod({name},{name})", _modulo, f"SELECT id, mod({a}, 3::{name}) FROM integers"),
            row(f"{name}and({name},{name})", lambda given: given.result(binary("&", *given.sql)),
                f"SELECT id, {a} & 6::{name} FROM integers"),
            row(f"{name}or({name},{name})", lambda given: given.result(binary("|", *given.sql)),
                f"SELECT id, {a} | 6::{name} FROM integers"),
            row(f"{name}xor({name},{name})", lambda given: given.result(binary("^", *given.sql)),
                f"SELECT id, {a} # 6::{name} FROM integers"),
            row(f"{name}larger({name},{name})", _extreme("greatest"),
                f"SELECT id, {name}larger({a}, 5::{name}) FROM integers"),
            row(f"{name}smaller({name},{name})", _extreme("least"),
                f"SELECT id, {name}smaller({a}, 5::{name}) FROM integers"),
        ]  # fmt: skip
    return rows


ROWS: Final[tuple[Row, ...]] = (*_arithmetic_rows(), *_unary_rows())
