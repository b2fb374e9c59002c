"""interval: a struct of months, days and microseconds, the three fields of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from catalog.errors import unsupported
from planner.functions.call import Build, Call, Row, row
from planner.functions.casts import on
from planner.spark import numerics
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    call,
    case,
    cast,
    field,
    is_not_null,
    or_,
    raise_error,
    raw,
    struct,
)
from planner.spark.values import Value
from planner.tree.datum import Interval

_FIELDS: Final = ("months", "days", "microseconds")


def beyond(interval: Expression) -> Expression:
    """Whether an interval may be infinite: PostgreSQL stores the infinities as the extremes of all three fields.

    Spark would compute with these as with any other.
    """
    return call("in", field(interval, "months"), raw("2147483647"), raw("(-2147483648)"))


def is_beyond(interval: Interval) -> bool:
    """Whether a constant interval is infinite."""
    return interval.months in (2**31 - 1, -(2**31))


def left_to_postgresql() -> Expression:
    """Fail when evaluated: PostgreSQL must compute it, or raise its own error."""
    return raise_error("0A000", unsupported("an infinite interval, or one out of range,").message)


def _fieldwise(function: str) -> Build:
    def build(given: Call) -> Value:
        left, right = given.sql
        return given.result(_within((left, right), {
            name: call(function, field(left, name), field(right, name)) for name in _FIELDS
        }))  # fmt: skip

    return build


def _negative(given: Call) -> Value:
    (value,) = given.sql
    return given.result(_within((value,), {
        name: call("try_subtract", raw("0L" if name == "microseconds" else "0"), field(value, name)) for name in _FIELDS
    }))  # fmt: skip


def _within(given: Sequence[Expression], fields: Mapping[str, Expression]) -> Expression:
    """Return the interval of these fields, each NULL if it is out of range."""
    return case(
        (or_(*(beyond(each) for each in given)), left_to_postgresql()),
        (and_(*map(is_not_null, fields.values())), struct(**fields)),
        (and_(*map(is_not_null, given)), left_to_postgresql()),
    )


def _whole(unit: str, divisor: int, modulus: int | None) -> Build:
    """Return a field as a whole number: name of the struct's field, divided, then its remainder. Division truncates
    as in C."""

    def build(given: Call) -> Value:
        part: Expression = cast(field(given.sql[1], unit), "BIGINT")
        if divisor > 1:
            part = call("div", part, raw(f"{divisor}L"))
        if modulus is not None:
            part = binary("%", part, raw(f"{modulus}L"))
        return numerics.make(cast(part, "DECIMAL(19,0)"), 19, 0, 0)

    return build


def _second(given: Call) -> Value:
    part = binary("%", field(given.sql[1], "microseconds"), raw("60000000L"))
    sql = cast(binary("*", cast(part, "DECIMAL(10,0)"), raw("0.000001BD")), "DECIMAL(16,6)")
    return numerics.make(sql, 16, 6, 6)


def _epoch(given: Call) -> Value:
    """Count 365.25 days for twelve months, 30 for each month beyond (interval_part_common)."""

    def build(value: Expression) -> Expression:
        months = cast(field(value, "months"), "BIGINT")
        years = binary("*", call("div", months, raw("12L")), raw("31557600L"))
        rest = binary("*", binary("%", months, raw("12L")), raw("2592000L"))
        days = binary("*", cast(field(value, "days"), "BIGINT"), raw("86400L"))
        seconds = cast(binary("+", binary("+", years, rest), days), "DECIMAL(20,0)")
        fraction = binary("*", cast(field(value, "microseconds"), "DECIMAL(19,0)"), raw("0.000001BD"))
        return cast(binary("+", seconds, fraction), "DECIMAL(28,6)")

    return numerics.make(on(given.sql[1], build), 28, 6, 6)


_PARTS: Final[dict[str, Build]] = {
    "year": _whole("months", 12, None),
    "years": _whole("months", 12, None),
    "month": _whole("months", 1, 12),
    "months": _whole("months", 1, 12),
    "day": _whole("days", 1, None),
    "days": _whole("days", 1, None),
    "hour": _whole("microseconds", 3_600_000_000, None),
    "hours": _whole("microseconds", 3_600_000_000, None),
    "minute": _whole("microseconds", 60_000_000, 60),
    "minutes": _whole("microseconds", 60_000_000, 60),
    "second": _second,
    "seconds": _second,
    "epoch": _epoch,
}


def _extract(given: Call) -> Value:
    unit = given.constant(0, "a field")
    build = _PARTS.get(str(unit).lower())
    if build is None:
        raise unsupported(f"extract({unit} from interval)")
    found = build(given)
    return replace(found, sql=case((beyond(given.sql[1]), left_to_postgresql()), default=found.sql))


ROWS: Final[tuple[Row, ...]] = (
    row("interval_pl(interval,interval)", _fieldwise("try_add"), "SELECT id, v + interval '1 mon 2 days 03:04:05' "
        "FROM intervals"),
    row("interval_mi(interval,interval)", _fieldwise("try_subtract"), "SELECT id, v - interval '1 mon 2 days 03:04:05' "
        "FROM intervals"),
    row("interval_um(interval)", _negative, "SELECT id, -v FROM intervals"),
    row("extract(text,interval)", _extract,
        "SELECT id, extract(year from v), extract(month from v), extract(day from v), extract(hour from v), "
        "extract(minute from v), extract(second from v), extract(epoch from v) FROM intervals"),
)  # fmt: skip
