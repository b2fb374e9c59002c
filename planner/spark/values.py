"""A translated expression: its Spark form together with its PostgreSQL type.

numeric needs more than a type. Spark's decimals have one scale per column. PostgreSQL's numerics have a display scale
per value, which is part of the text that a client sees. So a numeric is held in one of three ways (`Decimal.display`):

- an int: a Spark DECIMAL(precision, scale), and every value is displayed with exactly `scale` digits;
- an expression: a Spark DECIMAL, displayed with as many digits as the (INT) expression says, row by row;
- None: a STRING with PostgreSQL's own text of the value, as columns of plain `numeric` are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from catalog.datatypes import (
    BOOL,
    BPCHAR,
    BY_OID,
    CARRIED,
    DATE,
    DECIMAL_DIGITS_MAX,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    JSON,
    JSONB,
    NUMERIC,
    OID,
    TEXT,
    TID,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    VARCHAR,
    element_type,
    is_enumeration,
    lake_form,
    numeric_precision_scale,
)
from catalog.errors import unsupported
from planner.spark.builders import Expression, cast

INTEGERS: Final = frozenset({INT2, INT4, INT8})
FLOATS: Final = frozenset({FLOAT4, FLOAT8})
STRINGS: Final = frozenset({TEXT, VARCHAR, BPCHAR, JSON, JSONB, UUID, UNKNOWN})
INTEGER_DIGITS: Final = {INT2: 5, INT4: 10, INT8: 19}


class Missing:
    """The constant of a value that is not constant."""


MISSING: Final = Missing()


@dataclass(frozen=True, slots=True)
class Decimal:
    """How a numeric is held: see the module's docstring. `precision` and `scale` are those of the Spark type."""

    precision: int
    scale: int
    display: int | Expression | None

    @property
    def is_text(self) -> bool:
        return self.display is None

    @property
    def integer_digits(self) -> int:
        return max(self.precision - self.scale, 0)

    @property
    def spark_type(self) -> str:
        return "STRING" if self.display is None else f"DECIMAL({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Value:
    """`sql` computes the value in lake form. `constant` is the Python value if it is known while planning.

    `typmod` is that of the type (-1: none). `decimal` is set exactly if `type_oid` is numeric.
    """

    sql: Expression
    type_oid: int
    typmod: int = -1
    decimal: Decimal | None = None
    constant: Any = MISSING

    @property
    def is_constant(self) -> bool:
        return self.constant is not MISSING

    @property
    def pair(self) -> Expression | None:
        """The struct from which both a numeric and its display scale are read; None if there is none."""
        display = self.held.display
        if isinstance(self.sql, exp.Dot) and isinstance(display, exp.Dot) and self.sql.this is display.this:
            pair: Expression = self.sql.args["this"]
            return pair
        return None

    @property
    def held(self) -> Decimal:
        """How this numeric is held."""
        assert self.decimal is not None
        return self.decimal


def spark_type(type_oid: int, decimal: Decimal | None = None) -> str:
    """Return the Spark type of a value of this PostgreSQL type. 0A000 if there is none."""
    if decimal is not None:
        return decimal.spark_type
    if type_oid in (UNKNOWN, CARRIED):
        return "STRING"
    if type_oid in (OID, TID):
        return "BIGINT"
    element = element_type(type_oid)
    if element is not None:
        return f"ARRAY<{spark_type(element.oid)}>"
    if type_oid not in BY_OID and not is_enumeration(type_oid):
        raise unsupported(f"the type with OID {type_oid}")
    return lake_form(type_oid, -1).spark


def static(precision: int, scale: int) -> Decimal:
    """Return the form of numerics of one scale; 0A000 if Spark has no such decimal."""
    if scale > DECIMAL_DIGITS_MAX:
        raise unsupported(f"a numeric with {scale} digits after the decimal point")
    return Decimal(min(max(precision, scale, 1), DECIMAL_DIGITS_MAX), scale, scale)


def stored(sql: Expression, type_oid: int, typmod: int) -> Value:
    """Return a value as a lake column of this type and typmod holds it."""
    if type_oid != NUMERIC:
        return Value(sql, type_oid, typmod)
    declared = numeric_precision_scale(typmod)
    if declared is not None and declared[0] <= DECIMAL_DIGITS_MAX and 0 <= declared[1] <= declared[0]:
        precision, scale = declared
        return Value(sql, type_oid, typmod, Decimal(precision, scale, scale))
    return Value(sql, type_oid, typmod, Decimal(0, 0, None))


def null_value(type_oid: int, typmod: int = -1) -> Value:
    """Return a NULL of this type."""
    decimal = Decimal(1, 0, 0) if type_oid == NUMERIC else None
    return Value(cast(exp.Null(), spark_type(type_oid, decimal)), type_oid, typmod, decimal, None)


__all__ = [
    "BOOL", "BPCHAR", "DATE", "FLOAT4", "FLOAT8", "FLOATS", "INT2", "INT4", "INT8", "INTEGERS", "INTEGER_DIGITS",
    "INTERVAL", "JSON", "JSONB", "MISSING", "NUMERIC", "OID", "STRINGS", "TEXT", "TIME", "TIMESTAMP", "TIMESTAMPTZ",
    "UNKNOWN", "UUID", "VARCHAR", "Decimal", "Missing", "Value", "null_value", "spark_type", "static", "stored",
]  # fmt: skip
