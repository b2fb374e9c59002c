"""interval as text in the styles other than `postgres`: sql_standard, postgres_verbose, iso_8601.

Source: `EncodeInterval`, `AddVerboseIntPart`, `AddISO8601IntPart` and `AppendSeconds` in PostgreSQL's datetime.c. The
fields are cut towards zero, so all of the time's have one sign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gateway.values.cells import Integers, Mask, as_binary, choose, joined, where
from gateway.values.datetimes import two_digit_cells

_MICROSECONDS: Final = np.uint64(1_000_000)
_MINUTE: Final = np.uint64(60)


class Fields(NamedTuple):
    """An interval taken apart: `time_negative` is the sign of everything from hours on, which are given as sizes."""

    years: Integers
    months: Integers
    days: Integers
    hours: Integers
    minutes: Integers
    seconds: Integers
    micros: Integers
    time_negative: Mask

    @property
    def has_time(self) -> Mask:
        found: Mask = (self.hours != 0) | (self.minutes != 0) | self.has_seconds
        return found

    @property
    def has_seconds(self) -> Mask:
        found: Mask = (self.seconds != 0) | (self.micros != 0)
        return found


def fields_of(months: Integers, days: Integers, microseconds: Integers) -> Fields:
    """The fields of intervals."""
    years = np.trunc(months / 12).astype(np.int64)
    negative = microseconds < 0
    # The least int64 has no positive counterpart; as unsigned it has.
    size = np.where(negative, -microseconds.astype(np.uint64), microseconds.astype(np.uint64)).astype(np.uint64)
    seconds = size // _MICROSECONDS
    minutes = seconds // _MINUTE
    parts = (minutes // _MINUTE, minutes % _MINUTE, seconds % _MINUTE, size % _MICROSECONDS)
    hours, minute, second, micro = (part.astype(np.int64) for part in parts)
    return Fields(years, months - years * 12, days, hours, minute, second, micro, negative)


def _numbers(values: Integers) -> pa.BinaryArray:
    return as_binary(pa.array(values).cast(pa.string()))


def _seconds(fields: Fields, *, filled: bool) -> pa.BinaryArray:
    """Seconds with their fraction, trailing zeros off."""
    whole = two_digit_cells(fields.seconds) if filled else _numbers(fields.seconds)
    if not fields.micros.any():
        return whole
    padded = pc.utf8_lpad(pa.array(fields.micros).cast(pa.string()), width=6, padding="0")
    fraction = as_binary(pc.utf8_rtrim(padded, characters="0"))
    return joined(whole, choose((b"", b"."), (fields.micros != 0).astype(np.int32)), fraction)


def _only(mask: Mask, text: bytes) -> pa.BinaryArray:
    return choose((b"", text), mask.astype(np.int32))


def _sign(negative: Mask, mask: Mask, positive: bytes = b"+") -> pa.BinaryArray:
    return choose((b"", positive, b"-"), np.where(mask, np.where(negative, 2, 1), 0))


def _sql_standard(fields: Fields) -> pa.BinaryArray:
    year_negative, day_negative = (fields.years < 0) | (fields.months < 0), fields.days < 0
    year_positive, day_positive = (fields.years > 0) | (fields.months > 0), fields.days > 0
    time_negative = fields.time_negative & fields.has_time
    time_positive = ~fields.time_negative & fields.has_time
    has_negative = year_negative | day_negative | time_negative
    has_positive = year_positive | day_positive | time_positive
    has_months = (fields.years != 0) | (fields.months != 0)
    standard = ~(has_negative & has_positive) & ~(has_months & ((fields.days != 0) | fields.has_time))
    zero = ~has_negative & ~has_positive
    mixed = ~standard
    with_months = mixed | (standard & has_months)
    with_days = mixed | (standard & ~has_months & (fields.days != 0))
    with_time = mixed | (standard & ~has_months & ~zero)
    return joined(
        _only(has_negative & standard, b"-"),
        _only(zero, b"0"),
        _sign(year_negative, mixed),
        where(with_months, joined(_numbers(np.abs(fields.years)), b"-", _numbers(np.abs(fields.months)))),
        _only(mixed, b" "),
        _sign(day_negative, mixed),
        where(with_days, joined(_numbers(np.abs(fields.days)), b" ")),
        _sign(time_negative, mixed),
        where(
            with_time,
            joined(_numbers(fields.hours), b":", two_digit_cells(fields.minutes), b":", _seconds(fields, filled=True)),
        ),
    )


def _iso_8601(fields: Fields) -> pa.BinaryArray:
    zero = (fields.years == 0) & (fields.months == 0) & (fields.days == 0) & ~fields.has_time
    sign = np.where(fields.time_negative, -1, 1)
    return joined(
        choose((b"P", b"PT0S"), zero.astype(np.int32)),
        *_iso_part(fields.years, b"Y"),
        *_iso_part(fields.months, b"M"),
        *_iso_part(fields.days, b"D"),
        _only(fields.has_time, b"T"),
        *_iso_part(fields.hours * sign, b"H"),
        *_iso_part(fields.minutes * sign, b"M"),
        _sign(fields.time_negative, fields.has_seconds, b""),
        where(fields.has_seconds, _seconds(fields, filled=False)),
        _only(fields.has_seconds, b"S"),
    )


def _iso_part(values: Integers, unit: bytes) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    present = values != 0
    return where(present, _numbers(values)), _only(present, unit)


def _verbose(fields: Fields) -> pa.BinaryArray:
    pieces: list[pa.BinaryArray | bytes] = [b"@"]
    zero = np.ones(len(fields.days), np.bool_)
    before = np.zeros(len(fields.days), np.bool_)
    sign: npt.NDArray[np.int64] = np.where(fields.time_negative, -1, 1)
    parts = (
        (fields.years, b"year"),
        (fields.months, b"mon"),
        (fields.days, b"day"),
        (fields.hours * sign, b"hour"),
        (fields.minutes * sign, b"min"),
    )
    for values, unit in parts:
        present = values != 0
        # The first that is not zero says whether it is all "ago"; the others are relative to that.
        before |= present & zero & (values < 0)
        shown = np.where(before, -values, values)
        zero &= ~present
        pieces += [
            _only(present, b" "),
            where(present, _numbers(shown)),
            choose((b"", b" " + unit, b" " + unit + b"s"), present * np.where(shown == 1, 1, 2)),
        ]
    present = fields.has_seconds
    before |= present & zero & fields.time_negative
    one = (fields.seconds == 1) & (fields.micros == 0)
    zero &= ~present
    pieces += [
        _only(present, b" "),
        _only(present & (before != fields.time_negative), b"-"),
        where(present, _seconds(fields, filled=False)),
        choose((b"", b" sec", b" secs"), present * np.where(one, 1, 2)),
        _only(zero, b" 0"),
        _only(before, b" ago"),
    ]
    return joined(*pieces)


STYLES: Final[Mapping[str, Callable[[Fields], pa.BinaryArray]]] = {
    "sql_standard": _sql_standard,
    "postgres_verbose": _verbose,
    "iso_8601": _iso_8601,
}
