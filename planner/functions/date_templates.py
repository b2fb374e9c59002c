"""to_char of dates and timestamps by a constant template: each field is composed from the parts of the date.

Source: PostgreSQL 18, src/backend/utils/adt/formatting.c, DCH_to_char. The template is split as there, longest word
first; words, prefixes and suffixes that are not in the table are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from catalog.datatypes import TIMESTAMPTZ
from catalog.errors import unsupported
from planner.functions.call import Call, Row, row
from planner.functions.casts import on
from planner.functions.datetimes import finite
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    call,
    case,
    cast,
    integer,
    is_not_null,
    raise_error,
    raw,
    string,
)
from planner.spark.values import Value, null_value

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NAME_LENGTH: Final = 9
_JULIAN_OF_1970: Final = 2_440_588

_Part = Callable[[Expression], Expression]


def _of(function: str) -> _Part:
    return lambda moment: call(function, moment)


def _year_of_week(moment: Expression) -> Expression:
    return call("date_part", string("YEAROFWEEK"), moment)


def _remainder(part: _Part, divisor: int) -> _Part:
    return lambda moment: binary("%", part(moment), integer(divisor))


def _week_from(part: _Part) -> _Part:
    """Count weeks of seven days, the first of which begins with the month's or year's first day."""
    return lambda moment: call("div", binary("+", part(moment), raw("6")), raw("7"))


def _century(moment: Expression) -> Expression:
    return call("div", binary("+", call("year", moment), raw("99")), raw("100"))


def _julian(moment: Expression) -> Expression:
    return binary("+", call("unix_date", cast(moment, "DATE")), integer(_JULIAN_OF_1970))


def _weekday(moment: Expression) -> Expression:
    return binary("+", call("weekday", moment), raw("1"))


def _half_hour(moment: Expression) -> Expression:
    return binary("+", binary("%", binary("+", call("hour", moment), raw("11")), raw("12")), raw("1"))


def _microseconds(moment: Expression) -> Expression:
    second = binary("*", call("date_part", string("SECOND"), moment), raw("1000000BD"))
    return binary("%", cast(second, "INT"), raw("1000000"))


def _fraction(digits: int) -> _Part:
    return lambda moment: call("div", _microseconds(moment), integer(10 ** (6 - digits)))


def _second_of_day(moment: Expression) -> Expression:
    minutes = binary("+", binary("*", call("hour", moment), raw("60")), call("minute", moment))
    return binary("+", binary("*", minutes, raw("60")), call("second", moment))


# Numbers, by the word in capitals: the value, and its least number of digits.
_NUMBERS: Final[dict[str, tuple[_Part, int]]] = {
    "YYYY": (_of("year"), 4),
    "YYY": (_remainder(_of("year"), 1000), 3),
    "YY": (_remainder(_of("year"), 100), 2),
    "Y": (_remainder(_of("year"), 10), 1),
    "IYYY": (_year_of_week, 4),
    "IYY": (_remainder(_year_of_week, 1000), 3),
    "IY": (_remainder(_year_of_week, 100), 2),
    "I": (_remainder(_year_of_week, 10), 1),
    "CC": (_century, 2),
    "Q": (_of("quarter"), 1),
    "MM": (_of("month"), 2),
    "IW": (_of("weekofyear"), 2),
    "WW": (_week_from(_of("dayofyear")), 2),
    "W": (_week_from(_of("day")), 1),
    "DDD": (_of("dayofyear"), 3),
    "DD": (_of("day"), 2),
    "D": (_of("dayofweek"), 1),
    "ID": (_weekday, 1),
    "J": (_julian, 1),
    "HH24": (_of("hour"), 2),
    "HH12": (_half_hour, 2),
    "HH": (_half_hour, 2),
    "MI": (_of("minute"), 2),
    "SS": (_of("second"), 2),
    "SSSSS": (_second_of_day, 1),
    "SSSS": (_second_of_day, 1),
    "MS": (_fraction(3), 3),
    "US": (_fraction(6), 6),
    **{f"FF{digits}": (_fraction(digits), digits) for digits in range(1, 7)},
}


def _chosen(words: tuple[str, ...], number: Expression) -> Expression:
    return call("element_at", call("array", *map(string, words)), number)


def _named(names: tuple[str, ...], part: _Part, padded: bool) -> Callable[[Expression, bool], Expression]:
    def build(moment: Expression, bare: bool) -> Expression:
        shown = tuple(name.ljust(_NAME_LENGTH) if padded and not bare else name for name in names)
        return _chosen(shown, part(moment))

    return build


def _half_of_day(before: str, after: str) -> Callable[[Expression, bool], Expression]:
    def build(moment: Expression, bare: bool) -> Expression:  # noqa: ARG001
        return case((binary("<", call("hour", moment), raw("12")), string(before)), default=string(after))

    return build


def _names() -> dict[str, Callable[[Expression, bool], Expression]]:
    rows = {}
    for names, word, short, part in ((_MONTHS, "Month", "Mon", _of("month")), (_DAYS, "Day", "Dy", _of("dayofweek"))):
        length = 3
        for cased in (str.upper, str.lower, str.title):
            rows[cased(word)] = _named(tuple(map(cased, names)), part, True)
            rows[cased(short)] = _named(tuple(cased(name)[:length] for name in names), part, False)
    for before, after in (("AM", "PM"), ("A.M.", "P.M."), ("am", "pm"), ("a.m.", "p.m.")):
        for word in (before, after):
            rows[word] = _half_of_day(before, after)
    return rows


_NAMED: Final = _names()
_ZONES: Final = {"TZ": "UTC", "tz": "utc", "OF": "+00", "of": "+00", "TZH": "+00", "TZM": "00", "tzh": "+00",
                 "tzm": "00"}  # fmt: skip
_OTHER_WORDS: Final = ("IDDD", "Y,YYY", "RM", "AD", "BC", "A.D.", "B.C.")
_KNOWN: Final = {*_NUMBERS, *(word.lower() for word in _NUMBERS), *_NAMED, *_ZONES}
_WORDS: Final = sorted({*_KNOWN, *_OTHER_WORDS, *(word.lower() for word in _OTHER_WORDS)}, key=len, reverse=True)
_TOKEN: Final = re.compile(
    f"(FM|fm)?({'|'.join(map(re.escape, _WORDS))})(?!TH|th|SP)"  # 1, 2: a word, with its prefix
    r'|"([^"\\]*)"'  # 3: quoted
    r"|(?!FM|fm|TM|tm|FX|fx)([^A-Za-z\"\\])"  # 4: anything but a letter
    r"|(?!FM|fm|TM|tm|FX|fx)([TtZzhuegnklx])(?![HhMmZz])"  # 5: a letter that no word begins with
)


# Each character makes an expression of Spark's.
_LENGTH_MAX: Final = 1_000


def _tokens(template: str) -> list[tuple[str | None, bool, str]]:
    """Return (word, whether it is shown bare, literal text) one after the other."""
    found, position = [], 0
    while position < len(template):
        token = None if len(template) > _LENGTH_MAX else _TOKEN.match(template, position)
        if token is None or (token[2] is not None and token[2] not in _KNOWN):
            raise unsupported(f"the template {template!r}")
        position = token.end()
        text = next((text for text in token.group(3, 4, 5) if text is not None), "")
        found.append((token[2], token[1] is not None, text))
    return found


def _shown(word: str, bare: bool, moment: Expression) -> Expression:
    named = _NAMED.get(word)
    if named is not None:
        return named(moment, bare)
    part, digits = _NUMBERS[word.upper()]
    text = cast(part(moment), "STRING")
    if bare or digits == 1:
        return text
    if word.upper() == "CC":  # only this may have more digits
        return call("lpad", text, call("greatest", call("length", text), integer(digits)), string("0"))
    return call("lpad", text, integer(digits), string("0"))


def _to_char(given: Call) -> Value:
    value = given.arguments[0]
    template = given.constant(1, "a template")
    if not template:
        return null_value(given.result_type)
    assert isinstance(template, str)
    zoned = value.type_oid == TIMESTAMPTZ
    tokens = _tokens(template)
    if any(word in _ZONES for word, _, _ in tokens) and not (zoned and given.session.time_zone == "UTC"):
        raise unsupported(f"the template {template!r} here")

    def body(moment: Expression) -> Expression:
        parts = [
            string(text) if word is None else string(_ZONES[word]) if word in _ZONES else _shown(word, bare, moment)
            for word, bare, text in tokens
        ]
        year = call("year", moment)
        known = and_(binary(">=", year, raw("1")), binary("<=", year, raw("9999")))
        refusal = raise_error("0A000", "to_char of a date before year 1 or after year 9999 is not supported "
                              "on lake tables")  # fmt: skip
        return case((known, call("concat", *parts)), (is_not_null(moment), refusal))

    def local(finite_value: Value) -> Expression:
        return on(cast(finite_value.sql, "TIMESTAMP_NTZ") if zoned else finite_value.sql, body)

    return given.result(finite(value, local, lambda _: None))


_FIELDS: Final = (
    "YYYY-MM-DD HH24:MI:SS.US", "YYY YY Y IYYY IYY IY I CC Q", "DDD D ID J WW W IW", "HH12 HH HH24 MI SS MS SSSS",
    "FMMonth FMDD, YYYY", "Month|MONTH|month|Mon|MON|mon", "Day|DAY|day|Dy|DY|dy|FMDay", "FMMM/FMDD/yy fmhh12:mi AM",
    'YYYY"-Q"Q "week" IW', "FF1 FF2 FF3 FF4 FF5 FF6", "yyyymmdd", "DD.MM.YYYY", "YYYY-MM-DD hh:mi:ss pm P.M.",
)  # fmt: skip


def _probe(column: str) -> str:
    calls = ", ".join(f"to_char({column}, '{template}')" for template in _FIELDS)
    return f"SELECT id, {calls} FROM dates"


ROWS: Final[tuple[Row, ...]] = (
    row("to_char(timestamp,text)", _to_char, _probe("ts"), "SELECT to_char(ts, ''), to_char(ts, NULL) FROM dates"),
    row("to_char(timestamptz,text)", _to_char, _probe("tz"), _probe("d"),
        "SELECT id, to_char(tz, 'YYYY-MM-DD HH24:MI:SS TZ OF TZH:TZM') FROM dates"),
)  # fmt: skip
