"""numeric as text and in PostgreSQL's binary form: base 10,000 digits with a weight, a sign and a display scale.

Source: `numeric_send` and the comment "NumericVar" in PostgreSQL's numeric.c.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gateway.values.cells import (
    Integers,
    as_binary,
    choose,
    data_of,
    fixed,
    joined,
    lengths_of,
    offsets_of,
    overlaid,
    ragged,
    slices,
)

_NEGATIVE: Final = 0x4000
_NAN: Final = 0xC000
_INFINITY: Final = 0xD000
_MINUS_INFINITY: Final = 0xF000
# Means nothing; it is what PostgreSQL's stored infinities happen to have there.
_INFINITY_SCALE: Final = 0x20
# Arrow's cast turns to scientific notation below this.
_ARROW_PLAIN_SCALE_MAX: Final = 6
_INT64_DIGITS: Final = 18
_SHORT_SCALE_MAX: Final = 16  # its fraction, filled up to fours of digits, is an int64 too
_NOTHING: Final = np.zeros(0, np.int64)
_HEADER: Final = np.dtype([("digits", ">i2"), ("weight", ">i2"), ("sign", ">u2"), ("scale", ">i2")])


def numeric_text(array: pa.Array) -> pa.BinaryArray:
    """Decimals with all the digits of their scale; strings, which are PostgreSQL's text already, as they are."""
    if not pa.types.is_decimal(array.type):
        return as_binary(array)
    if array.type.scale <= _ARROW_PLAIN_SCALE_MAX:
        return as_binary(array.cast(pa.string()))
    return _plain_text(array.fill_null(0) if array.null_count else array, array.type.scale)


def _plain_text(array: pa.Array, scale: int) -> pa.BinaryArray:
    """The digits of the unscaled number, a point put into them."""
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(array), array.buffers(), offset=array.offset)
    negative = pc.less(whole, pa.scalar(0, pa.decimal128(1, 0))).to_numpy(zero_copy_only=False)
    digits = pc.utf8_lpad(pc.abs(whole).cast(pa.string()), width=scale + 1, padding="0")
    return joined(
        choose((b"", b"-"), negative.astype(np.int32)),
        as_binary(pc.utf8_slice_codeunits(digits, 0, -scale)),
        b".",
        as_binary(pc.utf8_slice_codeunits(digits, -scale)),
    )


def numeric_binary(array: pa.Array) -> pa.BinaryArray:
    """From decimals, or from strings in PostgreSQL's text."""
    form = array.type
    if pa.types.is_decimal128(form) and form.precision <= _INT64_DIGITS and 0 <= form.scale <= _SHORT_SCALE_MAX:
        return _short_binary(array)
    text = numeric_text(array)
    if array.null_count:
        text = as_binary(text.fill_null(b"0"))
    if not len(text):
        return text
    offsets = offsets_of(text).astype(np.int64)
    data = data_of(text)
    first = data[np.minimum(offsets[:-1], len(data) - 1)]
    second = data[np.minimum(offsets[:-1] + 1, len(data) - 1)]
    negative = first == ord("-")
    special = (first == ord("N")) | (first == ord("I")) | (negative & (second == ord("I")))
    if special.any():
        places = np.flatnonzero(special)
        text = overlaid(text, places, choose((b"0",), np.zeros(len(places), np.int32)))
        negative[places] = False
    encoded = _finite_binary(text, negative)
    if special.any():
        signs = np.where(first == ord("N"), _NAN, np.where(first == ord("I"), _INFINITY, _MINUS_INFINITY))[places]
        header = np.zeros(len(places), _HEADER)
        header["sign"] = signs
        header["scale"] = np.where(signs == _NAN, 0, _INFINITY_SCALE)
        encoded = overlaid(encoded, places, fixed(header))
    return encoded


def _short_binary(array: pa.Array) -> pa.BinaryArray:
    """From decimals whose unscaled number is an int64, by arithmetic on the numbers."""
    scale, count = array.type.scale, len(array)
    if array.null_count:
        array = array.fill_null(0)
    # Little-endian 128 bits; the upper half only repeats the sign.
    unscaled = np.frombuffer(array.buffers()[1], np.int64, 2 * count, array.offset * 16)[::2] if count else _NOTHING
    negative = unscaled < 0
    size = np.abs(unscaled)
    whole = size // 10**scale
    fraction_groups = -(-scale // 4)
    fraction = (size - whole * 10**scale) * 10 ** (4 * fraction_groups - scale)
    whole_groups = -(-max(array.type.precision - scale, 1) // 4)
    groups = np.empty((count, whole_groups + fraction_groups), ">i2")
    for places, numbers in ((range(whole_groups), whole), (range(whole_groups, groups.shape[1]), fraction)):
        rest = numbers
        for place in reversed(places):
            quotient = rest // 10_000
            groups[:, place] = rest - quotient * 10_000
            rest = quotient
    nonzero = groups != 0
    some = size != 0
    first = np.where(some, np.argmax(nonzero, axis=1), 0)
    last = np.where(some, groups.shape[1] - np.argmax(nonzero[:, ::-1], axis=1), 0)
    header = np.empty(count, _HEADER)
    header["digits"] = last - first
    header["weight"] = np.where(some, whole_groups - 1 - first, 0)
    header["sign"] = np.where(negative, _NEGATIVE, 0)
    header["scale"] = scale
    return joined(fixed(header), ragged(groups.view(np.uint8), first * 2, last * 2))


def _finite_binary(text: pa.BinaryArray, negative: Any) -> pa.BinaryArray:
    count = len(text)
    offsets = offsets_of(text).astype(np.int64)
    payload = data_of(text)[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    start = offsets[:-1] + negative
    end = offsets[1:]
    # Where each number's point is; after the last digit where there is none.
    points = np.flatnonzero(payload == ord("."))
    point = end.copy()
    point[np.searchsorted(offsets, points, side="right") - 1] = points
    whole_digits = point - start
    scale = np.maximum(end - point - 1, 0)
    whole_groups = (whole_digits + 3) // 4
    groups = whole_groups + (scale + 3) // 4
    base = np.concatenate((np.zeros(1, np.int64), np.cumsum(groups)))
    # Each digit's place, in fours around the point.
    shift = base[:-1] * 4 + 4 * whole_groups - point
    place = np.arange(len(payload)) + np.repeat(shift, lengths_of(text))
    after = np.arange(len(payload)) > np.repeat(point, lengths_of(text))
    digit = (payload >= ord("0")) & (payload <= ord("9"))
    fours = np.zeros(int(base[-1]) * 4, np.int16)
    fours[(place - after)[digit]] = payload[digit] - ord("0")
    values = fours.reshape(-1, 4) @ np.array([1000, 100, 10, 1], np.int16)
    # Zeros at both ends are not sent.
    first, last = _occupied(np.flatnonzero(values), base, count)
    header = np.empty(count, _HEADER)
    header["digits"] = last - first
    header["weight"] = np.where(last > first, whole_groups - 1 - (first - base[:-1]), 0)
    header["sign"] = np.where(negative & (last > first), _NEGATIVE, 0)
    header["scale"] = scale
    return joined(fixed(header), slices(values.astype(">i2"), first * 2, last * 2))


def _occupied(nonzero: Integers, base: Integers, count: int) -> tuple[Integers, Integers]:
    """For each number the first group that is not zero, and the place after the last one; equal where all are."""
    low = np.searchsorted(nonzero, base[:-1])
    high = np.searchsorted(nonzero, base[1:])
    some = high > low
    first, last = base[:-1].copy(), base[:-1].copy()
    first[some] = nonzero[low[some]]
    last[some] = nonzero[high[some] - 1] + 1
    assert len(first) == count
    return first, last
