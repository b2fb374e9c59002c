"""Constants: the bytes of a Datum in PostgreSQL's node text, and parameters' canonical text, as Python values.

The values: bool, int, float, str, bytes, `decimal.Decimal` (its exponent is the display scale), `Infinite` for infinite
dates and timestamps, `datetime.date`, `datetime.time`, naive `datetime.datetime` for timestamp, UTC-aware for
timestamptz, `Interval`, tuples for one-dimensional arrays, an int for a tid. Values that Python's types cannot hold
(years before 1 or after 9999, NaN and infinite numerics, arrays with other bounds) are refused: 0A000.

Sources: PostgreSQL 18, src/include/varatt.h (headers of variable-length values), src/backend/utils/adt/numeric.c
(NumericShort, NumericLong), src/include/utils/array.h, src/include/datatype/timestamp.h. Little-endian machines.
"""

from __future__ import annotations

import datetime
import decimal
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from catalog.datatypes import (
    BOOL,
    BPCHAR,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    JSON,
    NUMERIC,
    OID,
    TEXT,
    TID,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    VARCHAR,
    element_type,
)
from catalog.errors import SluiceError, SqlState, unsupported
from planner.tree.long_tokens import unescaped

_EPOCH_DATE: Final = datetime.date(2000, 1, 1)
_EPOCH: Final = datetime.datetime(2000, 1, 1)  # noqa: DTZ001 - timestamp has no zone
_DAY_MICROSECONDS: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """PostgreSQL's three fields of an interval."""

    months: int
    days: int
    microseconds: int


@dataclass(frozen=True, slots=True)
class Infinite:
    """infinity, or -infinity, of a date or timestamp."""

    positive: bool


def read(type_oid: int, data: bytes) -> Any:
    """Return the value of a constant of this type whose Datum is `data`. 0A000 for types unknown here."""
    reader = _READERS.get(type_oid)
    try:
        if reader is not None:
            return reader(data)
        if element_type(type_oid) is not None:
            return _array(data)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise SluiceError(
            SqlState.INTERNAL_ERROR, f"cannot read a constant of the type with OID {type_oid}: {error}"
        ) from error
    raise unsupported(f"a constant of the type with OID {type_oid}")


def content(data: bytes) -> bytes:
    """Return the content of a varlena, without its header."""
    if data[0] & 1:  # one-byte header; constants are never toasted
        return data[1 : data[0] >> 1]
    (header,) = struct.unpack_from("<I", data)
    if header & 3:
        raise unsupported("a compressed constant")
    return data[4 : header >> 2]


def _text(data: bytes) -> str:
    return content(data).decode()


def _fixed(form: str) -> Callable[[bytes], Any]:
    unpack = struct.Struct("<" + form)
    return lambda data: unpack.unpack_from(data)[0]


def _date(data: bytes) -> Any:
    (days,) = struct.unpack_from("<i", data)
    return date_of(days)


def date_of(days: int) -> datetime.date | Infinite:
    """Return the date that is `days` after 2000-01-01."""
    if days in (-(2**31), 2**31 - 1):
        return Infinite(days > 0)
    try:
        return _EPOCH_DATE + datetime.timedelta(days)
    except OverflowError:
        raise unsupported("a date before year 1 or after year 9999") from None


def _timestamp(data: bytes) -> Any:
    (microseconds,) = struct.unpack_from("<q", data)
    if microseconds in (-(2**63), 2**63 - 1):
        return Infinite(microseconds > 0)
    try:
        return _EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        raise unsupported("a timestamp before year 1 or after year 9999") from None


def _timestamptz(data: bytes) -> Any:
    found = _timestamp(data)
    return found if isinstance(found, Infinite) else found.replace(tzinfo=datetime.UTC)


def _time(data: bytes) -> Any:
    (microseconds,) = struct.unpack_from("<q", data)
    if microseconds >= _DAY_MICROSECONDS:
        raise unsupported("the time 24:00:00")
    return (_EPOCH + datetime.timedelta(microseconds=microseconds)).time()


def _interval(data: bytes) -> Any:
    microseconds, days, months = struct.unpack_from("<qii", data)
    if (months, days, microseconds) in ((-(2**31),) * 2 + (-(2**63),), (2**31 - 1,) * 2 + (2**63 - 1,)):
        raise unsupported("an infinite interval")
    return Interval(months, days, microseconds)


def _numeric(data: bytes) -> decimal.Decimal:
    body = content(data)
    (header,) = struct.unpack_from("<H", body)
    kind = header & 0xC000
    if kind == 0xC000:
        raise unsupported("a numeric constant that is NaN or infinite")
    if kind == 0x8000:  # short: sign, six bits of display scale, seven of signed weight
        negative, scale = bool(header & 0x2000), (header & 0x1F80) >> 7
        weight = (header & 0x3F) - (64 if header & 0x40 else 0)
        offset = 2
    else:
        negative, scale = kind == 0x4000, header & 0x3FFF
        (weight,) = struct.unpack_from("<h", body, 2)
        offset = 4
    groups = struct.unpack_from(f"<{(len(body) - offset) // 2}h", body, offset)
    mantissa = 0
    for group in groups:
        mantissa = mantissa * 10000 + group
    exponent = 4 * (weight - len(groups) + 1)
    shift = exponent + scale
    mantissa = mantissa * 10**shift if shift >= 0 else mantissa // 10**-shift
    digits = tuple(int(digit) for digit in str(mantissa))
    return decimal.Decimal((int(negative and mantissa != 0), digits, -scale))


def _uuid(data: bytes) -> str:
    return _uuid_text(data[:16].hex())


def _uuid_text(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def _tid(data: bytes) -> int:
    """Read `ItemPointerData` of storage/itemptr.h."""
    high, low, offset = struct.unpack_from("<HHH", data)
    number: int = (high << 16 | low) << 16 | offset
    return number


_ALIGNMENT: Final = {BOOL: 1, UUID: 1, INT2: 2, INT8: 8, FLOAT8: 8, TIME: 8, TIMESTAMP: 8, TIMESTAMPTZ: 8, INTERVAL: 8}
_LENGTH: Final = {
    BOOL: 1, INT2: 2, INT4: 4, INT8: 8, OID: 4, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIME: 8, TIMESTAMP: 8, TIMESTAMPTZ: 8,
    INTERVAL: 16, UUID: 16,
}  # fmt: skip


def _array(data: bytes) -> tuple[Any, ...]:
    # Offsets in the array's layout count from its start, header included.
    if data[0] & 1:
        data = b"\0\0\0\0" + data[1:]
    dimensions, offset, element = struct.unpack_from("<iiI", data, 4)
    if dimensions == 0:
        return ()
    count, lower = struct.unpack_from("<ii", data, 16)
    if dimensions > 1 or lower != 1:
        raise unsupported("an array constant of several dimensions or with other bounds")
    present = [True] * count
    if offset:
        bitmap = data[24 : 24 + (count + 7) // 8]
        present = [bool(bitmap[i // 8] >> (i % 8) & 1) for i in range(count)]
    position = offset or 24
    items: list[Any] = []
    length, alignment = _LENGTH.get(element), _ALIGNMENT.get(element, 4)
    for is_present in present:
        if not is_present:
            items.append(None)
            continue
        if length is None:
            if data[position] & 1:  # a short header is not aligned
                size = data[position] >> 1
            else:
                position = -(-position // 4) * 4
                (header,) = struct.unpack_from("<I", data, position)
                size = header >> 2 if not data[position] & 1 else data[position] >> 1
        else:
            position = -(-position // alignment) * alignment
            size = length
        items.append(read(element, data[position : position + size]))
        position += size
    return tuple(items)


_READERS: Final[dict[int, Callable[[bytes], Any]]] = {
    BOOL: lambda data: data[0] != 0,
    INT2: _fixed("h"),
    INT4: _fixed("i"),
    INT8: _fixed("q"),
    OID: _fixed("I"),
    2205: _fixed("I"),  # regclass
    FLOAT4: _fixed("f"),
    FLOAT8: _fixed("d"),
    TEXT: _text,
    VARCHAR: _text,
    BPCHAR: _text,
    JSON: _text,
    UNKNOWN: lambda data: data.rstrip(b"\0").decode(),
    19: lambda data: data.split(b"\0", 1)[0].decode(),  # name
    BYTEA: content,
    DATE: _date,
    TIMESTAMP: _timestamp,
    TIMESTAMPTZ: _timestamptz,
    TIME: _time,
    INTERVAL: _interval,
    NUMERIC: _numeric,
    UUID: _uuid,
    TID: _tid,
}


# --- parameters: canonical text ---

_INTERVAL_PART: Final = re.compile(r"([+-]?\d+) (year|mon|day)s?|([+-])?(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


def read_text(type_oid: int, text: str) -> Any:
    """Return the value of a parameter from its canonical text (DateStyle ISO, IntervalStyle postgres, bytea hex)."""
    element = element_type(type_oid)
    if element is not None:
        return tuple(None if item is None else read_text(element.oid, item) for item in _array_items(text))
    reader = _TEXT_READERS.get(type_oid)
    if reader is None:
        raise unsupported(f"a parameter of the type with OID {type_oid}")
    try:
        return reader(text)
    except (ValueError, KeyError, decimal.InvalidOperation) as error:
        raise unsupported(f"the parameter value {text!r}") from error


# An element of array_out's text: quoted, with backslashes before quotes and backslashes, or bare; NULL bare.
_ARRAY_ITEM: Final = re.compile(r'(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"|([^",{}\\]++))(,|$)', re.DOTALL)


def _array_items(text: str) -> list[str | None]:
    """Return the texts of a one-dimensional array's elements. 0A000 for arrays of several dimensions or with other
    bounds."""
    if not (text.startswith("{") and text.endswith("}")):
        raise unsupported("an array parameter with other bounds")
    inner, place = text[1:-1], 0
    items: list[str | None] = []
    while place < len(inner):
        found = _ARRAY_ITEM.match(inner, place)
        if found is None:
            raise unsupported("an array parameter of several dimensions")
        quoted, bare, _ = found.groups()
        if quoted is not None:
            items.append(unescaped(quoted))
        else:
            items.append(None if bare == "NULL" else bare)
        place = found.end()
    return items


def _numeric_text(text: str) -> decimal.Decimal:
    number = decimal.Decimal(text)
    if not number.is_finite():
        raise unsupported("a numeric parameter that is NaN or infinite")
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    return number if exponent <= 0 else decimal.Decimal((sign, digits + (0,) * exponent, 0))


def _date_text(text: str) -> Any:
    if text in ("infinity", "-infinity"):
        return Infinite(text == "infinity")
    return datetime.date.fromisoformat(text)


def _timestamp_text(text: str) -> Any:
    if text in ("infinity", "-infinity"):
        return Infinite(text == "infinity")
    found = datetime.datetime.fromisoformat(text)
    if found.tzinfo is not None:
        raise ValueError("a time zone")
    return found


def _timestamptz_text(text: str) -> Any:
    if text in ("infinity", "-infinity"):
        return Infinite(text == "infinity")
    return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)


def _interval_text(text: str) -> Interval:
    months = days = microseconds = 0
    rest = text.strip()
    if rest == "":
        raise ValueError(text)
    while rest:
        found = _INTERVAL_PART.match(rest)
        if found is None:
            raise ValueError(text)
        if found.group(2):
            number = int(found.group(1))
            if found.group(2) == "day":
                days += number
            else:
                months += number * (12 if found.group(2) == "year" else 1)
        else:
            seconds = (int(found.group(4)) * 60 + int(found.group(5))) * 60 + int(found.group(6))
            part = seconds * 1_000_000 + int((found.group(7) or "0").ljust(6, "0"))
            microseconds += -part if found.group(3) == "-" else part
        rest = rest[found.end() :].lstrip()
    return Interval(months, days, microseconds)


def _tid_text(text: str) -> int:
    block, offset = text.strip("()").split(",")
    return int(block) << 16 | int(offset)


_TEXT_READERS: Final[dict[int, Callable[[str], Any]]] = {
    BOOL: lambda text: {"t": True, "true": True, "f": False, "false": False}[text],
    INT2: int,
    INT4: int,
    INT8: int,
    OID: int,
    FLOAT4: float,
    FLOAT8: float,
    TEXT: str,
    VARCHAR: str,
    BPCHAR: str,
    JSON: str,
    UNKNOWN: str,
    BYTEA: lambda text: bytes.fromhex(text.removeprefix("\\x")),
    DATE: _date_text,
    TIMESTAMP: _timestamp_text,
    TIMESTAMPTZ: _timestamptz_text,
    TIME: datetime.time.fromisoformat,
    INTERVAL: _interval_text,
    NUMERIC: _numeric_text,
    UUID: lambda text: _uuid_text(text.replace("-", "").lower()),
    TID: _tid_text,
}
