"""Texts to dates, times, timestamps and intervals: PostgreSQL's ISO output, column by column; the rest is refused.

A date that begins with four digits of a year is read the same whatever DateStyle is. Sources: `DecodeDateTime` and
`DecodeTimezone` in PostgreSQL's datetime.c; for times that a zone skips or repeats `timezones`.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gateway.values import forms
from gateway.values.calendar import (
    DATE_INFINITY,
    DAY_MICROSECONDS,
    EPOCH_2000_MICROSECONDS,
    TIMESTAMP_INFINITY,
    days_from_civil,
    month_length,
)
from gateway.values.cells import Bytes, Integers, Mask, as_binary, integers_of, lengths_of, padded_matrix
from gateway.values.converted import Converted, converted_numbers, refused_of
from gateway.values.parse_strings import rounded_to_typmod
from gateway.values.timezones import time_zone

_DATE_WIDTH: Final = 10
_TIME_WIDTH: Final = 15
_STAMP_WIDTH: Final = 26
_ZONED_WIDTH: Final = 36
_ZERO: Final = ord("0")
_INFINITIES: Final = {"infinity": 1, "-infinity": -1}
_OFFSET: Final = re.compile(r"Z|([+-])(\d\d)(?::([0-5]\d)(?::([0-5]\d))?)?")
_OFFSET_HOURS_MAX: Final = 15  # MAX_TZDISP_HOUR


def _digits(matrix: Bytes, first: int, count: int) -> tuple[Integers, Mask]:
    """The number in some columns of the matrix, and whether they are all digits."""
    number = np.zeros(len(matrix), np.int64)
    good = np.ones(len(matrix), np.bool_)
    for column in range(first, first + count):
        digit = matrix[:, column] - np.uint8(_ZERO)  # wraps around for what is less than a digit
        good &= digit < 10
        number = number * 10 + digit
    return number, good


def _date_at_front(matrix: Bytes) -> tuple[Integers, Mask]:
    """Days since 1970 of YYYY-MM-DD in the first ten columns."""
    year, good = _digits(matrix, 0, 4)
    month, digits = _digits(matrix, 5, 2)
    good &= digits
    day, digits = _digits(matrix, 8, 2)
    good &= digits & (matrix[:, 4] == ord("-")) & (matrix[:, 7] == ord("-"))
    good &= (year > 0) & (month >= 1) & (month <= 12) & (day >= 1)
    safe = np.where(good, month, 1)
    good &= day <= month_length(np.where(good, year, 1), safe)
    return np.where(good, days_from_civil(year, safe, np.where(good, day, 1)), 0), good


def _time_at(matrix: Bytes, first: int, length: Integers) -> tuple[Integers, Mask]:
    """Microseconds of HH:MM:SS and a fraction of one to six digits, of this length, from column `first` on."""
    hour, good = _digits(matrix, first, 2)
    minute, digits = _digits(matrix, first + 3, 2)
    good &= digits
    second, digits = _digits(matrix, first + 6, 2)
    good &= digits & (matrix[:, first + 2] == ord(":")) & (matrix[:, first + 5] == ord(":"))
    good &= (hour < 24) & (minute < 60) & (second < 60) & (length >= 8) & (length != 9) & (length <= _TIME_WIDTH)
    microseconds = (hour * 60 + minute) * 60_000_000 + second * 1_000_000
    if not len(length) or int(length.max()) <= 8:
        return microseconds, good
    with_fraction = length > 8
    good &= ~with_fraction | (matrix[:, first + 8] == ord("."))
    for place in range(6):
        digit = matrix[:, first + 9 + place] - np.uint8(_ZERO)
        inside = length > 9 + place
        good &= ~inside | (digit < 10)
        microseconds += np.where(inside, digit.astype(np.int64), 0) * 10 ** (5 - place)
    return microseconds, good


def _infinite(array: pa.Array, good: Mask, values: Integers, infinity: int) -> None:
    """Where a value is not good, see whether it is an infinity, in PostgreSQL's own spelling."""
    places = np.flatnonzero(~good)
    if not len(places):
        return
    text = array.take(pa.array(places))
    for word, sign in _INFINITIES.items():
        same = places[pc.equal(text, word).fill_null(False).to_numpy(zero_copy_only=False)]
        values[same] = sign * infinity
        good[same] = True


def date_in(array: pa.StringArray, typmod: int, timezone: str) -> Converted:  # noqa: ARG001
    """YYYY-MM-DD."""
    matrix = padded_matrix(as_binary(array), _DATE_WIDTH)
    days, good = _date_at_front(matrix)
    good &= lengths_of(array) == _DATE_WIDTH
    _infinite(array, good, days, DATE_INFINITY)
    return converted_numbers(days.astype(np.int32), pa.date32(), array, good)


def time_in(array: pa.StringArray, typmod: int, timezone: str) -> Converted:  # noqa: ARG001
    """HH:MM:SS and a fraction."""
    matrix = padded_matrix(as_binary(array), _TIME_WIDTH)
    times, good = _time_at(matrix, 0, lengths_of(array).astype(np.int64))
    return converted_numbers(rounded_to_typmod(times, typmod), pa.time64("us"), array, good)


def _stamp(matrix: Bytes, length: Integers) -> tuple[Integers, Mask]:
    """Microseconds since 1970 of a date, a blank or a T, and a time; or of a date alone."""
    days, good = _date_at_front(matrix)
    only_date = length == _DATE_WIDTH
    separator = matrix[:, _DATE_WIDTH]
    times, timed = _time_at(matrix, _DATE_WIDTH + 1, np.where(only_date, 8, length - _DATE_WIDTH - 1))
    timed &= (separator == ord(" ")) | (separator == ord("T"))
    good &= only_date | timed
    return days * DAY_MICROSECONDS + np.where(only_date | ~good, 0, times), good


def _coerced(instants: Integers, typmod: int) -> Integers:
    """Rounded as PostgreSQL does, who counts from 2000."""
    return rounded_to_typmod(instants - EPOCH_2000_MICROSECONDS, typmod) + EPOCH_2000_MICROSECONDS


def timestamp_in(array: pa.StringArray, typmod: int, timezone: str) -> Converted:  # noqa: ARG001
    """Without a zone; one that is written is refused."""
    length = lengths_of(array).astype(np.int64)
    instants, good = _stamp(padded_matrix(as_binary(array), _STAMP_WIDTH), length)
    instants = _coerced(instants, typmod)
    _infinite(array, good, instants, TIMESTAMP_INFINITY)
    return converted_numbers(instants, forms.TIMESTAMP, array, good)


def timestamptz_in(array: pa.StringArray, typmod: int, timezone: str) -> Converted:
    """With an offset, or Z; else in the session's zone."""
    length = lengths_of(array).astype(np.int64)
    matrix = padded_matrix(as_binary(array), _ZONED_WIDTH)
    # The offset begins with the first sign after the date, or a Z.
    after = matrix[:, _DATE_WIDTH + 1 :]
    signs = (after == ord("+")) | (after == ord("-")) | (after == ord("Z"))
    zoned = signs.any(axis=1)
    end = np.where(zoned, np.argmax(signs, axis=1) + _DATE_WIDTH + 1, length)
    inside = length <= _ZONED_WIDTH
    instants, good = _stamp(matrix, end)
    good &= inside
    offsets = np.zeros(len(array), np.int64)
    if zoned.any():
        places = np.flatnonzero(zoned & inside)
        offsets[places], known = _offsets(matrix, places, end[places])
        good[places] &= known
    local = np.flatnonzero(good & ~zoned)
    if len(local):
        offsets[local] = time_zone(timezone).offset_of_local(instants[local] // 1_000_000)
    instants = _coerced(instants - offsets * 1_000_000, typmod)
    _infinite(array, good, instants, TIMESTAMP_INFINITY)
    return converted_numbers(instants, forms.TIMESTAMPTZ, array, good)


def _offsets(matrix: Bytes, places: Integers, begin: Integers) -> tuple[Integers, Mask]:
    """Seconds east of UTC that are written in some rows, from a column on. There are few different ones: each is read
    once."""
    width = 9
    column = begin[:, None] + np.arange(width)
    inside = column < matrix.shape[1]
    taken: npt.NDArray[Any] = np.where(inside, matrix[places[:, None], np.minimum(column, matrix.shape[1] - 1)], 0)
    tail = taken.astype(np.uint8).view(f"S{width}")[:, 0]
    # Ten bytes would not be an offset: what follows the nine must be nothing.
    longer = np.zeros(len(places), np.bool_)
    over = begin + width < matrix.shape[1]
    longer[over] = matrix[places[over], begin[over] + width] != 0
    distinct, inverse = np.unique(tail, return_inverse=True)
    seconds = np.zeros(len(distinct), np.int64)
    known = np.zeros(len(distinct), np.bool_)
    for number, text in enumerate(distinct):
        found = _OFFSET.fullmatch(text.decode("latin-1"))
        if found is None or (found[2] is not None and int(found[2]) > _OFFSET_HOURS_MAX):
            continue
        known[number] = True
        if found[1] is not None:
            size = int(found[2]) * 3600 + int(found[3] or 0) * 60 + int(found[4] or 0)
            seconds[number] = -size if found[1] == "-" else size
    return seconds[inverse], known[inverse] & ~longer


_NUMBER: Final = r"[+-]?[0-9]{1,6}"
_UNITS: Final = "".join(
    rf"(?:(?P<{name}s>{_NUMBER}) {unit}s?(?: |$))?"
    for name, unit in (("year", "year"), ("month", "mon"), ("day", "day"))
)
_CLOCK: Final = r"(?P<sign>[+-]?)(?P<hours>[0-9]{2,6}):(?P<minutes>[0-5][0-9]):(?P<seconds>[0-5][0-9])"
_INTERVAL: Final = rf"^{_UNITS}(?:{_CLOCK}(?:\.(?P<fraction>[0-9]{{1,6}}))?)?$"


def interval_in(array: pa.StringArray, typmod: int, timezone: str) -> Converted:  # noqa: ARG001
    """`1 year 2 mons -3 days +04:05:06.7`, any of its parts left out, but not all; without a typmod."""
    parts = pc.extract_regex(array, _INTERVAL)
    valid = pc.is_valid(parts).to_numpy(zero_copy_only=False)
    good = valid & (lengths_of(array) > 0) & (typmod == -1)
    trailing = pc.ends_with(array, " ").fill_null(False).to_numpy(zero_copy_only=False)
    good &= ~trailing
    fields = dict(zip((field.name for field in parts.type), parts.flatten(), strict=True))

    def number(name: str) -> Integers:
        text = pc.replace_substring(fields[name], "+", "")
        text = pc.if_else(pc.equal(text, "").fill_null(True), "0", text)
        return integers_of(text.cast(pa.int64()))

    months, days = number("years") * 12 + number("months"), number("days")
    fraction = pc.utf8_rpad(pc.fill_null(fields["fraction"], ""), width=6, padding="0").cast(pa.int64())
    seconds = (number("hours") * 60 + number("minutes")) * 60 + number("seconds")
    microseconds = seconds * 1_000_000 + integers_of(fraction)
    negative = pc.equal(fields["sign"], "-").fill_null(False).to_numpy(zero_copy_only=False)
    columns = [
        pa.array(months.astype(np.int32)),
        pa.array(days.astype(np.int32)),
        pa.array(np.where(negative, -microseconds, microseconds)),
    ]
    made = pa.StructArray.from_arrays(columns, fields=list(forms.INTERVAL), mask=pa.array(~good))
    present = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return Converted(made, refused_of(present, good | ~present))
