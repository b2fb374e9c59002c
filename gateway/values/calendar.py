"""The proleptic Gregorian calendar on columns of numbers, for any year that PostgreSQL has.

Source of the arithmetic: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from gateway.values.cells import Integers

DAY_MICROSECONDS: Final = 86_400_000_000
# The lake's infinities: greater, or less, than any finite value.
DATE_INFINITY: Final = 2**31 - 1
TIMESTAMP_INFINITY: Final = 2**63 - 1
# PostgreSQL counts from 2000-01-01.
EPOCH_2000_DAYS: Final = 10957
EPOCH_2000_MICROSECONDS: Final = EPOCH_2000_DAYS * DAY_MICROSECONDS


class Civil(NamedTuple):
    """Year (0 is 1 BC), month and day."""

    year: Integers
    month: Integers
    day: Integers


def civil_from_days(days: Integers) -> Civil:
    """From days since 1970-01-01."""
    shifted = days + 719468
    era = shifted // 146097
    day_of_era = shifted - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + np.where(shifted_month < 10, 3, -9)
    return Civil(year_of_era + era * 400 + (month <= 2), month, day)


def days_from_civil(year: Integers, month: Integers, day: Integers) -> Integers:
    """Days since 1970-01-01; the month must be 1 to 12."""
    shifted_year = year - (month <= 2)
    era = shifted_year // 400
    year_of_era = shifted_year - era * 400
    day_of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    days: Integers = era * 146097 + day_of_era - 719468
    return days


_MONTH_LENGTHS: Final = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


def month_length(year: Integers, month: Integers) -> Integers:
    """Days of the month, which must be 1 to 12."""
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths: Integers = _MONTH_LENGTHS[month - 1] + (leap & (month == 2))
    return lengths
