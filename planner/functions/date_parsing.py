"""to_date and to_timestamp of texts with exactly the digits and separators of a constant template.

PostgreSQL accepts many other texts as well (fewer digits, other separators, blanks); those raise 0A000 at run time.
Source: PostgreSQL 18, src/backend/utils/adt/formatting.c, DCH_from_char and do_to_timestamp.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from catalog.datatypes import DATE, TIMESTAMPTZ
from catalog.errors import unsupported
from planner.functions.call import Call, Row, row
from planner.functions.casts import on
from planner.functions.local_times import FIXED_ZONES
from planner.functions.patterns.regular_expressions import literal
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    call,
    case,
    cast,
    integer,
    is_not_null,
    not_,
    or_,
    raise_error_about,
    raw,
    string,
    try_cast,
)
from planner.spark.values import Value, null_value

_TEMPLATE: Final = re.compile(r"(YYYY|MM|DD|HH24|MI|SS)|([-/.: ])")
_DIGITS: Final = {"YYYY": 4, "MM": 2, "DD": 2, "HH24": 2, "MI": 2, "SS": 2}
_ORDERS: Final = {
    DATE: ({"YYYY", "MM", "DD"}, {"YYYY", "MM"}, {"YYYY"}),
    TIMESTAMPTZ: ({"YYYY", "MM", "DD"}, {"YYYY", "MM", "DD", "HH24", "MI"}, {"YYYY", "MM", "DD", "HH24", "MI", "SS"}),
}
_BOUNDS: Final = {"HH24": 23, "MI": 59, "SS": 59, "MM": 12}


def _words(given: Call, template: str) -> tuple[list[str], str]:
    """Return the template's words in order, and the pattern of accepted texts, a group for each word."""
    words, pattern, position = [], "", 0
    while position < len(template):
        found = _TEMPLATE.match(template, position)
        if found is None or found[1] in words:
            raise unsupported(f"the template {template!r}")
        position = found.end()
        if found[1]:
            words.append(found[1])
            pattern += f"([0-9]{{{_DIGITS[found[1]]}}})"
        else:
            pattern += literal(found[2])
    if set(words) not in _ORDERS[given.result_type]:
        raise unsupported(f"the template {template!r}")
    return words, rf"\A{pattern}\z"


def _parsed(given: Call) -> Value:
    template = given.constant(1, "a template")
    if template is None:
        return null_value(given.result_type)
    assert isinstance(template, str)
    words, pattern = _words(given, template)
    if given.result_type == TIMESTAMPTZ and given.session.time_zone not in FIXED_ZONES:
        raise unsupported(f"{given.signature} in the time zone {given.session.time_zone}")

    def body(text: Expression) -> Expression:
        parts = {
            word: try_cast(call("regexp_extract", text, string(pattern), integer(number)), "INT")
            for number, word in enumerate(words, 1)
        }
        refusal = raise_error_about("0A000", 'the text "', text, f'" for the template {template} is not supported '
                                    "on lake tables")  # fmt: skip
        # A year, month or day of zero counts as missing.
        zeros = [binary("=", parts[word], raw("0")) for word in ("YYYY", "MM", "DD") if word in parts]
        return case(
            (or_(*zeros), refusal),
            (call("rlike", text, string(pattern)), _moment(parts, text, given.result_type)),
            (is_not_null(text), refusal),
        )

    return given.result(on(given.sql[0], body))


def _moment(parts: Mapping[str, Expression], text: Expression, result_type: int) -> Expression:
    """Return the date or timestamp; 22008 if there is no such day or time."""
    one = raw("1")
    year, month, day = parts["YYYY"], parts.get("MM", one), parts.get("DD", one)
    checks = [binary("<=", parts[word], integer(bound)) for word, bound in _BOUNDS.items() if word in parts]
    first = call("make_date", year, month, one)
    last = call("day", call("last_day", first))
    error = raise_error_about("22008", 'date/time field value out of range: "', text, '"')
    known: Expression = call("make_date", year, month, day)
    if result_type == TIMESTAMPTZ:
        zero = raw("0")
        time = call("make_dt_interval", zero, parts.get("HH24", zero), parts.get("MI", zero),
                    cast(parts.get("SS", zero), "DECIMAL(18,6)"))  # fmt: skip
        known = cast(binary("+", cast(known, "TIMESTAMP_NTZ"), time), "TIMESTAMP_LTZ")
    # One after the other: make_date fails if the month is invalid.
    wrong = [(not_(and_(*checks)), error)] if checks else []
    return case(*wrong, (binary(">", day, last), error), default=known)


_D: Final = "FROM dates WHERE d BETWEEN '0001-01-01' AND '9999-12-31'"

ROWS: Final[tuple[Row, ...]] = (
    row("to_date(text,text)", _parsed, f"SELECT id, to_date(d::text, 'YYYY-MM-DD') {_D}",
        f"SELECT id, to_date(to_char(d, 'DD.MM.YYYY'), 'DD.MM.YYYY'), to_date(to_char(d, 'YYYYMM'), 'YYYYMM'), "
        f"to_date(to_char(d, 'YYYYMMDD'), 'YYYYMMDD'), to_date(to_char(d, 'MM/DD/YYYY'), 'MM/DD/YYYY') {_D}",
        "SELECT to_date(t, 'YYYY-MM-DD') FROM (VALUES ('2023-02-29'), (NULL)) v (t)",
        "SELECT to_date(t, 'YYYY-MM-DD') FROM (VALUES ('2023-13-01'), (NULL)) v (t)",
        f"SELECT id, to_date(to_char(d, 'YYYY'), 'YYYY') {_D}",
        "SELECT to_date(NULL, 'YYYY-MM-DD'), to_date('2024-01-02', NULL)"),
    row("to_timestamp(text,text)", _parsed, "SELECT id, to_timestamp(to_char(ts, 'YYYY-MM-DD HH24:MI:SS'), "
        "'YYYY-MM-DD HH24:MI:SS'), to_timestamp(to_char(ts, 'DD/MM/YYYY HH24:MI'), 'DD/MM/YYYY HH24:MI') FROM dates",
        "SELECT to_timestamp(t, 'YYYY-MM-DD HH24:MI:SS') FROM (VALUES ('2023-01-01 24:00:00'), (NULL)) v (t)"),
)  # fmt: skip
