"""interval as text: in the style `postgres` here, in others by `interval_styles`.

Source: `EncodeInterval`, INTSTYLE_POSTGRES, in PostgreSQL's datetime.c.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import unsupported
from gateway.values.cells import Integers, Mask, as_binary, choose, integers_of, joined, overlaid, where
from gateway.values.datetimes import time_cells, two_digit_cells
from gateway.values.interval_styles import STYLES, fields_of
from gateway.values.settings import OutputSettings

_HOUR_MICROSECONDS: Final = 3_600_000_000
INT32_LIMITS: Final = (-(2**31), 2**31 - 1)
INT64_LIMITS: Final = (-(2**63), 2**63 - 1)


class Interval(NamedTuple):
    """The three parts, as columns. All three at their greatest (least) is infinity (minus infinity)."""

    months: Integers
    days: Integers
    microseconds: Integers

    @property
    def infinite(self) -> tuple[Mask, Mask]:
        """(minus infinity, infinity)."""
        low, high = (
            (self.months == narrow) & (self.days == narrow) & (self.microseconds == wide)
            for narrow, wide in zip(INT32_LIMITS, INT64_LIMITS, strict=True)
        )
        return low, high


def interval_parts(array: pa.StructArray) -> Interval:
    """From a struct of months, days and microseconds."""
    fields = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    return Interval(
        integers_of(fields["months"].cast(pa.int32()), np.int32).astype(np.int64),
        integers_of(fields["days"].cast(pa.int32()), np.int32).astype(np.int64),
        integers_of(fields["microseconds"].cast(pa.int64())),
    )


def interval_text(array: pa.StructArray, settings: OutputSettings) -> pa.BinaryArray:
    """A struct array, in cells."""
    interval = interval_parts(array)
    style = settings.interval_style.lower()
    if style == "postgres":
        text = _postgres(interval)
    elif style in STYLES:
        text = STYLES[style](fields_of(*interval))
    else:
        raise unsupported(f'the IntervalStyle "{settings.interval_style}"')
    for mask, name in zip(interval.infinite, (b"-infinity", b"infinity"), strict=True):
        if mask.any():
            places = np.flatnonzero(mask)
            text = overlaid(text, places, choose((name,), np.zeros(len(places), np.int32)))
    return text


def _postgres(interval: Interval) -> pa.BinaryArray:
    years = np.trunc(interval.months / 12).astype(np.int64)
    months = interval.months - years * 12
    pieces: list[pa.BinaryArray | bytes] = []
    begun = np.zeros(len(years), np.bool_)
    before_negative = np.zeros(len(years), np.bool_)
    for values, unit in ((years, b"year"), (months, b"mon"), (interval.days, b"day")):
        present = values != 0
        if not present.any():
            continue
        pieces.append(choose((b"", b" "), (present & begun).astype(np.int32)))
        pieces.append(choose((b"", b"+"), (before_negative & (values > 0)).astype(np.int32)))
        pieces.append(where(present, as_binary(pa.array(values).cast(pa.string()))))
        pieces.append(choose((b"", b" " + unit, b" " + unit + b"s"), present * np.where(values == 1, 1, 2)))
        begun |= present
        before_negative = np.where(present, values < 0, before_negative)
    pieces += _time_pieces(interval.microseconds, begun, before_negative)
    return joined(*pieces)


def _time_pieces(microseconds: Integers, begun: Mask, before_negative: Mask) -> list[pa.BinaryArray | bytes]:
    present = (microseconds != 0) | ~begun
    negative = microseconds < 0
    # The least int64 has no positive counterpart; as unsigned it has.
    size = np.where(negative, -microseconds.astype(np.uint64), microseconds.astype(np.uint64)).astype(np.uint64)
    hours = (size // np.uint64(_HOUR_MICROSECONDS)).astype(np.int64)
    rest = (size % np.uint64(_HOUR_MICROSECONDS)).astype(np.int64)
    if not len(hours) or int(hours.max()) <= 99:
        hour = two_digit_cells(hours)
    else:
        hour = as_binary(pc.utf8_lpad(pa.array(hours).cast(pa.string()), width=2, padding="0"))
    minutes = as_binary(pc.binary_slice(time_cells(rest), 2, 15))  # the hour of what is left is 00
    sign = np.where(negative, 2, np.where(before_negative, 1, 0))
    return [
        where(present & begun, choose((b" ",), np.zeros(len(sign), np.int32))),
        where(present, choose((b"", b"+", b"-"), sign)),
        where(present, hour),
        where(present, minutes),
    ]
