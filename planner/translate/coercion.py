"""Casts that PostgreSQL leaves to its planner: the columns of set operations, converted to their common type."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from catalog.datatypes import BPCHAR, DATE, FLOAT4, FLOAT8, INT2, INT4, INT8, NUMERIC, TEXT, TIMESTAMP, UNKNOWN, VARCHAR
from catalog.errors import unsupported
from planner.functions import registry
from planner.functions.call import Call
from planner.spark.plan import Context
from planner.spark.values import Value, null_value

# Implicit casts (pg_cast.castcontext = 'i') that are functions, by source and target.
_FUNCTIONS: Final = {
    **{
        (source, target): f"{target_name}({source_name})"
        for source, source_name in ((INT2, "int2"), (INT4, "int4"), (INT8, "int8"))
        for target, target_name in ((INT4, "int4"), (INT8, "int8"), (NUMERIC, "numeric"), (FLOAT4, "float4"),
                                    (FLOAT8, "float8"))
        if source != target
    },
    (NUMERIC, FLOAT8): "float8(numeric)",
    (FLOAT4, FLOAT8): "float8(float4)",
    (BPCHAR, TEXT): "text(bpchar)",
    (BPCHAR, VARCHAR): "text(bpchar)",
    (DATE, TIMESTAMP): "timestamp(date)",
}  # fmt: skip
_SAME_BITS: Final = frozenset({(VARCHAR, TEXT), (TEXT, VARCHAR), (TEXT, BPCHAR), (VARCHAR, BPCHAR), (UNKNOWN, TEXT)})


def implicit(value: Value, type_oid: int, typmod: int, context: Context) -> Value:
    """Return the value as the type; 0A000 for a cast that is not known here."""
    if value.type_oid == type_oid:
        return value
    if value.constant is None:
        return null_value(type_oid, typmod)
    if (value.type_oid, type_oid) in _SAME_BITS:
        return replace(value, type_oid=type_oid, typmod=typmod)
    signature = _FUNCTIONS.get((value.type_oid, type_oid))
    if signature is None:
        names = context.builtins
        raise unsupported(f"a cast from {names.type_name(value.type_oid)} to {names.type_name(type_oid)} here")
    result = registry.FUNCTIONS[signature].build(Call(signature, (value,), type_oid, context.session))
    return replace(result, type_oid=type_oid)
