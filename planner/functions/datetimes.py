"""date, time, timestamp, timestamptz: arithmetic, extract, date_trunc.

±infinity are ordinary values to Spark (see `planner.spark.plan`), so every function handles them explicitly.
`local_times` resolves local times that occur twice or never.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from catalog.datatypes import DATE, FLOAT8, TIMESTAMP, TIMESTAMPTZ
from catalog.errors import unsupported
from planner.functions import intervals
from planner.functions.call import Build, Call, Row, row
from planner.functions.casts import on_value
from planner.functions.comparison import is_infinity
from planner.functions.local_times import FIXED_ZONES, moment
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
    is_simple,
    let,
    negative,
    not_,
    or_,
    raise_error,
    raw,
    string,
    struct,
    variable,
)
from planner.spark.literals import literal
from planner.spark.values import Value
from planner.tree.datum import Infinite, Interval


def infinity(type_oid: int, positive: bool) -> Expression:
    return literal(Infinite(positive), type_oid).sql


def is_infinite(value: Value) -> Expression:
    return or_(*(is_infinity(value, positive) for positive in (True, False)))


def finite(
    value: Value, body: Callable[[Value], Expression], infinite: Callable[[bool], Expression | None]
) -> Expression:
    """Return `body` of a finite value; `infinite` for ±infinity (None: NULL)."""
    if value.is_constant and not isinstance(value.constant, Infinite):
        return body(value)

    def build(given: Value) -> Expression:
        branches = []
        for positive in (True, False):
            replacement = infinite(positive)
            branches.append(
                (
                    is_infinity(given, positive),
                    raw("NULL") if replacement is None else replacement,
                )
            )
        return case(*branches, default=body(given))

    return on_value(value, build)


def refused_infinity(what: str) -> Callable[[bool], Expression]:
    return lambda _: raise_error("0A000", f"{what} of infinity is not supported on lake tables")


# --- arithmetic ---

# PostgreSQL's first day, and the one after its last (timestamp.h: DATETIME_MIN_JULIAN, DATE_END_JULIAN), from 1970 on.
_FIRST_DAY: Final = -2440588
_END_DAY: Final = 2145042906
_FIRST_MOMENTS: Final = {
    TIMESTAMP: raw("TIMESTAMP_NTZ'-4713-11-24 00:00:00'"),
    TIMESTAMPTZ: raw("TIMESTAMP_LTZ'-4713-11-24 00:00:00Z'"),
}


def _in_range(moment_: Expression, type_oid: int) -> Expression:
    """Return a computed timestamp; 22008 if it is before PostgreSQL's first."""
    early = binary("<", moment_, _FIRST_MOMENTS[type_oid].copy())
    return case((early, raise_error("22008", "timestamp out of range")), default=moment_.copy())


def _add_days(sign: int, date_first: bool = True) -> Build:
    def build(given: Call) -> Value:
        date, days = given.arguments if date_first else given.arguments[::-1]
        if not (isinstance(days.constant, int) and abs(days.constant) <= 1_000_000) and not is_simple(days.sql):
            raise unsupported(f"{given.signature} with a computed number of days")
        within = and_(binary(">=", days.sql, raw("(-3000000)")), binary("<=", days.sql, raw("3000000")))
        name = "date_add" if sign > 0 else "date_sub"

        def moved(value: Value) -> Expression:
            result: Expression = call(name, value.sql, days.sql)
            day = binary("+" if sign > 0 else "-", cast(call("unix_date", value.sql), "BIGINT"), days.sql)
            outside = or_(binary("<", day, raw(f"({_FIRST_DAY}L)")), binary(">=", day, raw(f"{_END_DAY}L")))
            result = case((outside, raise_error("22008", "date out of range")), default=result)
            if isinstance(days.constant, int) and abs(days.constant) <= 1_000_000:
                return result
            return case(
                (within, result),
                (is_not_null(days.sql), raise_error("0A000", "adding so many days is not supported on lake tables")),
            )

        def kept(positive: bool) -> Expression:
            return case((is_not_null(days.sql), infinity(DATE, positive)))

        return given.result(finite(date, moved, kept))

    return build


def _date_difference(given: Call) -> Value:
    left, right = given.arguments
    error = raise_error("22008", "cannot subtract infinite dates")
    difference = call("datediff", left.sql, right.sql)
    infinite = [is_infinite(side) for side in (left, right) if not side.is_constant]
    return given.result(case((or_(*infinite), error), default=difference) if infinite else difference)


def _calendar_interval(value: Value, sign: int) -> Expression:
    """Return the struct as one of Spark's calendar intervals, whose addition does months, then days, then time."""
    if isinstance(value.constant, Interval):
        months, days, microseconds = (
            sign * value.constant.months, sign * value.constant.days, sign * value.constant.microseconds,
        )  # fmt: skip
        seconds = raw(f"CAST({microseconds // 10**6 if microseconds >= 0 else -(-microseconds // 10**6)}."
                      f"{abs(microseconds) % 10**6:06d} AS DECIMAL(18,6))")  # fmt: skip
        if -(10**6) < microseconds < 0:
            seconds = raw(f"CAST(-0.{-microseconds:06d} AS DECIMAL(18,6))")
        return call(
            "make_interval", raw("0"), raw(f"({months})"), raw("0"), raw(f"({days})"), raw("0"), raw("0"), seconds
        )
    months_, days_, time = (
        negative(field(value.sql, name)) if sign < 0 else field(value.sql, name)
        for name in ("months", "days", "microseconds")
    )
    seconds_ = cast(binary("*", cast(time, "DECIMAL(19,0)"), raw("0.000001BD")), "DECIMAL(18,6)")
    return call("make_interval", raw("0"), months_, raw("0"), days_, raw("0"), raw("0"), seconds_)


def _add_interval(sign: int, swapped: bool = False) -> Build:
    def build(given: Call) -> Value:
        moment_, interval = given.arguments[::-1] if swapped else given.arguments
        result_type = TIMESTAMPTZ if moment_.type_oid == TIMESTAMPTZ else TIMESTAMP
        if isinstance(interval.constant, Interval) and intervals.is_beyond(interval.constant):
            raise unsupported(f"{given.signature} with an infinite interval")
        if result_type == TIMESTAMPTZ and given.session.time_zone not in FIXED_ZONES:
            constant = interval.constant
            if not (isinstance(constant, Interval) and constant.months == constant.days == 0):
                return _add_in_zone(given, moment_, interval, sign)
        if not interval.is_constant and not is_simple(interval.sql):
            raise unsupported(f"{given.signature} with a computed interval")
        added = _calendar_interval(interval, sign)

        def moved(value: Value) -> Expression:
            start = cast(value.sql, "TIMESTAMP_NTZ") if value.type_oid == DATE else value.sql
            moved_ = binary("+", start, added)
            return moved_ if value.is_constant and interval.is_constant else _in_range(moved_, result_type)

        def kept(positive: bool) -> Expression:
            return case((is_not_null(interval.sql), infinity(result_type, positive)))

        sum_ = finite(moment_, moved, kept)
        if not interval.is_constant:
            sum_ = case((intervals.beyond(interval.sql), intervals.left_to_postgresql()), default=sum_)
        return Value(sum_, result_type)

    return build


def _add_in_zone(given: Call, start: Value, interval: Value, sign: int) -> Value:
    """Add an interval of months or days to a timestamptz: to the local time, which is then resolved."""
    constant = interval.constant
    if not isinstance(constant, Interval):
        raise unsupported(f"{given.signature} with an interval that is not constant")
    months, days, time = (sign * part for part in (constant.months, constant.days, constant.microseconds))

    def moved(value: Value) -> Expression:
        result = value.sql
        # One after the other, as `timestamptz_pl_interval` does.
        for unit, count in (("MONTH", months), ("DAY", days)):
            if count:
                local = binary("+", cast(result, "TIMESTAMP_NTZ"), raw(f"INTERVAL '{count}' {unit}"))
                result = moment(local, given.session.time_zone)
        if time:
            result = call("timestamp_micros", binary("+", call("unix_micros", result), raw(f"({time}L)")))
        return _in_range(result, TIMESTAMPTZ)

    return Value(finite(start, moved, lambda positive: infinity(TIMESTAMPTZ, positive)), TIMESTAMPTZ)


def _difference(given: Call) -> Value:
    """Subtract as timestamp_mi: days of 24 hours, and the rest."""
    left, right = given.arguments
    infinite = [is_infinite(side) for side in (left, right) if not side.is_constant]
    if left.type_oid == TIMESTAMPTZ:
        total: Expression = binary("-", call("unix_micros", left.sql), call("unix_micros", right.sql))
    else:
        total = ntz_microseconds(binary("-", left.sql, right.sql))
    day = raw("86400000000L")

    def parts(sql: Expression) -> Expression:
        return case(
            (
                is_not_null(sql),
                struct(months=raw("0"), days=cast(call("div", sql, day), "INT"), microseconds=binary("%", sql, day)),
            )
        )

    result = let("m", total, parts(variable("m")))
    error = raise_error("0A000", "subtracting infinite timestamps is not supported on lake tables")
    return given.result(case((or_(*infinite), error), default=result) if infinite else result)


def ntz_microseconds(difference: Expression) -> Expression:
    """Return a difference of two TIMESTAMP_NTZ in microseconds."""

    def parts(sql: Expression) -> Expression:
        hours = binary("+", binary("*", _part("DAY", sql, "BIGINT"), raw("24L")), _part("HOUR", sql, "BIGINT"))
        minutes = binary("+", binary("*", hours, raw("60L")), _part("MINUTE", sql, "BIGINT"))
        seconds = cast(binary("*", call("date_part", string("SECOND"), sql), raw("1000000BD")), "BIGINT")
        return binary("+", binary("*", minutes, raw("60000000L")), seconds)

    return let("i", difference, parts(variable("i")))


def _part(unit: str, sql: Expression, spark: str) -> Expression:
    return cast(call("date_part", string(unit), sql), spark)


# --- extract ---


def _common_era(sql: Expression, unit: str, body: Expression) -> Expression:
    year = call("year", sql)
    return case(
        (binary(">=", year, raw("1")), body),
        (is_not_null(sql), raise_error("0A000", f"the {unit} of a date before year 1 is not supported on lake tables")),
    )


def _year(sql: Expression) -> Expression:
    year = call("year", sql)
    return case((binary(">", year, raw("0")), year), default=binary("-", year, raw("1")))


_WHOLE_FIELDS: Final[dict[str, Callable[[Expression], Expression]]] = {
    "year": _year,
    "month": lambda sql: call("month", sql),
    "day": lambda sql: call("day", sql),
    "quarter": lambda sql: call("quarter", sql),
    "dow": lambda sql: binary("-", call("dayofweek", sql), raw("1")),
    "isodow": lambda sql: binary("+", call("weekday", sql), raw("1")),
    "doy": lambda sql: call("dayofyear", sql),
    "week": lambda sql: _common_era(sql, "week", call("weekofyear", sql)),
    "isoyear": lambda sql: _common_era(sql, "isoyear", call("date_part", string("YEAROFWEEK"), sql)),
    "decade": lambda sql: _common_era(sql, "decade", call("div", call("year", sql), raw("10"))),
    "century": lambda sql: _common_era(
        sql, "century", call("div", binary("+", call("year", sql), raw("99")), raw("100"))
    ),
    "millennium": lambda sql: _common_era(
        sql, "millennium", call("div", binary("+", call("year", sql), raw("999")), raw("1000"))
    ),
}
_TIME_FIELDS: Final[dict[str, Callable[[Expression], Expression]]] = {
    "hour": lambda sql: call("hour", sql),
    "minute": lambda sql: call("minute", sql),
}
# Fields that grow without end, so that PostgreSQL returns ±Infinity for infinity; it returns NULL for the others.
_MONOTONIC: Final = frozenset({"year", "isoyear", "decade", "century", "millennium", "epoch", "julian"})
_ALIASES: Final = {
    "years": "year", "y": "year", "months": "month", "mon": "month", "mons": "month", "days": "day", "d": "day",
    "hours": "hour", "h": "hour", "minutes": "minute", "min": "minute", "mins": "minute", "seconds": "second",
    "sec": "second", "s": "second", "secs": "second", "weeks": "week", "decades": "decade", "centuries": "century",
    "c": "century", "millennia": "millennium", "mil": "millennium", "milliseconds": "milliseconds",
    "millisecond": "milliseconds", "ms": "milliseconds", "microseconds": "microseconds", "microsecond": "microseconds",
    "us": "microseconds",
}  # fmt: skip


def _unit(given: Call) -> str:
    unit = given.constant(0, "a field")
    if not isinstance(unit, str):
        raise unsupported(f"{given.signature} of NULL")
    return _ALIASES.get(unit.lower(), unit.lower())


def _extract(given: Call) -> Value:
    unit, value = _unit(given), given.arguments[1]
    is_date = value.type_oid == DATE
    on_infinity: Callable[[bool], Expression | None] = (
        refused_infinity(f"the {unit}") if unit in _MONOTONIC else lambda _: None
    )
    whole = _WHOLE_FIELDS.get(unit) or (None if is_date else _TIME_FIELDS.get(unit))
    if whole is not None:
        chosen = whole
        sql = finite(value, lambda given_: cast(chosen(given_.sql), "DECIMAL(10,0)"), on_infinity)
        return numerics.make(sql, 10, 0, 0)
    if unit == "epoch" and is_date:
        sql = finite(value, _epoch_of_date, on_infinity)
        return numerics.make(cast(sql, "DECIMAL(16,0)"), 16, 0, 0)
    scaled = None if is_date else _SCALED_FIELDS.get(unit)
    if scaled is None:
        raise unsupported(f"extract({unit} from {'date' if is_date else 'a timestamp'})")
    body, precision, scale = scaled
    return numerics.make(finite(value, body, on_infinity), precision, scale, scale)


def _epoch_of_date(value: Value) -> Expression:
    days = call("datediff", value.sql, raw("DATE'1970-01-01'"))
    return binary("*", cast(days, "DECIMAL(10,0)"), raw("86400BD"))


def _seconds(factor: int, spark: str) -> Callable[[Value], Expression]:
    """Return the seconds of a minute, with their fraction, in units of which there are `factor` to a second."""
    return lambda value: cast(binary("*", call("date_part", string("SECOND"), value.sql), raw(f"{factor}BD")), spark)


def _epoch(value: Value) -> Expression:
    microseconds = cast(_epoch_microseconds(value), "DECIMAL(19,0)")
    return cast(binary("*", microseconds, raw("0.000001BD")), "DECIMAL(20,6)")


def _epoch_microseconds(value: Value) -> Expression:
    if value.type_oid == TIMESTAMPTZ:
        return call("unix_micros", value.sql)
    return ntz_microseconds(binary("-", value.sql, raw("TIMESTAMP_NTZ'1970-01-01 00:00:00'")))


def _date_part(given: Call) -> Value:
    found, value = cast(_extract(given).sql, "DOUBLE"), given.arguments[1]
    if value.type_oid != DATE:
        return Value(found, FLOAT8)
    day = call("unix_date", value.sql)  # from 294277-01-01 on, but for infinity, no timestamp: 22008
    far = and_(binary(">=", day, raw("106762940")), binary("<", day, raw(str(2**31 - 1))))
    return Value(case((far, intervals.left_to_postgresql()), default=found), FLOAT8)


# Fields of a timestamp with a fraction: how to compute them, and the decimal's precision and scale.
_SCALED_FIELDS: Final[dict[str, tuple[Callable[[Value], Expression], int, int]]] = {
    "second": (_seconds(1, "DECIMAL(8,6)"), 8, 6),
    "milliseconds": (_seconds(1000, "DECIMAL(8,3)"), 8, 3),
    "microseconds": (_seconds(1_000_000, "DECIMAL(8,0)"), 8, 0),
    "epoch": (_epoch, 20, 6),
}


# --- date_trunc ---

_DATE_UNITS: Final = {"year": "YEAR", "quarter": "QUARTER", "month": "MONTH", "week": "WEEK"}


def _truncated(given: Call) -> Value:
    unit, value = _unit(given), given.arguments[1]

    def midnight(date: Expression) -> Expression:
        local = cast(date, "TIMESTAMP_NTZ")
        return moment(local, given.session.time_zone) if value.type_oid == TIMESTAMPTZ else local

    def body(given_: Value) -> Expression:
        sql = given_.sql
        date = cast(sql, "DATE")
        if unit == "day":
            return midnight(date)
        if unit in _DATE_UNITS:
            return midnight(_common_era(date, unit, call("trunc", date, string(_DATE_UNITS[unit]))))
        second = call("date_part", string("SECOND"), sql)
        if unit == "hour":
            return binary("-", sql, _time_interval(call("minute", sql), second))
        if unit == "minute":
            return binary("-", sql, _time_interval(raw("0"), second))
        places = {"second": 0, "milliseconds": 3}.get(unit)
        if places is not None:
            rest = binary("-", second, call("floor", second, raw(str(places))) if places else call("floor", second))
            return binary("-", sql, _time_interval(raw("0"), cast(rest, "DECIMAL(18,6)")))
        if unit == "microseconds":
            return sql
        raise unsupported(f"date_trunc({unit})")

    return given.result(finite(value, body, lambda positive: infinity(value.type_oid, positive)))


def _time_interval(minutes: Expression, seconds: Expression) -> Expression:
    return call("make_dt_interval", raw("0"), raw("0"), minutes, cast(seconds, "DECIMAL(18,6)"))


# --- others ---


def _make_date(given: Call) -> Value:
    parts = struct(y=given.sql[0], m=given.sql[1], d=given.sql[2])
    year, month, day = (variable(f"p.{name}") for name in "ymd")
    known = and_(is_not_null(year), is_not_null(month), is_not_null(day))
    within = and_(binary(">=", year, raw("1")), binary("<=", year, raw("9999")))
    first = call("make_date", year, month, raw("1"))
    valid = and_(
        binary(">=", month, raw("1")),
        binary("<=", month, raw("12")),
        binary(">=", day, raw("1")),
        binary("<=", day, call("day", call("last_day", first))),
    )
    text = call("format_string", string("SLUICE:22008:date field value out of range: %d-%02d-%02d"), year, month, day)
    refusal = raise_error("0A000", "make_date outside years 1 to 9999 is not supported on lake tables")
    body = case(
        (not_(known), raw("NULL")),
        (not_(within), refusal),
        (valid, call("make_date", year, month, day)),
        default=call("raise_error", text),
    )
    return given.result(let("p", parts, body))


def _is_finite(given: Call) -> Value:
    return given.result(not_(is_infinite(given.arguments[0])))


def _to_zoned(given: Call) -> Value:
    def body(value: Value) -> Expression:
        local = cast(value.sql, "TIMESTAMP_NTZ") if value.type_oid == DATE else value.sql
        return moment(local, given.session.time_zone)

    return given.result(finite(given.arguments[0], body, lambda positive: infinity(TIMESTAMPTZ, positive)))


def _to_local(given: Call) -> Value:
    spark = "DATE" if given.result_type == DATE else "TIMESTAMP_NTZ"
    return given.result(
        finite(given.arguments[0], lambda v: cast(v.sql, spark), lambda positive: infinity(given.result_type, positive))
    )


_D: Final = "FROM dates"
_DATE_PROBE: Final = (
    "SELECT id, extract(year from {0}), extract(month from {0}), extract(day from {0}), extract(quarter from {0}), "
    "extract(dow from {0}), extract(isodow from {0}), extract(doy from {0}), extract(week from {0}), "
    "extract(isoyear from {0}), extract(decade from {0}), extract(century from {0}), extract(millennium from {0}), "
    "extract(epoch from {0}) FROM dates WHERE isfinite({0})"
)
_TIME_PROBE: Final = (
    "SELECT id, extract(hour from {0}), extract(minute from {0}), extract(second from {0}), "
    "extract(milliseconds from {0}), extract(microseconds from {0}) FROM dates"
)
_TRUNC_PROBE: Final = (
    "SELECT id, " + ", ".join(f"date_trunc('{unit}', {{0}})" for unit in (
        "year", "quarter", "month", "week", "day", "hour", "minute", "second", "milliseconds"))
    + " FROM dates"
)  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (
    row("date_pli(date,int4)", _add_days(1), f"SELECT id, d + 30, d + id {_D}"),
    row("integer_pl_date(int4,date)", _add_days(1, False), f"SELECT id, 30 + d {_D}"),
    row("date_mii(date,int4)", _add_days(-1), f"SELECT id, d - 30, d - id {_D}"),
    row("date_mi(date,date)", _date_difference, f"SELECT id, d - date '2020-01-01' {_D} WHERE isfinite(d)",
        f"SELECT d - d {_D}"),
    row("date_pl_interval(date,interval)", _add_interval(1), f"SELECT id, d + interval '1 mon 2 days 03:04' {_D}",
        f"SELECT id, d + interval '-1 year -00:00:00.5' {_D}"),
    row("date_mi_interval(date,interval)", _add_interval(-1), f"SELECT id, d - interval '1 mon 2 days 03:04' {_D}"),
    row("timestamp_pl_interval(timestamp,interval)", _add_interval(1), f"SELECT id, ts + interval '1 mon -1 day' {_D}",
        "SELECT d.id, d.ts + i.v FROM dates d JOIN intervals i ON i.id = 1"),
    row("timestamp_mi_interval(timestamp,interval)", _add_interval(-1),
        f"SELECT id, ts - interval '13 mon 1.5 hours' {_D}",
        "SELECT d.id, d.ts - i.v FROM dates d JOIN intervals i ON i.id = 2"),
    row("timestamptz_pl_interval(timestamptz,interval)", _add_interval(1), f"SELECT id, tz + interval '1 hour' {_D}",
        f"SELECT id, tz + interval '1 month' {_D}"),
    row("timestamptz_mi_interval(timestamptz,interval)", _add_interval(-1), f"SELECT id, tz - interval '1 hour' {_D}"),
    row("timestamp_mi(timestamp,timestamp)", _difference,
        f"SELECT id, ts - timestamp '2020-01-01 12:00' {_D} WHERE isfinite(ts)",
        f"SELECT id, timestamp '2020-01-01 12:00' - ts {_D} WHERE isfinite(ts)"),
    row("timestamptz_mi(timestamptz,timestamptz)", _difference,
        f"SELECT id, tz - timestamptz '2020-01-01 12:00+00' {_D} WHERE isfinite(tz)"),
    row("extract(text,date)", _extract, _DATE_PROBE.format("d"), f"SELECT id, extract(month from d) {_D}"),
    row("extract(text,timestamp)", _extract, _DATE_PROBE.format("ts"), _TIME_PROBE.format("ts")),
    row("extract(text,timestamptz)", _extract, _DATE_PROBE.format("tz"), _TIME_PROBE.format("tz")),
    row("date_part(text,date)", _date_part, f"SELECT id, date_part('month', d) {_D}"),
    row("date_part(text,timestamp)", _date_part, f"SELECT id, date_part('second', ts) {_D}"),
    row("date_part(text,timestamptz)", _date_part, f"SELECT id, date_part('hour', tz) {_D}"),
    row("date_trunc(text,timestamp)", _truncated, _TRUNC_PROBE.format("ts")),
    row("date_trunc(text,timestamptz)", _truncated, _TRUNC_PROBE.format("tz"),
        f"SELECT id, date_trunc('month', d) {_D}"),
    row("make_date(int4,int4,int4)", _make_date, "SELECT id, make_date(2000 + id, 2, 28) FROM dates",
        "SELECT make_date(2023, 2, 29) FROM dates"),
    *(row(f"isfinite({kind})", _is_finite, f"SELECT id, isfinite({column}) {_D}")
      for kind, column in (("date", "d"), ("timestamp", "ts"), ("timestamptz", "tz"))),
    row("timestamptz(date)", _to_zoned, f"SELECT id, d::timestamptz {_D}"),
    row("timestamptz(timestamp)", _to_zoned, f"SELECT id, ts::timestamptz {_D}"),
    row("timestamp(timestamptz)", _to_local, f"SELECT id, tz::timestamp {_D}"),
    row("date(timestamptz)", _to_local, f"SELECT id, tz::date {_D}"),
)  # fmt: skip
