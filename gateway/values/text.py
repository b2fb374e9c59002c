"""Columns in PostgreSQL's text format: one row of `TEXT` per type, and arrays of them.

Source: the types' output functions; for arrays `array_out` in PostgreSQL's arrayfuncs.c.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog import datatypes
from catalog.errors import unsupported
from gateway.values.cells import as_binary, choose, integers_of, joined, merged, offsets_of, overlaid, valid_mask
from gateway.values.datetimes import date_text, time_text, timestamp_text, timestamptz_text
from gateway.values.escape import ByteTable, bytea_escaped, contains, hexadecimal
from gateway.values.floats import float_text
from gateway.values.intervals import interval_text
from gateway.values.numerics import numeric_text
from gateway.values.settings import OutputSettings

TextFunction = Callable[[pa.Array, OutputSettings], pa.BinaryArray]


def _integer(array: pa.Array, settings: OutputSettings) -> pa.BinaryArray:  # noqa: ARG001
    return as_binary(array.cast(pa.string()))


def _boolean(array: pa.Array, settings: OutputSettings) -> pa.BinaryArray:  # noqa: ARG001
    return choose((b"f", b"t"), integers_of(array.cast(pa.uint8()), np.uint8))


def _string(array: pa.Array, settings: OutputSettings) -> pa.BinaryArray:  # noqa: ARG001
    return as_binary(array)


def _bytea(array: pa.Array, settings: OutputSettings) -> pa.BinaryArray:
    if settings.bytea_output.lower() == "escape":
        return bytea_escaped(as_binary(array))
    return joined(b"\\x", hexadecimal(as_binary(array)))


def _float(array: pa.Array, settings: OutputSettings) -> pa.BinaryArray:
    return float_text(array, settings.extra_float_digits)


def _numeric(array: pa.Array, settings: OutputSettings) -> pa.BinaryArray:  # noqa: ARG001
    return numeric_text(array)


def _tid(array: pa.Array, settings: OutputSettings) -> pa.BinaryArray:
    numbers = integers_of(array)
    block, offset = (_integer(pa.array(part), settings) for part in (numbers >> 16, numbers & 0xFFFF))
    return joined(b"(", block, b",", offset, b")")


TEXT: Final[Mapping[int, TextFunction]] = {
    datatypes.BOOL: _boolean,
    datatypes.BYTEA: _bytea,
    datatypes.INT8: _integer,
    datatypes.INT2: _integer,
    datatypes.INT4: _integer,
    datatypes.OID: _integer,
    datatypes.TEXT: _string,
    datatypes.TID: _tid,
    datatypes.JSON: _string,
    datatypes.FLOAT4: _float,
    datatypes.FLOAT8: _float,
    datatypes.NAME: _string,
    datatypes.UNKNOWN: _string,
    datatypes.BPCHAR: _string,
    datatypes.VARCHAR: _string,
    datatypes.DATE: date_text,
    datatypes.TIME: time_text,
    datatypes.TIMESTAMP: timestamp_text,
    datatypes.TIMESTAMPTZ: timestamptz_text,
    datatypes.INTERVAL: interval_text,
    datatypes.NUMERIC: _numeric,
    datatypes.UUID: _string,
    datatypes.JSONB: _string,
    datatypes.ANYENUM: _string,
    datatypes.CARRIED: _string,
}
assert set(TEXT) >= {*datatypes.BY_OID, datatypes.ANYENUM, datatypes.CARRIED}, "a type has no text form"


def text_cells(array: pa.Array, type_oid: int, settings: OutputSettings) -> pa.BinaryArray:
    """A column in cells; what is under nulls means nothing. Raises 0A000 for a type that lake tables lack."""
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
        type_oid = datatypes.TEXT
    element = datatypes.element_type(type_oid)
    if element is not None:
        return _array_text(array, element.oid, settings)
    function = TEXT.get(datatypes.kind_of(type_oid))
    if function is None:
        raise unsupported(f"a result column of the type with OID {type_oid}")
    return function(array, settings)


_BRACKETS: Final = (b"{", b"}", b",", b"NULL")
_OPEN, _CLOSE, _COMMA, _NULL = range(4)
_QUOTED_BYTES: Final = np.zeros(256, np.bool_)
_QUOTED_BYTES[list(b'"\\{}, \t\n\r\v\f')] = True
_ELEMENT_ESCAPES: Final = ByteTable({ord('"'): b'\\"', ord("\\"): b"\\\\"})


def _array_text(array: pa.Array, element_oid: int, settings: OutputSettings) -> pa.BinaryArray:
    """`{a,"b c",NULL}`; one dimension, for lake tables have no more."""
    starts, counts, elements = list_layout(array)
    quoted = _quoted(text_cells(elements, element_oid, settings))
    valid = valid_mask(elements)
    specials = len(elements)
    pieces = pa.concat_arrays([quoted, pa.array(_BRACKETS, pa.binary())])
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.maximum(2 * counts + 1, 2))))
    index = np.full(int(bounds[-1]), specials + _COMMA, np.int32)
    index[bounds[:-1]] = specials + _OPEN
    index[bounds[1:] - 1] = specials + _CLOSE
    numbers = np.arange(len(elements), dtype=np.int32)
    places = np.repeat(bounds[:-1] + 1 - 2 * starts, counts) + 2 * numbers.astype(np.int64)
    index[places] = numbers if valid is None else np.where(valid, numbers, specials + _NULL)
    return merged(pieces, index, bounds)


def list_layout(
    array: pa.ListArray,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]], pa.Array]:
    """(place of each list's first element, number of its elements, all elements); a null list has none."""
    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    if not pa.types.is_list(array.type):
        raise unsupported(f"an array column in the Arrow form {array.type}")
    counts = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(counts)
    return ends - counts, counts, array.flatten()


def _quoted(cells: pa.BinaryArray) -> pa.BinaryArray:
    """Elements as `array_out` quotes them."""
    offsets = offsets_of(cells)
    lengths = np.diff(offsets)
    needed = lengths == 0
    found = contains(cells, _QUOTED_BYTES)
    if found is not None:
        needed |= found
    words = lengths == 4
    if words.any():
        places = np.flatnonzero(words)
        lowered = pc.equal(pc.ascii_lower(cells.take(pa.array(places)).cast(pa.string(), safe=False)), "null")
        needed[places[lowered.to_numpy(zero_copy_only=False)]] = True
    if not needed.any():
        return cells
    places = np.flatnonzero(needed)
    return overlaid(cells, places, joined(b'"', _ELEMENT_ESCAPES.apply(cells.take(pa.array(places))), b'"'))
