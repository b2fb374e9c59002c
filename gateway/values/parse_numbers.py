"""Texts to integers, floats and numerics: the canonical spellings, column by column; any other is refused.

Nothing is taken that PostgreSQL would not take, or would take as another value: what is let through to Arrow's casts
is only digits with a sign, a point and an exponent in their places. Sources: `pg_strtoint64`, `float8in_internal` and
`numeric_in` in PostgreSQL.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.datatypes import numeric_precision_scale
from gateway.values.cells import Integers, Mask, as_binary, data_of, integers_of, offsets_of
from gateway.values.converted import Converted, converted_array, converted_numbers
from gateway.values.forms import arrow_form

_INT64_DIGITS: Final = 18  # any number of so many digits is an int64
_DECIMAL_DIGITS: Final = 38
_TEXT_DIGITS_MAX: Final = 1000
_OTHER, _DIGIT, _POINT, _MINUS, _EXPONENT, _PLUS = range(6)
_CLASSES: Final = np.zeros(256, np.uint8)
_CLASSES[list(b"0123456789")] = _DIGIT
_CLASSES[ord(".")], _CLASSES[ord("-")], _CLASSES[ord("+")] = _POINT, _MINUS, _PLUS
_CLASSES[list(b"eE")] = _EXPONENT


class Plain(NamedTuple):
    """Which texts are `-?digits(.digits)?`; and for those the sign and the number of digits on both sides."""

    good: Mask
    negative: Mask
    whole: Integers
    fraction: Integers


def plain_decimals(array: pa.Array) -> Plain:
    """Of a string or binary array; null counts as bad."""
    offsets = offsets_of(array).astype(np.int64)
    start, end = offsets[:-1], offsets[1:]
    payload = data_of(array)[offsets[0] : offsets[-1]]
    base = int(offsets[0])
    classes = _CLASSES[payload]
    count = len(array)
    good = end > start
    if array.null_count:
        good &= pc.is_valid(array).to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(classes != _DIGIT)
    kinds = classes[odd]
    owner = np.searchsorted(end, odd + base, side="right")
    place = odd + base - start[owner]
    negative = np.zeros(count, np.bool_)
    minus = kinds == _MINUS
    negative[owner[minus]] = True
    good[owner[minus & (place > 0)]] = False
    good[owner[(kinds != _MINUS) & (kinds != _POINT)]] = False
    point = kinds == _POINT
    fraction = np.zeros(count, np.int64)
    pointed = owner[point]
    fraction[pointed] = end[pointed] - start[pointed] - place[point] - 1
    points = np.zeros(count, np.int64)
    if len(pointed):
        points += np.bincount(pointed, minlength=count)
        good &= (points == 0) | ((points == 1) & (fraction > 0))
    whole = end - start - negative - fraction - points
    good &= whole > 0
    return Plain(good, negative, whole, fraction)


def _only(array: pa.Array, good: Mask, kind: pa.DataType) -> pa.Array:
    """Arrow's cast of the good values; the others are null."""
    text = array if pa.types.is_string(array.type) else array.view(pa.string())
    if not good.all():
        text = pc.if_else(pa.array(good), text, pa.scalar(None, pa.string()))
    return text.cast(kind)


def integer_in(array: pa.Array, kind: pa.DataType) -> Converted:
    """To int16, int32 or int64."""
    plain = plain_decimals(array)
    good = plain.good & (plain.fraction == 0) & (plain.whole <= _INT64_DIGITS)
    numbers = _only(array, good, pa.int64())
    if kind != pa.int64():
        limit = 1 << (kind.bit_width - 1)
        values = integers_of(numbers)
        good &= (values >= -limit) & (values < limit)
        return converted_numbers(values.astype(f"i{kind.bit_width // 8}"), kind, array, good)
    return _refusing(numbers, array, good)


def _refusing(taken: pa.Array, source: pa.Array, good: Mask) -> Converted:
    """What was taken is null where it is not good, already."""
    if good.all():
        return Converted(taken, None)
    valid = pc.is_valid(source).to_numpy(zero_copy_only=False) if source.null_count else None
    refused = ~good if valid is None else ~good & valid
    return Converted(taken, pa.array(refused) if refused.any() else None)


_FLOAT: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
_WORDS: Final = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}


def float_in(array: pa.Array, kind: pa.DataType) -> Converted:
    """To float32 or float64. What overflows, or is so small that it would be zero, is an error of PostgreSQL's."""
    plain = plain_decimals(array)
    good = plain.good.copy()
    if not good.all():
        places = np.flatnonzero(~good)
        text = array.view(pa.string()).take(pa.array(places))
        good[places] = pc.match_substring_regex(text, _FLOAT).fill_null(False).to_numpy(zero_copy_only=False)
    numbers = _only(array, good, kind)
    form: Any = np.float32 if kind == pa.float32() else np.float64
    values = integers_of(numbers, form).copy()
    good &= np.isfinite(values)
    zero = np.flatnonzero((values == 0) & good)
    if len(zero):
        # Zero must be spelled with zeros.
        text = array.view(pa.string()).take(pa.array(zero))
        good[zero] = pc.match_substring_regex(text, r"^-?[0.]+([eE].*)?$").to_numpy(zero_copy_only=False)
    for word, value in _WORDS.items():
        places = np.flatnonzero(~good)
        if not len(places):
            break
        same = pc.equal(array.view(pa.string()).take(pa.array(places)), word).fill_null(False)
        named = places[same.to_numpy(zero_copy_only=False)]
        values[named] = value
        good[named] = True
    return converted_numbers(values, kind, array, good)


def numeric_in(array: pa.Array, typmod: int) -> Converted:
    """To decimal128, rounded half away from zero as PostgreSQL does, or to PostgreSQL's canonical text."""
    kind = arrow_form(1700, typmod)
    plain = plain_decimals(array)
    if pa.types.is_decimal(kind):
        return _decimal_in(array, plain, kind)
    return _text_numeric_in(array, plain, numeric_precision_scale(typmod))


def _decimal_in(array: pa.Array, plain: Plain, kind: pa.DataType) -> Converted:
    # Leading zeros count as digits here; a number with so many of them goes to PostgreSQL.
    fitting = plain.good & (plain.whole <= max(kind.precision - kind.scale, 1))
    if kind.precision == kind.scale:
        # No digit before the point: only a zero may stand there. The value is checked below.
        fitting &= plain.whole == 1
    exact = fitting & (plain.fraction <= kind.scale)
    if kind.precision == kind.scale:
        exact &= _whole_is_zero(array, plain, exact)
    if exact.all():
        return Converted(_only(array, exact, kind), None)
    taken = _only(array, exact, kind)
    good = exact.copy()
    rounded = fitting & (plain.fraction > kind.scale) & (plain.whole + plain.fraction <= _DECIMAL_DIGITS)
    places = np.flatnonzero(rounded)
    if len(places):
        # Twice as wide, so that no digit is lost before the rounding.
        wide = pa.decimal256(2 * _DECIMAL_DIGITS, _DECIMAL_DIGITS)
        text = array.view(pa.string()).take(pa.array(places)).cast(wide)
        results = pc.round(text, ndigits=kind.scale, round_mode="half_towards_infinity")
        limit = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), wide)
        inside = pc.less(pc.abs(results), limit).to_numpy(zero_copy_only=False)
        places = places[inside]
        good[places] = True
        patch = results.filter(pa.array(inside)).cast(kind)
        order = np.arange(len(array))
        order[places] = np.arange(len(array), len(array) + len(places))
        taken = pa.concat_arrays([taken, patch]).take(pa.array(order))
    return _refusing(taken, array, good)


def _whole_is_zero(array: pa.Array, plain: Plain, candidates: Mask) -> Mask:
    """Whether the one digit before the point is a zero."""
    data, start = data_of(array), offsets_of(array)[:-1].astype(np.int64) + plain.negative
    zero = np.zeros(len(array), np.bool_)
    places = np.flatnonzero(candidates)
    zero[places] = data[start[places]] == ord("0")
    return zero


def _text_numeric_in(array: pa.Array, plain: Plain, declared: tuple[int, int] | None) -> Converted:
    """Texts that are PostgreSQL's own: no leading zeros, no negative zero, the scale that was declared."""
    good = plain.good & (plain.whole + plain.fraction <= _TEXT_DIGITS_MAX)
    start = offsets_of(array)[:-1].astype(np.int64) + plain.negative
    data = data_of(array)
    leading = good & (plain.whole > 1)
    leading[leading] = data[start[leading]] == ord("0")
    good &= ~leading
    minus = np.flatnonzero(plain.negative & good)
    if len(minus):
        text = array.view(pa.string()).take(pa.array(minus))
        good[minus] = pc.match_substring_regex(text, "[1-9]").to_numpy(zero_copy_only=False)
    if declared is not None:
        precision, scale = declared
        good &= (plain.fraction == scale) & (plain.whole <= precision - scale)
    else:
        for word in _WORDS:
            places = np.flatnonzero(~good)
            if not len(places):
                break
            same = pc.equal(array.view(pa.string()).take(pa.array(places)), word).fill_null(False)
            good[places[same.to_numpy(zero_copy_only=False)]] = True
    valid = pc.is_valid(array).to_numpy(zero_copy_only=False) if array.null_count else np.ones(len(array), np.bool_)
    return converted_array(as_binary(array).view(pa.string()), good | ~valid)
