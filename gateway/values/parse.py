"""Columns of PostgreSQL's input texts to lake form: one row of `_PARSE` per type, and arrays of them.

The rule of all of them: canonical spellings are converted whole columns at a time; anything else is refused, and
PostgreSQL itself judges it. Never is taken what PostgreSQL would not take, nor as another value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog import datatypes
from catalog.datatypes import element_type, kind_of
from gateway.values.cells import Mask, as_binary, lengths_of, valid_mask
from gateway.values.converted import Converted, refused_of
from gateway.values.escape import contains
from gateway.values.forms import arrow_form
from gateway.values.parse_datetimes import date_in, interval_in, time_in, timestamp_in, timestamptz_in
from gateway.values.parse_numbers import float_in, integer_in, numeric_in
from gateway.values.parse_strings import boolean_in, bytea_in, string_in, uuid_in

ParseFunction = Callable[[pa.StringArray, int, str], Converted]

_PARSE: Final[Mapping[int, ParseFunction]] = {
    datatypes.BOOL: lambda array, *_: boolean_in(array),
    datatypes.BYTEA: lambda array, *_: bytea_in(array),
    datatypes.INT8: lambda array, *_: integer_in(array, pa.int64()),
    datatypes.INT2: lambda array, *_: integer_in(array, pa.int16()),
    datatypes.INT4: lambda array, *_: integer_in(array, pa.int32()),
    datatypes.TEXT: lambda array, typmod, _: string_in(array, datatypes.TEXT, typmod),
    datatypes.JSON: lambda array, typmod, _: string_in(array, datatypes.JSON, typmod),
    datatypes.FLOAT4: lambda array, *_: float_in(array, pa.float32()),
    datatypes.FLOAT8: lambda array, *_: float_in(array, pa.float64()),
    datatypes.BPCHAR: lambda array, typmod, _: string_in(array, datatypes.BPCHAR, typmod),
    datatypes.VARCHAR: lambda array, typmod, _: string_in(array, datatypes.VARCHAR, typmod),
    datatypes.DATE: date_in,
    datatypes.TIME: time_in,
    datatypes.TIMESTAMP: timestamp_in,
    datatypes.TIMESTAMPTZ: timestamptz_in,
    datatypes.INTERVAL: interval_in,
    datatypes.NUMERIC: lambda array, typmod, _: numeric_in(array, typmod),
    datatypes.UUID: lambda array, *_: uuid_in(array),
    datatypes.JSONB: lambda array, typmod, _: string_in(array, datatypes.JSONB, typmod),
    datatypes.ANYENUM: lambda array, typmod, _: string_in(array, datatypes.ANYENUM, typmod),
    datatypes.CARRIED: lambda array, typmod, _: string_in(array, datatypes.CARRIED, typmod),
}
assert set(_PARSE) == {*datatypes.BY_OID, datatypes.ANYENUM, datatypes.CARRIED}, "a type cannot be parsed"


def convert_text(column: pa.StringArray, type_oid: int, typmod: int, timezone: str = "UTC") -> Converted:
    """A column of PostgreSQL input texts in lake form. `timezone` reads timestamptz that carry no offset.

    IntervalStyle must be one in which a leading sign is of its own field alone (any but sql_standard).
    Raises 0A000 for a type that lake tables lack.
    """
    kind = arrow_form(type_oid, typmod)
    element = element_type(type_oid)
    if element is not None:
        return _array_in(column, element.oid, typmod, timezone, kind)
    return _PARSE[kind_of(type_oid)](column, typmod, timezone)


# What makes an array anything but `{a,b,NULL}`: quotes, escapes, blanks, dimensions, braces within braces.
_COMPLICATED: Final = np.zeros(256, np.bool_)
_COMPLICATED[list(b'"\\ \t\n\r\v\f=[]')] = True
_BRACES: Final = r"^\{[^{}]*\}$"


def _array_in(column: pa.StringArray, element_oid: int, typmod: int, timezone: str, kind: pa.DataType) -> Converted:
    """Plain arrays of one dimension; all others are refused."""
    good = pc.match_substring_regex(column, _BRACES).fill_null(False).to_numpy(zero_copy_only=False)
    complicated = contains(as_binary(column), _COMPLICATED)
    if complicated is not None:
        good &= ~complicated
    valid = valid_mask(column)
    kept = column if good.all() else pc.if_else(pa.array(good), column, pa.scalar(None, pa.string()))
    inner = pc.utf8_slice_codeunits(kept, 1, -1)
    lists = pc.split_pattern(inner, ",")
    empty = pc.equal(inner, "").fill_null(False).to_numpy(zero_copy_only=False)
    counts = np.where(good & ~empty, pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False), 0)
    texts = lists.filter(pa.array(good & ~empty)).flatten()
    null = pc.equal(pc.ascii_lower(texts), "null")
    texts = pc.if_else(null, pa.scalar(None, pa.string()), texts)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    made = convert_text(texts, element_oid, typmod, timezone)
    owners = np.searchsorted(ends, np.arange(len(texts)), side="right") - 1
    bad: Mask = lengths_of(texts) == 0  # `{a,,b}`, unless it is a null
    bad &= ~null.to_numpy(zero_copy_only=False)
    if made.refused is not None:
        bad |= made.refused.to_numpy(zero_copy_only=False)
    good[owners[bad]] = False
    missing = ~good
    result = pa.ListArray.from_arrays(
        pa.array(ends.astype(np.int32)), made.array, type=kind, mask=pa.array(missing) if missing.any() else None
    )
    return Converted(result, refused_of(valid, good if valid is None else good | ~valid))
