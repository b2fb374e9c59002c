"""Columns of PostgreSQL's binary values to lake form: COPY BINARY fields, and what PostgreSQL itself sends.

The reverse of `binary`, column by column. What is not surely a value of the type is refused, and PostgreSQL is asked;
of what PostgreSQL itself sent, only that is refused which lake tables cannot hold.

Source: the types' receive functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog import datatypes
from catalog.datatypes import element_type, kind_of
from gateway.values import forms
from gateway.values.binary import UUID_DASHES
from gateway.values.calendar import (
    DATE_INFINITY,
    DAY_MICROSECONDS,
    EPOCH_2000_DAYS,
    EPOCH_2000_MICROSECONDS,
    TIMESTAMP_INFINITY,
)
from gateway.values.cells import Integers, Mask, as_binary, cells, data_of, lengths_of, offsets_of, slices, valid_mask
from gateway.values.converted import Converted, all_refused, converted_array, converted_numbers, refused_of
from gateway.values.datetimes import FOUR_DIGITS
from gateway.values.escape import hexadecimal
from gateway.values.parse_numbers import numeric_in
from gateway.values.parse_strings import rounded_to_typmod, string_in

_INT32_LOWEST: Final = -(2**31)
_INT64_LOWEST: Final = -(2**63)


class Source(NamedTuple):
    """What is being received: the type's typmod, and whether PostgreSQL vouches for the values."""

    typmod: int
    trusted: bool


ReceiveFunction = Callable[[pa.BinaryArray, Source], Converted]


def convert_binary(
    column: pa.BinaryArray, type_oid: int, typmod: int, *, from_postgres: bool = False, of_users: bool = False
) -> Converted:
    """A column of PostgreSQL binary values in lake form. Arrays `of_users` name a type of a user's as their elements'.

    `from_postgres` says that PostgreSQL sent them as values of this very type, so that nothing needs judging: then
    refused is only what lake tables cannot hold (NaN in numeric(p,s), a timestamp after 294247-01-10, an array of more
    dimensions than one). Otherwise whatever is malformed, out of range, too long, or JSON is refused.
    Raises 0A000 for a type that lake tables lack.
    """
    kind = forms.arrow_form(type_oid, typmod)
    source = Source(typmod, from_postgres)
    element = element_type(type_oid)
    if element is not None:
        return _array(column, element.oid, source, kind, of_users=of_users)
    return _RECEIVE[kind_of(type_oid)](as_binary(column), source)


def _records(column: pa.BinaryArray, form: Any) -> tuple[npt.NDArray[Any], Mask]:
    """One record of `form` per value, and which values have its length; zeros for the others."""
    size = np.dtype(form).itemsize
    lengths = lengths_of(column)
    good = lengths == size
    valid = valid_mask(column)
    if valid is not None:
        good &= valid
    offsets = offsets_of(column)
    data = data_of(column)
    if good.all():
        return np.frombuffer(data, form, len(column), int(offsets[0])), good
    records = np.zeros(len(column), form)
    begins = offsets[:-1][good].astype(np.int64)
    records[good] = data[begins[:, None] + np.arange(size)].view(form)[:, 0]
    return records, good


def _number(kind: pa.DataType, form: str) -> ReceiveFunction:
    native = np.dtype(form).newbyteorder("=")

    def receive(column: pa.BinaryArray, source: Source) -> Converted:  # noqa: ARG001
        values, good = _records(column, form)
        return converted_numbers(values.astype(native), kind, column, good)

    return receive


def _boolean(column: pa.BinaryArray, source: Source) -> Converted:  # noqa: ARG001
    values, good = _records(column, "u1")
    made = pa.array(values != 0, mask=~good)
    return Converted(made, refused_of(valid_mask(column), good))


def _string(type_oid: int) -> ReceiveFunction:
    def receive(column: pa.BinaryArray, source: Source) -> Converted:
        if source.trusted:
            return Converted(column.view(pa.string()), None)
        sound = _sound_text(column)
        text = column.view(pa.string())
        if sound is None:
            return string_in(text, type_oid, source.typmod)
        # What is no text must not come to a function of text.
        kept = pc.if_else(pa.array(sound), column, pa.scalar(None, pa.binary())).view(pa.string())
        taken = string_in(kept, type_oid, source.typmod)
        return _refusing_also(taken, refused_of(valid_mask(column), sound))

    return receive


def _sound_text(column: pa.BinaryArray) -> Mask | None:
    """Which values are UTF-8 without NULs; None where all are."""
    offsets = offsets_of(column).astype(np.int64)
    payload = data_of(column)[offsets[0] : offsets[-1]]
    if not len(payload):
        return None
    suspect = payload == 0
    if int(payload.max()) >= 0x80:
        try:
            column.cast(pa.string())
        except pa.ArrowInvalid:
            suspect |= payload >= 0x80
    if not suspect.any():
        return None
    counted = np.concatenate((np.zeros(1, np.int64), np.cumsum(suspect)))
    sound: Mask = counted[offsets[1:] - offsets[0]] == counted[offsets[:-1] - offsets[0]]
    return sound


def _jsonb(column: pa.BinaryArray, source: Source) -> Converted:
    """A version byte, 1, and the text."""
    if not source.trusted:
        return all_refused(pa.string(), column)
    offsets = offsets_of(column).astype(np.int64)
    begins = np.minimum(offsets[:-1] + 1, offsets[1:])
    text = slices(data_of(column), begins, offsets[1:]).view(pa.string())
    valid = valid_mask(column)
    return Converted(text if valid is None else pc.if_else(pa.array(valid), text, pa.scalar(None, pa.string())), None)


def _bytea(column: pa.BinaryArray, source: Source) -> Converted:  # noqa: ARG001
    return Converted(column, None)


_DATE_LOWEST: Final = -2451545  # 4713-01-01 BC, counted from 2000-01-01
_DATE_END: Final = 2145031949
_TIMESTAMP_LOWEST: Final = -211813488000000000
_TIMESTAMP_END: Final = 9223371331200000000


def _date(column: pa.BinaryArray, source: Source) -> Converted:  # noqa: ARG001
    sent, good = _records(column, ">i4")
    days = sent.astype(np.int64)
    infinite = (days == DATE_INFINITY) | (days == _INT32_LOWEST)
    good &= infinite | ((days >= _DATE_LOWEST) & (days < _DATE_END))
    values = np.where(infinite, np.sign(days) * DATE_INFINITY, days + EPOCH_2000_DAYS)
    return converted_numbers(np.where(good, values, 0).astype(np.int32), pa.date32(), column, good)


def _time(column: pa.BinaryArray, source: Source) -> Converted:
    sent, good = _records(column, ">i8")
    times = sent.astype(np.int64)
    good &= (times >= 0) & (times <= DAY_MICROSECONDS)
    return converted_numbers(rounded_to_typmod(times, source.typmod), pa.time64("us"), column, good)


def _timestamp(kind: pa.DataType) -> ReceiveFunction:
    def receive(column: pa.BinaryArray, source: Source) -> Converted:
        sent, good = _records(column, ">i8")
        instants = sent.astype(np.int64)
        infinite = (instants == TIMESTAMP_INFINITY) | (instants == _INT64_LOWEST)
        rounded = rounded_to_typmod(np.where(infinite, 0, instants), source.typmod)
        # The lake counts from 1970: the last thirty years of PostgreSQL's range have no number there.
        last = min(_TIMESTAMP_END, TIMESTAMP_INFINITY - EPOCH_2000_MICROSECONDS)
        inside = (rounded >= _TIMESTAMP_LOWEST) & (rounded < last)
        good &= infinite | inside
        shifted = np.where(inside, rounded, 0) + EPOCH_2000_MICROSECONDS
        values = np.where(infinite, np.where(instants > 0, TIMESTAMP_INFINITY, -TIMESTAMP_INFINITY), shifted)
        return converted_numbers(values, kind, column, good)

    return receive


_INTERVAL: Final = np.dtype([("microseconds", ">i8"), ("days", ">i4"), ("months", ">i4")])


def _interval(column: pa.BinaryArray, source: Source) -> Converted:
    if source.typmod != -1 and not source.trusted:
        return all_refused(forms.INTERVAL, column)
    sent, good = _records(column, _INTERVAL)
    parts = [
        pa.array(sent["months"].astype(np.int32)),
        pa.array(sent["days"].astype(np.int32)),
        pa.array(sent["microseconds"].astype(np.int64)),
    ]
    made = pa.StructArray.from_arrays(parts, fields=list(forms.INTERVAL), mask=pa.array(~good))
    return Converted(made, refused_of(valid_mask(column), good))


def _uuid(column: pa.BinaryArray, source: Source) -> Converted:  # noqa: ARG001
    sent, good = _records(column, "V16")
    raw = np.ascontiguousarray(sent).view(np.uint8).reshape(len(column), 16)
    digits = data_of(hexadecimal(cells(np.arange(0, raw.size + 1, 16, dtype=np.int64), raw))).reshape(len(column), 32)
    text = np.full((len(column), 36), ord("-"), np.uint8)
    text[:, [place for place in range(36) if place not in UUID_DASHES]] = digits
    made = cells(np.arange(0, text.size + 1, 36, dtype=np.int64), text).view(pa.string())
    valid = valid_mask(column)
    if valid is not None:
        made = pc.if_else(pa.array(valid), made, pa.scalar(None, pa.string()))
        good = good | ~valid
    return converted_array(made, good)


_HEADER: Final = np.dtype([("digits", ">i2"), ("weight", ">i2"), ("sign", ">u2"), ("scale", ">i2")])
_SPECIAL: Final = {0xC000: b"NaN", 0xD000: b"Infinity", 0xF000: b"-Infinity"}


def _numeric(column: pa.BinaryArray, source: Source) -> Converted:
    """By way of PostgreSQL's text, which is also the lake form of a numeric without precision."""
    text, good = numeric_text_of(column)
    unsound = refused_of(valid_mask(column), good)
    if source.trusted and not pa.types.is_decimal(forms.arrow_form(datatypes.NUMERIC, source.typmod)):
        return Converted(text.view(pa.string()), unsound)
    return _refusing_also(numeric_in(text.view(pa.string()), source.typmod), unsound)


def _refusing_also(made: Converted, refused: pa.BooleanArray | None) -> Converted:
    if refused is None or made.refused is None:
        return Converted(made.array, made.refused if refused is None else refused)
    return Converted(made.array, pc.or_(refused, made.refused))


def numeric_text_of(column: pa.BinaryArray) -> tuple[pa.BinaryArray, Mask]:
    """PostgreSQL's text of each numeric, null where it is not in the form in which PostgreSQL sends numerics; and
    where it is."""
    lengths = lengths_of(column)
    good = lengths >= _HEADER.itemsize
    valid = valid_mask(column)
    if valid is not None:
        good &= valid
    header = np.zeros(len(column), _HEADER)
    offsets = offsets_of(column).astype(np.int64)
    data = data_of(column)
    places = offsets[:-1][good]
    header[good] = data[places[:, None] + np.arange(_HEADER.itemsize)].view(_HEADER)[:, 0]
    count, weight = header["digits"].astype(np.int64), header["weight"].astype(np.int64)
    scale = header["scale"].astype(np.int64)
    special = np.isin(header["sign"], list(_SPECIAL))
    good &= (lengths == _HEADER.itemsize + 2 * count) & (count >= 0) & (special | np.isin(header["sign"], [0, 0x4000]))
    good &= special | ((scale >= 0) & (scale <= 0x3FFF))
    finite = good & ~special
    count, weight, scale = (np.where(finite, part, 0) for part in (count, weight, scale))
    weight = np.where(count == 0, 0, weight)
    finite_parts = _Finite(offsets[:-1] + _HEADER.itemsize, count, weight, scale, header["sign"] == 0x4000)
    text, sound = _finite_text(data, finite_parts)
    good &= special | sound
    for sign, word in _SPECIAL.items():
        named = good & (header["sign"] == sign)
        if named.any():
            text = pc.if_else(pa.array(named), pa.scalar(word, pa.binary()), text)
    if not good.all():
        text = pc.if_else(pa.array(good), text, pa.scalar(None, pa.binary()))
    return text, good


class _Finite(NamedTuple):
    """Numbers: where their base 10,000 digits begin, how many there are, and what the header says."""

    begin: Integers
    digits: Integers
    weight: Integers
    scale: Integers
    negative: Mask


def _finite_text(data: Any, numbers: _Finite) -> tuple[pa.BinaryArray, Mask]:
    """From base 10,000 digits; and which of the numbers have no leading zero, and no digits beyond their scale."""
    begin, count, weight, scale, negative = numbers
    rows = len(count)
    whole = np.maximum(weight + 1, 1)
    groups = whole + (scale + 3) // 4
    base = np.concatenate((np.zeros(1, np.int64), np.cumsum(groups)))
    # For each group of four digits that is written, which of those that were sent it is.
    number = np.repeat(np.arange(rows), groups)
    index = np.arange(int(base[-1])) - base[:-1][number] - (whole - 1 - weight)[number]
    sent = (index >= 0) & (index < count[number])
    values = np.zeros(len(number), np.int64)
    places = begin[number[sent]] + 2 * index[sent]
    values[sent] = data[places].astype(np.int64) * 256 + data[places + 1]
    sound = np.ones(rows, np.bool_)
    sound[number[values > 9999]] = False
    values[values > 9999] = 0
    first = values[base[:-1]]
    sound &= (weight < 1) | (first > 0)
    sound &= count - 1 - weight <= (scale + 3) // 4
    beyond = 10 ** (-scale % 4)
    sound &= (count - 1 - weight < (scale + 3) // 4) | (values[base[1:] - 1] % beyond == 0)
    nonzero = np.zeros(rows, np.bool_)
    nonzero[number[values > 0]] = True
    sound &= nonzero | (count == 0)
    digits = FOUR_DIGITS[values].view(np.uint8)
    skipped = 3 - (first > 9).astype(np.int64) - (first > 99) - (first > 999)
    # Per number: sign, digits before the point, point, digits after it.
    start = 4 * base[:-1]
    bounds = np.empty((rows, 4), np.int64)
    bounds[:, 0], bounds[:, 1] = start, start + skipped
    bounds[:, 2] = start + 4 * whole
    bounds[:, 3] = bounds[:, 2] + scale
    offsets = np.append(bounds.ravel(), len(digits))
    pieces = pa.concat_arrays([cells(offsets, digits), pa.array([b"", b"-", b"."], pa.binary())])
    order = np.empty((rows, 4), np.int64)
    own = 4 * np.arange(rows)
    order[:, 0] = 4 * rows + (negative & nonzero)
    order[:, 1] = own + 1
    order[:, 2] = 4 * rows + np.where(scale > 0, 2, 0)
    order[:, 3] = own + 2
    taken = pc.take(pieces, pa.array(order.ravel().astype(np.int32)), boundscheck=False)
    return cells(offsets_of(taken)[::4], data_of(taken)), sound


_RECEIVE: Final[Mapping[int, ReceiveFunction]] = {
    datatypes.BOOL: _boolean,
    datatypes.BYTEA: _bytea,
    datatypes.INT8: _number(pa.int64(), ">i8"),
    datatypes.INT2: _number(pa.int16(), ">i2"),
    datatypes.INT4: _number(pa.int32(), ">i4"),
    datatypes.TEXT: _string(datatypes.TEXT),
    datatypes.JSON: _string(datatypes.JSON),
    datatypes.FLOAT4: _number(pa.float32(), ">f4"),
    datatypes.FLOAT8: _number(pa.float64(), ">f8"),
    datatypes.BPCHAR: _string(datatypes.BPCHAR),
    datatypes.VARCHAR: _string(datatypes.VARCHAR),
    datatypes.DATE: _date,
    datatypes.TIME: _time,
    datatypes.TIMESTAMP: _timestamp(forms.TIMESTAMP),
    datatypes.TIMESTAMPTZ: _timestamp(forms.TIMESTAMPTZ),
    datatypes.INTERVAL: _interval,
    datatypes.NUMERIC: _numeric,
    datatypes.UUID: _uuid,
    datatypes.JSONB: _jsonb,
    datatypes.ANYENUM: _string(datatypes.ANYENUM),
    datatypes.CARRIED: _string(datatypes.CARRIED),
}
assert set(_RECEIVE) == {*datatypes.BY_OID, datatypes.ANYENUM, datatypes.CARRIED}, "a type cannot be received"


def _array(column: pa.BinaryArray, element_oid: int, source: Source, kind: pa.DataType, *, of_users: bool) -> Converted:
    """One dimension, lower bound 1, or empty. All arrays advance together, element by element, for where an element
    begins is known only from the one before; so the steps are as many as the longest array has elements."""
    header, good = _array_headers(column, None if of_users else element_oid)
    counts = np.where(good, header, 0)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    offsets, data = offsets_of(column).astype(np.int64), data_of(column)
    begins = np.zeros(int(ends[-1]), np.int64)
    lengths = np.zeros(int(ends[-1]), np.int64)
    rows = np.flatnonzero(counts)
    place = offsets[rows] + _ARRAY_HEADER_BYTES
    step = 0
    while len(rows):
        fits = place + 4 <= offsets[rows + 1]
        good[rows[~fits]] = False
        rows, place = rows[fits], place[fits]
        length = data[place[:, None] + np.arange(4)].view(">i4")[:, 0].astype(np.int64)
        place = place + 4
        bad = (length < -1) | (place + np.maximum(length, 0) > offsets[rows + 1])
        good[rows[bad]] = False
        rows, place, length = rows[~bad], place[~bad], length[~bad]
        begins[ends[rows] + step] = place
        lengths[ends[rows] + step] = length
        place = place + np.maximum(length, 0)
        step += 1
        done = counts[rows] == step
        good[rows[done & (place != offsets[rows + 1])]] = False
        rows, place = rows[~done], place[~done]
    null = lengths < 0
    if not good.all():
        null |= ~np.repeat(good, counts)
    elements = _gathered(data, np.where(null, 0, begins), np.where(null, 0, lengths), null)
    inner = convert_binary(elements, element_oid, source.typmod, from_postgres=source.trusted)
    if inner.refused is not None:
        good[np.searchsorted(ends, np.flatnonzero(inner.refused), side="right") - 1] = False
    valid = valid_mask(column)
    missing = ~good if valid is None else ~good | ~valid
    made = pa.ListArray.from_arrays(
        pa.array(ends.astype(np.int32)), inner.array, type=kind, mask=pa.array(missing) if missing.any() else None
    )
    return Converted(made, refused_of(valid, good))


_ARRAY_HEADER_BYTES: Final = 20
_EMPTY_ARRAY_BYTES: Final = 12


def _array_headers(column: pa.BinaryArray, element_oid: int | None) -> tuple[Integers, Mask]:
    """How many elements each array has, and which arrays lake tables can hold: of these elements, or of any."""
    lengths = lengths_of(column)
    begins = offsets_of(column)[:-1].astype(np.int64)
    data = np.concatenate((data_of(column), np.zeros(_ARRAY_HEADER_BYTES, np.uint8)))
    words = data[begins[:, None] + np.arange(_ARRAY_HEADER_BYTES)].view(">i4").astype(np.int64)
    good = (lengths >= _EMPTY_ARRAY_BYTES) & (words[:, 1] >= 0) & (words[:, 1] <= 1)
    if element_oid is not None:
        good &= words[:, 2] == element_oid
    empty = (words[:, 0] == 0) & (lengths == _EMPTY_ARRAY_BYTES)
    one = (words[:, 0] == 1) & (lengths >= _ARRAY_HEADER_BYTES) & (words[:, 4] == 1) & (words[:, 3] > 0)
    one &= words[:, 3] <= lengths // 4
    valid = valid_mask(column)
    good &= empty | one
    if valid is not None:
        good &= valid
    return np.where(good & one, words[:, 3], 0), good


def _gathered(data: Any, begins: Integers, lengths: Integers, null: Mask) -> pa.BinaryArray:
    """Values from anywhere in the data; they come in no order that `slices` could use where arrays interleave."""
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    source = np.repeat(begins - ends[:-1], lengths) + np.arange(int(ends[-1]))
    values = cells(ends, data[source])
    if not null.any():
        return values
    return pa.Array.from_buffers(
        pa.binary(), len(values), [pa.py_buffer(np.packbits(~null, bitorder="little")), *values.buffers()[1:]]
    )
