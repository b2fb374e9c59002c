"""The Arrow form of a lake column."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from catalog import datatypes
from catalog.datatypes import DECIMAL_DIGITS_MAX, element_type, kind_of, numeric_precision_scale
from catalog.errors import unsupported

INTERVAL: Final = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])
# A value of a type that lake tables lack, as PostgreSQL has written it; it has no binary form where the type has none.
WRITTEN: Final = pa.struct([("text", pa.string()), ("binary", pa.binary())])
TIMESTAMP: Final = pa.timestamp("us")
TIMESTAMPTZ: Final = pa.timestamp("us", "UTC")

_FORMS: Final = {
    datatypes.BOOL: pa.bool_(),
    datatypes.BYTEA: pa.binary(),
    datatypes.INT8: pa.int64(),
    datatypes.INT2: pa.int16(),
    datatypes.INT4: pa.int32(),
    datatypes.TEXT: pa.string(),
    datatypes.JSON: pa.string(),
    datatypes.FLOAT4: pa.float32(),
    datatypes.FLOAT8: pa.float64(),
    datatypes.BPCHAR: pa.string(),
    datatypes.VARCHAR: pa.string(),
    datatypes.DATE: pa.date32(),
    datatypes.TIME: pa.time64("us"),
    datatypes.TIMESTAMP: TIMESTAMP,
    datatypes.TIMESTAMPTZ: TIMESTAMPTZ,
    datatypes.INTERVAL: INTERVAL,
    datatypes.NUMERIC: pa.string(),
    datatypes.UUID: pa.string(),
    datatypes.JSONB: pa.string(),
    datatypes.ANYENUM: pa.string(),
    datatypes.CARRIED: pa.string(),
}
assert set(_FORMS) == {*datatypes.BY_OID, datatypes.ANYENUM, datatypes.CARRIED}, "a type has no Arrow form"


def arrow_form(type_oid: int, typmod: int) -> pa.DataType:
    """As `catalog.datatypes.lake_form` says, in Arrow. Raises 0A000 for a type that lake tables lack."""
    element = element_type(type_oid)
    if element is not None:
        return pa.list_(arrow_form(element.oid, typmod))
    if type_oid == datatypes.NUMERIC:
        declared = numeric_precision_scale(typmod)
        if declared is not None and 1 <= declared[0] <= DECIMAL_DIGITS_MAX and 0 <= declared[1] <= declared[0]:
            return pa.decimal128(*declared)
    form = _FORMS.get(kind_of(type_oid))
    if form is None:
        raise unsupported(f"a column of the type with OID {type_oid}")
    return form
