"""Bounds of a column in a file: Parquet's raw form, DuckLake's text, and a Python value with the column's order.

A *key* is a Python value by which bounds and constants compare as the column's values do: an int for integers,
booleans, dates (days since 1970), times and timestamps (microseconds); Decimal, float, str or bytes for the rest. Texts
are as DuckDB 1.5.5 writes them into `ducklake_file_column_stats` (`0`, `-10.00`, `2026-11-20`, `infinity`, `0044-03-15
(BC)`, `2026-11-20 12:37:58+00`, `AA0062`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

Key: TypeAlias = int | float | Decimal | str | bytes

DATE_INFINITY: Final = 2**31 - 1
TIMESTAMP_INFINITY: Final = 2**63 - 1
# Longer strings are cut: the result is still a bound, and the catalog stays small.
TEXT_LENGTH_MAX: Final = 256
_DAY: Final = 86_400_000_000
_DATE: Final = re.compile(r"(\d+)-(\d\d)-(\d\d)(?P<bc> \(BC\))?")
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class BoundForm:
    """How to read the bounds of one DuckLake type from Parquet, and to write and read their text.

    `from_raw` makes a key of pyarrow's physical value (`Statistics.min_raw`); `upper` tells whether it is a maximum.
    """

    from_raw: Callable[[Any], Key]
    to_text: Callable[[Key, bool], str | None]
    from_text: Callable[[str], Key]


@lru_cache(1024)
def bound_form(ducklake: str) -> BoundForm:
    """Return the form for a DuckLake scalar type's name; KeyError if it has no bounds."""
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", ducklake)
    return _decimal_form(int(decimal[2])) if decimal else _FORMS[ducklake]


def truncated(text: str, *, upper: bool) -> str | None:
    """Return a bound of at most TEXT_LENGTH_MAX characters that still bounds; None if no such upper bound exists."""
    if len(text) <= TEXT_LENGTH_MAX:
        return text
    cut = text[:TEXT_LENGTH_MAX]
    if not upper:
        return cut
    for index in range(len(cut) - 1, -1, -1):
        following = ord(cut[index]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST_CHARACTER:
            return cut[:index] + chr(following)
    return None


def date_text(days: int) -> str:
    """Return DuckDB's text of a date."""
    if abs(days) == DATE_INFINITY:
        return "infinity" if days > 0 else "-infinity"
    text = str(np.datetime64(days, "D"))
    if not text.startswith("-") and not text.startswith("0000"):
        return text
    year, month, day = text.lstrip("-").split("-")
    return f"{int(year) + 1:04}-{month}-{day} (BC)"


def date_days(text: str) -> int:
    """Return the days of DuckDB's text of a date."""
    if text in ("infinity", "-infinity"):
        return DATE_INFINITY if text == "infinity" else -DATE_INFINITY
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a date as DuckDB writes it: {text!r}")
    year = 1 - int(match[1]) if match["bc"] else int(match[1])
    sign = "-" if year < 0 else ""
    return int(np.datetime64(f"{sign}{abs(year):04}-{match[2]}-{match[3]}", "D").astype(np.int64))


def time_text(microseconds: int) -> str:
    """Return DuckDB's text of a time of day, 24:00:00 included."""
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def time_microseconds(text: str) -> int:
    """Return the microseconds since midnight of DuckDB's text of a time."""
    clock, _, fraction = text.partition(".")
    hours, minutes, seconds = map(int, clock.split(":"))
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int(fraction.ljust(6, "0") if fraction else 0)


def timestamp_text(microseconds: int, zone: str = "") -> str:
    """Return DuckDB's text of a timestamp; `zone` is "+00" for timestamptz."""
    if abs(microseconds) == TIMESTAMP_INFINITY:
        return "infinity" if microseconds > 0 else "-infinity"
    days, clock = divmod(microseconds, _DAY)
    date, bc, _ = date_text(days).partition(" (BC)")
    return f"{date}{bc} {time_text(clock)}{zone}"


def timestamp_microseconds(text: str, zone: str = "") -> int:
    """Return the microseconds since 1970 of DuckDB's text of a timestamp."""
    if text in ("infinity", "-infinity"):
        return TIMESTAMP_INFINITY if text == "infinity" else -TIMESTAMP_INFINITY
    if not text.endswith(zone):
        raise ValueError(f"not a timestamp in UTC as DuckDB writes it: {text!r}")
    date, _, clock = text.removesuffix(zone).rpartition(" ")
    return date_days(date) * _DAY + time_microseconds(clock)


def _decimal_form(scale: int) -> BoundForm:
    def from_raw(raw: int | bytes) -> Decimal:
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        # Built from digits: arithmetic would round to the context's precision.
        digits = tuple(int(digit) for digit in str(abs(unscaled)))
        return Decimal((int(unscaled < 0), digits, -scale))

    return BoundForm(from_raw, _text_of(lambda key: f"{key:f}"), Decimal)


def _text_of(writer: Callable[[Any], str]) -> Callable[[Key, bool], str | None]:
    return lambda key, _: writer(key)


def _blob_text(key: Key, upper: bool) -> str | None:
    assert isinstance(key, bytes)
    if len(key) <= TEXT_LENGTH_MAX:
        return key.hex().upper()
    cut = key[:TEXT_LENGTH_MAX]
    if upper:
        cut = cut.rstrip(b"\xff")
        if not cut:
            return None
        cut = cut[:-1] + bytes([cut[-1] + 1])
    return cut.hex().upper()


_INTEGER: Final = BoundForm(int, _text_of(str), int)
_STRING: Final = BoundForm(
    lambda raw: bytes(raw).decode("utf-8"),
    lambda key, upper: truncated(str(key), upper=upper),
    str,
)
_FORMS: Final[dict[str, BoundForm]] = {
    "boolean": _INTEGER,
    "int16": _INTEGER,
    "int32": _INTEGER,
    "int64": _INTEGER,
    # All digits of a float4's number, so that the text still bounds after the column has become a float8.
    "float32": BoundForm(float, _text_of(lambda key: str(np.float64(key))), lambda text: float(np.float32(text))),
    "float64": BoundForm(float, _text_of(lambda key: str(np.float64(key))), float),
    "varchar": _STRING,
    "json": _STRING,
    "uuid": _STRING,
    "blob": BoundForm(bytes, _blob_text, bytes.fromhex),
    "date": BoundForm(int, _text_of(date_text), date_days),
    "time": BoundForm(int, _text_of(time_text), time_microseconds),
    "timestamp": BoundForm(int, _text_of(timestamp_text), timestamp_microseconds),
    "timestamptz": BoundForm(
        int, _text_of(lambda key: timestamp_text(key, "+00")), lambda text: timestamp_microseconds(text, "+00")
    ),
}
