"""Python values, as `planner.tree.datum` reads them, as exact Spark literals."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any, Final

from catalog.datatypes import (
    BOOL,
    BPCHAR,
    BYTEA,
    DATE,
    DECIMAL_DIGITS_MAX,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    OID,
    TID,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    element_type,
    is_enumeration,
)
from catalog.errors import unsupported
from planner.spark.builders import Expression, call, cast, raw, string, struct
from planner.spark.builders import boolean as boolean_literal
from planner.spark.values import STRINGS, Decimal, Value, null_value, spark_type
from planner.tree.datum import Infinite, Interval

# The lake's infinities (see `planner.spark.plan`), as Spark can spell them.
_INFINITE: Final[dict[tuple[int, bool], str]] = {
    (DATE, True): "DATE'+5881580-07-11'",
    (DATE, False): "DATE'-5877641-06-24'",
    (TIMESTAMP, True): "TIMESTAMP_NTZ'+294247-01-10 04:00:54.775807'",
    (TIMESTAMP, False): "TIMESTAMP_NTZ'-290308-12-21 19:59:05.224193'",
    (TIMESTAMPTZ, True): "TIMESTAMP_LTZ'+294247-01-10 04:00:54.775807Z'",
    (TIMESTAMPTZ, False): "TIMESTAMP_LTZ'-290308-12-21 19:59:05.224193Z'",
}


def literal(value: Any, type_oid: int, typmod: int = -1) -> Value:
    """Return the constant `value` (None: NULL) of this type."""
    if value is None:
        return null_value(type_oid, typmod)
    if type_oid == NUMERIC:
        held = decimal_of(value)
        if held is None:  # Spark has no such literal, but it may be printed, or folded away
            return Value(string(format(value, "f")), type_oid, typmod, Decimal(0, 0, None), value)
        return Value(_signed(format(value, "f") + "BD"), type_oid, typmod, held, value)
    return Value(_sql(value, type_oid), type_oid, typmod, None, value)


def decimal_of(value: decimal.Decimal) -> Decimal | None:
    """Return the Spark decimal that holds exactly this constant, trailing zeros included; None if there is none."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = -exponent
    if max(len(digits), scale) > DECIMAL_DIGITS_MAX:
        return None
    return Decimal(max(len(digits), scale, 1), scale, scale)


def _sql(value: Any, type_oid: int) -> Expression:
    if isinstance(value, Infinite):
        return raw(_INFINITE[type_oid, value.positive])
    if type_oid in STRINGS or is_enumeration(type_oid):
        return string(value)
    element = element_type(type_oid)
    if element is not None:
        items = [literal(item, element.oid) for item in value]
        if element.oid == NUMERIC:
            raise unsupported("a numeric array constant")
        return cast(call("array", *(item.sql for item in items)), spark_type(type_oid))
    writer = _WRITERS.get(type_oid)
    if writer is None:
        raise unsupported(f"a constant of the type with OID {type_oid}")
    return writer(value)  # type: ignore[no-any-return]


def _signed(text: str) -> Expression:
    return raw(f"({text})" if text.startswith("-") else text)


def _float(value: float, spark: str) -> Expression:
    if math.isnan(value):
        text = "NaN"
    elif math.isinf(value):
        text = "Infinity" if value > 0 else "-Infinity"
    else:
        text = repr(value)
    return cast(string(text), spark)


def _timestamp(value: datetime.datetime) -> str:
    return value.replace(tzinfo=None).isoformat(sep=" ")


def _interval(value: Interval) -> Expression:
    return struct(
        months=_signed(str(value.months)), days=_signed(str(value.days)), microseconds=_signed(f"{value.microseconds}L")
    )


_WRITERS: Final[dict[int, Any]] = {
    BOOL: boolean_literal,
    INT2: lambda value: _signed(f"{value}S"),
    # -2147483648 is one token to Spark's parser, and an INT
    INT4: lambda value: _signed(str(value)),
    INT8: lambda value: _signed(f"{value}L"),
    OID: lambda value: _signed(f"{value}L"),
    TID: lambda value: raw(f"{value}L"),
    FLOAT4: lambda value: _float(value, "FLOAT"),
    FLOAT8: lambda value: _float(value, "DOUBLE"),
    BYTEA: lambda value: raw(f"X'{value.hex()}'"),
    DATE: lambda value: raw(f"DATE'{value.isoformat()}'"),
    TIME: lambda value: raw(f"TIME'{value.isoformat()}'"),
    TIMESTAMP: lambda value: raw(f"TIMESTAMP_NTZ'{_timestamp(value)}'"),
    TIMESTAMPTZ: lambda value: raw(f"TIMESTAMP_LTZ'{_timestamp(value)}Z'"),
    INTERVAL: _interval,
    BPCHAR: string,
}
