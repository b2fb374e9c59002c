"""Columns in PostgreSQL's binary format: one row of `BINARY` per type, and arrays of them.

Source: the types' send functions; for arrays `array_send` in PostgreSQL's arrayfuncs.c. Numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog import datatypes
from catalog.errors import SluiceError, SqlState, unsupported
from gateway.values.calendar import DATE_INFINITY, EPOCH_2000_DAYS, EPOCH_2000_MICROSECONDS, TIMESTAMP_INFINITY
from gateway.values.cells import as_binary, fixed, integers_of, joined, lengths_of, merged, padded_matrix, valid_mask
from gateway.values.intervals import interval_parts
from gateway.values.numerics import numeric_binary
from gateway.values.text import list_layout

BinaryFunction = Callable[[pa.Array], pa.BinaryArray]


def _integer(arrow: pa.DataType, form: str) -> BinaryFunction:
    return lambda array: fixed(integers_of(array.cast(arrow), np.dtype(form).newbyteorder("=")).astype(form))


def _float(arrow: pa.DataType, form: str) -> BinaryFunction:
    return lambda array: fixed(integers_of(array.cast(arrow), np.dtype(form).newbyteorder("=")).astype(form))


def _boolean(array: pa.Array) -> pa.BinaryArray:
    return fixed(integers_of(array.cast(pa.uint8()), np.uint8))


def _jsonb(array: pa.Array) -> pa.BinaryArray:
    return joined(b"\x01", as_binary(array))


_INT32_LOWEST: Final = -(2**31)
_INT64_LOWEST: Final = -(2**63)


def _date(array: pa.Array) -> pa.BinaryArray:
    days = integers_of(array.cast(pa.date32()), np.int32).astype(np.int64)
    sent = days - EPOCH_2000_DAYS
    sent[days >= DATE_INFINITY] = DATE_INFINITY
    sent[days <= -DATE_INFINITY] = _INT32_LOWEST
    return fixed(sent.astype(">i4"))


_TID: Final = np.dtype([("block", ">u4"), ("offset", ">u2")])


def _tid(array: pa.Array) -> pa.BinaryArray:
    numbers = integers_of(array)
    record = np.empty(len(array), _TID)
    record["block"], record["offset"] = numbers >> 16, numbers & 0xFFFF
    return fixed(record)


def _time(array: pa.Array) -> pa.BinaryArray:
    return fixed(integers_of(array.cast(pa.time64("us"))).astype(">i8"))


def _timestamp(array: pa.Array) -> pa.BinaryArray:
    instants = integers_of(array.cast(pa.timestamp("us", array.type.tz)))
    low = instants <= -TIMESTAMP_INFINITY
    sent = np.where(low, 0, instants) - EPOCH_2000_MICROSECONDS
    sent[instants >= TIMESTAMP_INFINITY] = TIMESTAMP_INFINITY
    sent[low] = _INT64_LOWEST
    return fixed(sent.astype(">i8"))


_INTERVAL: Final = np.dtype([("microseconds", ">i8"), ("days", ">i4"), ("months", ">i4")])


def _interval(array: pa.Array) -> pa.BinaryArray:
    parts = interval_parts(array)
    record = np.empty(len(array), _INTERVAL)
    record["microseconds"], record["days"], record["months"] = parts.microseconds, parts.days, parts.months
    return fixed(record)


_NIBBLES: Final = np.full(256, 255, np.uint8)
for _characters, _first in ((b"0123456789", 0), (b"abcdef", 10), (b"ABCDEF", 10)):
    for _place, _character in enumerate(_characters):
        _NIBBLES[_character] = _first + _place
UUID_DASHES: Final = frozenset({8, 13, 18, 23})
_UUID_DIGITS: Final = np.array([place for place in range(36) if place not in UUID_DASHES])


def _uuid(array: pa.Array) -> pa.BinaryArray:
    text = as_binary(array)
    valid = valid_mask(array)
    if valid is not None:
        text = as_binary(text.fill_null(b"0" * 36))
    nibbles = _NIBBLES[padded_matrix(text, 36)[:, _UUID_DIGITS]]
    if (lengths_of(text) != 36).any() or (nibbles > 15).any():
        raise SluiceError(SqlState.DATA_CORRUPTED, "a uuid in the lake is not in its canonical form")
    return fixed(np.ascontiguousarray(nibbles[:, ::2] << 4 | nibbles[:, 1::2]))


BINARY: Final[Mapping[int, BinaryFunction]] = {
    datatypes.BOOL: _boolean,
    datatypes.BYTEA: as_binary,
    datatypes.INT8: _integer(pa.int64(), ">i8"),
    datatypes.INT2: _integer(pa.int16(), ">i2"),
    datatypes.INT4: _integer(pa.int32(), ">i4"),
    datatypes.OID: _integer(pa.uint32(), ">u4"),
    datatypes.TEXT: as_binary,
    datatypes.TID: _tid,
    datatypes.JSON: as_binary,
    datatypes.FLOAT4: _float(pa.float32(), ">f4"),
    datatypes.FLOAT8: _float(pa.float64(), ">f8"),
    datatypes.NAME: as_binary,
    datatypes.UNKNOWN: as_binary,
    datatypes.BPCHAR: as_binary,
    datatypes.VARCHAR: as_binary,
    datatypes.DATE: _date,
    datatypes.TIME: _time,
    datatypes.TIMESTAMP: _timestamp,
    datatypes.TIMESTAMPTZ: _timestamp,
    datatypes.INTERVAL: _interval,
    datatypes.NUMERIC: numeric_binary,
    datatypes.UUID: _uuid,
    datatypes.JSONB: _jsonb,
    datatypes.ANYENUM: as_binary,
    datatypes.CARRIED: as_binary,
}
assert set(BINARY) >= {*datatypes.BY_OID, datatypes.ANYENUM, datatypes.CARRIED}, "a type has no binary form"


def binary_cells(array: pa.Array, type_oid: int, element_oid: int = 0) -> pa.BinaryArray:
    """A column in cells; what is under nulls means nothing. Raises 0A000 for a type that lake tables lack.

    `element_oid` is that of an array's elements where they are of a type that a user has made.
    """
    if pa.types.is_null(array.type):
        return array.cast(pa.binary())
    element = datatypes.element_type(type_oid)
    if element is not None:
        return _array_binary(array, element.oid, element_oid or element.oid)
    function = BINARY.get(datatypes.kind_of(type_oid))
    if function is None:
        raise unsupported(f"a result column of the type with OID {type_oid}")
    return function(array)


_ARRAY_HEADER: Final = np.dtype(
    [("dimensions", ">i4"), ("nulls", ">i4"), ("element", ">u4"), ("length", ">i4"), ("lower", ">i4")]
)
# The same of one array: what an array without elements has, and what comes behind it else.
_HEADER: Final = struct.Struct("!iiI")
_DIMENSION: Final = struct.Struct("!ii")
_LENGTH: Final = struct.Struct("!i")
_NULL: Final = _LENGTH.pack(-1)
# So many values, of types whose texts and bytes are their binary form, are written one by one.
_FEW_MAX: Final = 64
_PLAIN: Final = (datatypes.TEXT, datatypes.BYTEA)
_EMPTY_ARRAY_BYTES: Final = 12  # an array without elements has no dimensions


def _array_binary(array: pa.Array, kept_oid: int, element_oid: int) -> pa.BinaryArray:
    starts, counts, elements = list_layout(array)
    contents = binary_cells(elements, kept_oid)
    valid = valid_mask(elements)
    lengths = lengths_of(contents)
    total = len(elements)
    header = np.zeros(len(array), _ARRAY_HEADER)
    header["dimensions"], header["element"] = counts > 0, element_oid
    header["length"], header["lower"] = counts, 1
    if valid is not None:
        lengths = np.where(valid, lengths, -1)
        nulls = np.concatenate((np.zeros(1, np.int64), np.cumsum(~valid)))
        header["nulls"] = nulls[starts + counts] > nulls[starts]
    whole = fixed(header)
    pieces = pa.concat_arrays(
        [contents, fixed(lengths.astype(">i4")), whole, pa.array([b""], pa.binary()), _empty_header(element_oid)]
    )
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(2 * counts + 1)))
    index = np.empty(int(bounds[-1]), np.int32)
    nothing = 2 * total + len(array)
    index[bounds[:-1]] = np.where(counts > 0, 2 * total + np.arange(len(array)), nothing + 1)
    numbers = np.arange(total, dtype=np.int32)
    places = np.repeat(bounds[:-1] + 1 - 2 * starts, counts) + 2 * numbers.astype(np.int64)
    index[places] = total + numbers
    index[places + 1] = numbers if valid is None else np.where(valid, numbers, nothing)
    return merged(pieces, index, bounds)


def _empty_header(element_oid: int) -> pa.BinaryArray:
    header = np.zeros(1, _ARRAY_HEADER)
    header["element"] = element_oid
    return pa.array([header.tobytes()[:_EMPTY_ARRAY_BYTES]], pa.binary())


def binary_array(values: pa.Array, type_oid: int) -> bytes:
    """One array of PostgreSQL's, of elements of this type."""
    if len(values) <= _FEW_MAX and type_oid in _PLAIN:
        return _few_binary(values.to_pylist(), type_oid)
    array = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    [cell] = binary_cells(array, datatypes.BY_OID[type_oid].array_oid)
    form: bytes = cell.as_py()
    return form


def _few_binary(values: list[str | bytes | None], type_oid: int) -> bytes:
    """The same of a few values, which takes a tenth of the time."""
    if not values:
        return _HEADER.pack(0, 0, type_oid)
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    parts = [_HEADER.pack(1, None in encoded, type_oid), _DIMENSION.pack(len(values), 1)]
    for value in encoded:
        parts += (_NULL,) if value is None else (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


_BIGINTS: Final = np.dtype([("length", ">i4"), ("value", ">i8")])


def bigint_array(numbers: npt.NDArray[np.int64]) -> bytes:
    """One array of PostgreSQL's, of bigints."""
    if not len(numbers):
        return _HEADER.pack(0, 0, datatypes.INT8)
    elements = np.empty(len(numbers), _BIGINTS)
    elements["length"], elements["value"] = 8, numbers
    return _HEADER.pack(1, 0, datatypes.INT8) + _DIMENSION.pack(len(numbers), 1) + elements.tobytes()
