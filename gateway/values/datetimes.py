"""date, time, timestamp and timestamptz as text, in each of PostgreSQL's date styles.

The usual case, ISO and years 1 to 9999, is filled into fixed records of digits from tables; everything else is put
together from pieces. Source: `EncodeDateOnly`, `EncodeDateTime` and `EncodeTimezone` in PostgreSQL's datetime.c.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import unsupported
from gateway.values.calendar import DATE_INFINITY, DAY_MICROSECONDS, TIMESTAMP_INFINITY, Civil, civil_from_days
from gateway.values.cells import Integers, as_binary, choose, fixed, integers_of, joined, overlaid, ragged
from gateway.values.settings import OutputSettings
from gateway.values.timezones import TimeZone, time_zone

TWO_DIGITS: Final = np.frombuffer(b"".join(b"%02d" % number for number in range(100)), np.uint16)
FOUR_DIGITS: Final = np.frombuffer(b"".join(b"%04d" % number for number in range(10_000)), np.uint32)
_WEEKDAYS: Final = (b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed")  # 1970-01-01 was a Thursday
_MONTHS: Final = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_INFINITIES: Final = (b"infinity", b"-infinity")

_DATE_FIELDS: Final[list[tuple[str, str]]] = [
    ("year", "u4"), ("a", "u1"), ("month", "u2"), ("b", "u1"), ("day", "u2"),
]  # fmt: skip
_TIME_FIELDS: Final[list[tuple[str, str]]] = [
    ("hour", "u2"), ("d", "u1"), ("minute", "u2"), ("e", "u1"), ("second", "u2"),
    ("point", "u1"), ("micro", "u2"), ("second_micro", "u4"),
]  # fmt: skip
_DATE: Final = np.dtype(_DATE_FIELDS)
_TIME: Final = np.dtype(_TIME_FIELDS)
_TIMESTAMP: Final = np.dtype([*_DATE_FIELDS, ("c", "u1"), *_TIME_FIELDS])


class DateStyle(NamedTuple):
    """The setting, taken apart."""

    style: str
    day_first: bool


@lru_cache(maxsize=32)
def date_style(setting: str) -> DateStyle:
    """From SHOW's spelling, `ISO, MDY`. Raises 0A000 for a style that PostgreSQL has not either."""
    style, _, order = (part.strip().upper() for part in setting.partition(","))
    if style not in {"ISO", "SQL", "POSTGRES", "GERMAN"}:
        raise unsupported(f'the DateStyle "{setting}"')
    return DateStyle(style, order == "DMY")


def date_text(array: pa.Array, settings: OutputSettings) -> pa.BinaryArray:
    """A date32 array, in cells."""
    days = integers_of(array.cast(pa.date32()), np.int32).astype(np.int64)
    infinite = np.abs(days) >= DATE_INFINITY
    civil = civil_from_days(np.where(infinite, 0, days))
    text = _date_cells(civil, date_style(settings.date_style))
    return _with_infinities(text, infinite, days)


def time_text(array: pa.Array, settings: OutputSettings) -> pa.BinaryArray:  # noqa: ARG001
    """A time64 array, in cells; 24:00:00 is a time."""
    return time_cells(integers_of(array.cast(pa.time64("us"))))


def timestamp_text(array: pa.Array, settings: OutputSettings) -> pa.BinaryArray:
    """A timestamp[us] array without a zone, in cells."""
    return _timestamp_cells(integers_of(array.cast(pa.timestamp("us"))), date_style(settings.date_style), None)


def timestamptz_text(array: pa.Array, settings: OutputSettings) -> pa.BinaryArray:
    """A timestamp[us] array of UTC, in cells, as local times of the session's zone."""
    instants = integers_of(array.cast(pa.timestamp("us", array.type.tz)))
    return _timestamp_cells(instants, date_style(settings.date_style), time_zone(settings.timezone))


def _with_infinities(text: pa.BinaryArray, infinite: Any, values: Integers) -> pa.BinaryArray:
    if not infinite.any():
        return text
    places = np.flatnonzero(infinite)
    return overlaid(text, places, choose(_INFINITIES, (values[places] < 0).astype(np.int32)))


def _ordinary(civil: Civil) -> bool:
    """Whether all years have four digits."""
    return not len(civil.year) or (int(civil.year.min()) >= 1 and int(civil.year.max()) <= 9999)


def _fill_date(record: Any, civil: Civil) -> None:
    record["year"] = FOUR_DIGITS[civil.year]
    record["month"] = TWO_DIGITS[civil.month]
    record["day"] = TWO_DIGITS[civil.day]
    record["a"] = record["b"] = ord("-")


def _fill_time(record: Any, microseconds: Integers) -> Integers:
    """Returns how many digits the fractions have, trailing zeros off."""
    seconds = microseconds // 1_000_000
    micro = microseconds - seconds * 1_000_000
    minutes = seconds // 60
    hours = minutes // 60
    record["hour"] = TWO_DIGITS[hours]
    record["minute"] = TWO_DIGITS[minutes - hours * 60]
    record["second"] = TWO_DIGITS[seconds - minutes * 60]
    record["d"] = record["e"] = ord(":")
    if not micro.any():
        return np.zeros(len(micro), np.int64)
    high = micro // 10_000
    record["point"] = ord(".")
    record["micro"] = TWO_DIGITS[high]
    record["second_micro"] = FOUR_DIGITS[micro - high * 10_000]
    digits = np.full(len(micro), 6, np.int64)
    for power in (10, 100, 1000, 10_000, 100_000, 1_000_000):
        digits -= micro % power == 0
    return digits


def _trimmed(record: Any, whole: int, digits: Integers) -> pa.BinaryArray:
    """The records' bytes: `whole` of them, and a point and as many digits where there are some."""
    matrix = record.view(np.uint8).reshape(len(record), record.itemsize)
    return ragged(matrix, 0, whole + digits + (digits > 0))


def time_cells(microseconds: Integers) -> pa.BinaryArray:
    """Microseconds of a day, 0 to 24 hours, as HH:MM:SS and a fraction where there is one."""
    record = np.empty(len(microseconds), _TIME)
    return _trimmed(record, 8, _fill_time(record, microseconds))


def two_digit_cells(numbers: Integers) -> pa.BinaryArray:
    """Numbers from 0 to 99, in two digits."""
    return fixed(TWO_DIGITS[numbers])


def _year_cells(civil: Civil) -> pa.BinaryArray:
    years = np.where(civil.year > 0, civil.year, 1 - civil.year)
    return as_binary(pc.utf8_lpad(pa.array(years).cast(pa.string()), width=4, padding="0"))


def _era_cells(civil: Civil) -> pa.BinaryArray:
    return choose((b"", b" BC"), (civil.year <= 0).astype(np.int32))


def _date_cells(civil: Civil, style: DateStyle) -> pa.BinaryArray:
    if style.style == "ISO" and _ordinary(civil):
        record = np.empty(len(civil.year), _DATE)
        _fill_date(record, civil)
        return fixed(record)
    return joined(*_date_pieces(civil, style), _era_cells(civil))


def _date_pieces(civil: Civil, style: DateStyle) -> list[pa.BinaryArray | bytes]:
    year, month, day = _year_cells(civil), two_digit_cells(civil.month), two_digit_cells(civil.day)
    if style.style == "ISO":
        return [year, b"-", month, b"-", day]
    if style.style == "GERMAN":
        return [day, b".", month, b".", year]
    separator = b"/" if style.style == "SQL" else b"-"
    first, second = (day, month) if style.day_first else (month, day)
    return [first, separator, second, separator, year]


def _timestamp_cells(instants: Integers, style: DateStyle, zone: TimeZone | None) -> pa.BinaryArray:
    infinite = np.abs(instants) >= TIMESTAMP_INFINITY
    infinite |= instants == -TIMESTAMP_INFINITY - 1
    any_infinite = bool(infinite.any())
    local = np.where(infinite, 0, instants) if any_infinite else instants
    zone_cells: pa.BinaryArray | bytes = b""
    if zone is not None:
        local, zone_cells = _local(local, zone, style)
    days = local // DAY_MICROSECONDS
    civil = civil_from_days(days)
    microseconds = local - days * DAY_MICROSECONDS
    if style.style == "ISO" and _ordinary(civil):
        record = np.empty(len(instants), _TIMESTAMP)
        _fill_date(record, civil)
        record["c"] = ord(" ")
        text = _trimmed(record, 19, _fill_time(record, microseconds))
        if zone is not None:
            text = joined(text, zone_cells)
    elif style.style == "POSTGRES":
        month = choose(_MONTHS, civil.month - 1)
        first, second = (two_digit_cells(civil.day), month) if style.day_first else (month, two_digit_cells(civil.day))
        weekday = choose(_WEEKDAYS, days % 7)
        pieces = (weekday, b" ", first, b" ", second, b" ", time_cells(microseconds), b" ", _year_cells(civil))
        text = joined(*pieces, zone_cells, _era_cells(civil))
    else:
        date = _date_pieces(civil, style)
        text = joined(*date, b" ", time_cells(microseconds), zone_cells, _era_cells(civil))
    return _with_infinities(text, infinite, instants) if any_infinite else text


def _local(instants: Integers, zone: TimeZone, style: DateStyle) -> tuple[Integers, pa.BinaryArray | bytes]:
    """Local times, and what is written for the zone at each."""
    iso = style.style == "ISO"
    if len(zone.offsets) == 1:
        suffix = _offset_text(int(zone.offsets[0])) if iso else b" " + zone.abbreviations[0].encode()
        return instants + int(zone.offsets[0]) * 1_000_000, suffix
    periods = zone.period_at(instants // 1_000_000)
    offsets = zone.offsets[periods]
    local = instants + offsets * 1_000_000
    if iso:
        distinct, index = np.unique(zone.offsets, return_inverse=True)
        suffixes = [_offset_text(int(offset)) for offset in distinct]
        place = index[periods]
    else:
        suffixes = [b" " + abbreviation.encode() for abbreviation in zone.abbreviations]
        place = zone.periods[periods]
    if len(place) and (place == place[0]).all():
        return local, suffixes[int(place[0])]
    return local, choose(suffixes, place)


def _offset_text(seconds: int) -> bytes:
    """`+01`, `-03:30`, `+00:53:28`."""
    size = abs(seconds)
    hours, minutes, rest = size // 3600, size // 60 % 60, size % 60
    text = f"{'-' if seconds < 0 else '+'}{hours:02d}"
    if minutes or rest:
        text += f":{minutes:02d}"
    if rest:
        text += f":{rest:02d}"
    return text.encode()
