"""float4 and float8 as PostgreSQL writes them: the shortest digits that read back as the same number.

Arrow's cast gives the shortest digits too, but lays some numbers out otherwise; those, and only those, are laid out
anew. Where PostgreSQL's rule is stricter (the digits must lie strictly within the rounding interval, never on its
edge: `d2s.c`, `acceptBounds = false`), the few numbers concerned, all of them at least 2^24, get other digits.

Source: PostgreSQL's src/common/d2s.c and f2s.c (`to_chars`): plain digits from 1e-4 up to 1e15 (float4: 1e6), else
scientific with an exponent of two digits or more.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.values.cells import Bytes, Mask, as_binary, choose, overlaid, padded_matrix, ragged


class _Kind(NamedTuple):
    """What differs between float4 and float8."""

    array: Any
    unsigned: Any
    fraction_bits: int
    plain_limit: float
    strict_from: float
    safe_digits: int  # DBL_DIG, FLT_DIG


_FLOAT8: Final = _Kind(np.float64, np.uint64, 52, 1e15, 2.0**53, 15)
_FLOAT4: Final = _Kind(np.float32, np.uint32, 23, 1e6, 2.0**24, 6)
# Arrow lays out plainly from 1e-6 up to this.
_ARROW_PLAIN_LIMIT: Final = 1e10
_SMALL_LIMIT: Final = 1e-4
_SPECIAL: Final = (b"NaN", b"Infinity", b"-Infinity")
_WIDTH: Final = 28


def float_text(array: pa.Array, extra_digits: int = 1) -> pa.BinaryArray:
    """A float32 or float64 array, in cells. `extra_digits` is extra_float_digits: below 1, digits are cut off."""
    kind = _FLOAT4 if pa.types.is_float32(array.type) else _FLOAT8
    if array.null_count:
        array = array.fill_null(0)
    if not len(array):
        return pa.array([], pa.binary())
    width = np.dtype(kind.array).itemsize
    values = np.frombuffer(array.buffers()[1], kind.array, len(array), array.offset * width)
    finite = np.isfinite(values)
    if extra_digits < 1:
        text = _rounded(values, finite, max(kind.safe_digits + extra_digits, 1))
    else:
        text = _shortest(array, values, finite, kind)
    if not finite.all():
        places = np.flatnonzero(~finite)
        found = values[places]
        text = overlaid(text, places, choose(_SPECIAL, np.where(np.isnan(found), 0, np.where(found > 0, 1, 2))))
    return text


def _rounded(values: npt.NDArray[Any], finite: Mask, digits: int) -> pa.BinaryArray:
    """So many significant digits, as C's %g writes them, which is what PostgreSQL calls (`float8out_internal`)."""
    return as_binary(pa.array(np.char.mod(f"%.{digits}g", np.where(finite, values, 0).astype(np.float64))))


def _shortest(array: pa.Array, values: npt.NDArray[Any], finite: Mask, kind: _Kind) -> pa.BinaryArray:
    text = as_binary(array.cast(pa.string()))
    size = np.abs(values)
    low, high = sorted((_ARROW_PLAIN_LIMIT, kind.plain_limit))
    other = ((size >= low) & (size < high) | (size < _SMALL_LIMIT) & (size > 0)) & finite
    if other.any():
        places = np.flatnonzero(other)
        text = overlaid(text, places, _laid_out(text.take(pa.array(places)), kind))
    edge = (size >= kind.strict_from) & finite
    if edge.any():
        text = _strict(text, values, np.flatnonzero(edge), kind)
    return text


class _Decimal(NamedTuple):
    """Digits as a number and the power of ten of the last one; `length` digits, trailing zeros cut."""

    negative: Mask
    digits: npt.NDArray[np.uint64]
    length: npt.NDArray[np.int64]
    exponent: npt.NDArray[np.int64]


def _parsed(text: pa.BinaryArray) -> _Decimal:
    """From Arrow's layout, plain or scientific."""
    matrix = padded_matrix(text, _WIDTH)
    count = len(matrix)
    digits = np.zeros(count, np.uint64)
    exponent = np.zeros(count, np.int64)
    scientific = np.zeros(count, np.bool_)
    exponent_negative = np.zeros(count, np.bool_)
    point_seen = np.zeros(count, np.bool_)
    fraction = np.zeros(count, np.int64)
    for column in range(_WIDTH):  # over the characters of the layout, not over values
        byte = matrix[:, column]
        digit = (byte >= ord("0")) & (byte <= ord("9"))
        mantissa = digit & ~scientific
        digits[mantissa] = digits[mantissa] * np.uint64(10) + (byte[mantissa] - ord("0")).astype(np.uint64)
        fraction += mantissa & point_seen
        power = digit & scientific
        exponent[power] = exponent[power] * 10 + (byte[power] - ord("0"))
        exponent_negative |= scientific & (byte == ord("-"))
        point_seen |= byte == ord(".")
        scientific |= byte == ord("e")
    exponent = np.where(exponent_negative, -exponent, exponent) - fraction
    for _ in range(18):
        trailing = (digits % np.uint64(10) == 0) & (digits > 0)
        if not trailing.any():
            break
        digits[trailing] //= np.uint64(10)
        exponent[trailing] += 1
    return _Decimal(matrix[:, 0] == ord("-"), digits, _digit_count(digits), exponent)


_POWERS: Final = np.array([10**power for power in range(1, 20)], np.uint64)


def _digit_count(digits: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    return np.searchsorted(_POWERS, digits, side="right") + 1


def _laid_out(text: pa.BinaryArray, kind: _Kind) -> pa.BinaryArray:
    return _layout(_parsed(text), kind)


def _layout(number: _Decimal, kind: _Kind) -> pa.BinaryArray:
    """PostgreSQL's layout. The caller has neither zeros nor plain numbers below 1e-4 or with more than 17 digits."""
    power = number.length - 1 + number.exponent
    plain = (power >= -4) & (power < (15 if kind is _FLOAT8 else 6))
    count = len(power)
    matrix = np.zeros((count, _WIDTH + 4), np.uint8)
    digits = _digit_matrix(number.digits, number.length)
    matrix[:, 0] = np.where(number.negative, ord("-"), 0)
    column = np.arange(digits.shape[1])
    # plain: digits, zeros up to the unit; a point where the exponent is negative (power is then at least 0 or the
    # number begins with zeros, which the digit matrix holds not: they are put before).
    whole = np.where(plain, np.maximum(power + 1, 1), 1)
    lead = np.where(plain & (power < 0), -power, 0)  # zeros before the first digit
    shown = np.where(plain, np.maximum(lead + number.length, whole), number.length)
    source = column[None, :] - lead[:, None]
    inside = (source >= 0) & (source < number.length[:, None])
    run = np.where(
        inside, np.take_along_axis(digits, np.clip(source, 0, digits.shape[1] - 1), axis=1), np.uint8(ord("0"))
    ).astype(np.uint8)
    run[column[None, :] >= shown[:, None]] = 0
    rows = np.arange(count)
    target = 1 + column[None, :] + (column[None, :] >= whole[:, None])
    matrix[rows[:, None], target] = run
    pointed = shown > whole
    matrix[rows[pointed], 1 + whole[pointed]] = ord(".")
    end = 1 + shown + pointed
    _append_exponent(matrix, end, power, ~plain)
    end += np.where(plain, 0, np.where(np.abs(power) >= 100, 5, 4))
    return ragged(matrix, np.where(number.negative, 0, 1), end)


def _append_exponent(matrix: Bytes, end: npt.NDArray[np.int64], power: npt.NDArray[np.int64], rows: Mask) -> None:
    at = np.flatnonzero(rows)
    place, value = end[at], power[at]
    size = np.abs(value)
    matrix[at, place] = ord("e")
    matrix[at, place + 1] = np.where(value < 0, ord("-"), ord("+"))
    long = size >= 100
    matrix[at[long], place[long] + 2] = ord("0") + size[long] // 100
    place = place + 2 + long
    matrix[at, place] = ord("0") + size // 10 % 10
    matrix[at, place + 1] = ord("0") + size % 10


def _digit_matrix(digits: npt.NDArray[np.uint64], count: npt.NDArray[np.int64]) -> Bytes:
    """The digits as characters, left justified, 20 columns."""
    width = 20
    scaled = digits.copy()
    matrix = np.zeros((len(digits), width), np.uint8)
    for column in range(width - 1, -1, -1):
        matrix[:, column] = scaled % np.uint64(10) + ord("0")
        scaled //= np.uint64(10)
    source = np.arange(width)[None, :] + (width - count)[:, None]
    left: Bytes = np.take_along_axis(matrix, np.clip(source, 0, width - 1), axis=1)
    return left


def _strict(text: pa.BinaryArray, values: npt.NDArray[Any], places: npt.NDArray[Any], kind: _Kind) -> pa.BinaryArray:
    """Give numbers whose shortest digits are exactly halfway to a neighbour the digits that PostgreSQL gives."""
    chosen = text.take(pa.array(places))
    number = _parsed(chosen)
    raw = np.abs(values[places]).view(kind.unsigned).astype(np.uint64)
    fraction = raw & np.uint64((1 << kind.fraction_bits) - 1)
    mantissa = (fraction | np.uint64(1 << kind.fraction_bits)) << np.uint64(1)
    # digits * 10^exponent is halfway, (mantissa ± 1/2) * 2^n, exactly when the odd parts are equal: digits are of at
    # most 17 digits, so the power of five must fit beside them into the mantissa's bits.
    odd = number.digits.copy()
    for _ in range(60):
        even = (odd & np.uint64(1) == 0) & (odd > 0)
        if not even.any():
            break
        odd[even] >>= np.uint64(1)
    fitting = (number.exponent >= 0) & (number.exponent <= 23)
    fives = np.uint64(5) ** np.where(fitting, number.exponent, 0).astype(np.uint64)
    limit = np.uint64(1 << (kind.fraction_bits + 3))
    fitting &= odd <= limit // fives
    product = np.where(fitting, odd * np.where(fitting, fives, np.uint64(1)), np.uint64(0))
    # The lower neighbour of a power of two is half as far: its midpoint has one bit more.
    quarter = fraction == 0
    halfway = (product == mantissa + np.uint64(1)) | (product == mantissa - np.uint64(1))
    halfway |= quarter & (product == (mantissa << np.uint64(1)) - np.uint64(1))
    if not halfway.any():
        return text
    at = np.flatnonzero(halfway)
    return overlaid(text, places[at], _inner(values[places[at]], kind))


# Up to here a float's neighbours, doubled, are exact in 64 bits.
_EXACT_LIMIT: Final = 2.0**61


def _inner(values: npt.NDArray[Any], kind: _Kind) -> pa.BinaryArray:
    """The shortest digits strictly inside the rounding interval, the closest to the number among those."""
    near = np.abs(values) < _EXACT_LIMIT
    digits = np.zeros(len(values), np.uint64)
    exponent = np.zeros(len(values), np.int64)
    digits[near], exponent[near] = _inner_exact(np.abs(values[near]), kind)
    # So far out a decimal lies on the edge less than once in a thousand numbers, for it must have just as many factors
    # of two as the edge: here arithmetic with any number of digits, once for each distinct number.
    distinct, inverse = np.unique(np.abs(values[~near]), return_inverse=True)
    found = [_inner_digits(value, kind) for value in distinct]
    digits[~near] = np.array([pair[0] for pair in found], np.uint64)[inverse]
    exponent[~near] = np.array([pair[1] for pair in found], np.int64)[inverse]
    return _layout(_Decimal(values < 0, digits, _digit_count(digits), exponent), kind)


def _inner_exact(values: npt.NDArray[Any], kind: _Kind) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    size = values.astype(np.uint64)
    below = size - np.nextafter(values, kind.array(0)).astype(np.uint64)
    above = np.nextafter(values, kind.array(np.inf)).astype(np.uint64) - size
    digits, exponent = size.copy(), np.zeros(len(size), np.int64)
    for power in range(1, 19):
        unit = np.uint64(10**power)
        rounded = (size + unit // np.uint64(2)) // unit
        upper = rounded * unit
        inside = np.where(
            upper >= size,
            np.uint64(2) * (upper - size) < above,
            np.uint64(2) * (size - np.minimum(upper, size)) < below,
        ) & (rounded > 0)
        digits[inside], exponent[inside] = rounded[inside], power
    return digits, exponent


def _inner_digits(value: Any, kind: _Kind) -> tuple[int, int]:
    """(digits, exponent) for one positive number."""
    size = int(value)
    below = size - int(np.nextafter(value, kind.array(0)))
    after = np.nextafter(value, kind.array(np.inf))
    above = int(after) - size if np.isfinite(after) else below
    for power in range(len(str(size)) - 1, 0, -1):
        unit = 10**power
        digits = (2 * size + unit) // (2 * unit)
        if -below < 2 * (digits * unit - size) < above and digits > 0:
            return digits, power
    raise AssertionError("17 digits tell every float8 apart, 9 every float4")
