"""generate_series: an array from start to stop by a step, of integers, timestamps and timestamptz."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from catalog.datatypes import INT4, INT8, TIMESTAMP, TIMESTAMPTZ
from catalog.errors import SluiceError, unsupported
from planner.functions.datetimes import is_infinite
from planner.functions.local_times import FIXED_ZONES
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    boolean,
    call,
    case,
    integer,
    is_not_null,
    lambda_,
    or_,
    raise_error,
    raw,
)
from planner.spark.plan import SessionValues
from planner.spark.values import Value
from planner.tree.datum import Infinite, Interval

# By signature: the type of the series.
SERIES: Final = {
    "generate_series(int4,int4)": INT4,
    "generate_series(int4,int4,int4)": INT4,
    "generate_series(int8,int8)": INT8,
    "generate_series(int8,int8,int8)": INT8,
    "generate_series(timestamp,timestamp,interval)": TIMESTAMP,
    "generate_series(timestamptz,timestamptz,interval)": TIMESTAMPTZ,
}
_DAY_KEPT_BY_ALL_MONTHS: Final = 28


def series(signature: str, arguments: Sequence[Value], session: SessionValues) -> Expression:
    """Return the array; empty if the step leads away (Spark's sequence would fail), none for NULL."""
    result_type = SERIES[signature]
    if result_type in (TIMESTAMP, TIMESTAMPTZ):
        return _moments(arguments, session)
    one = raw("1L") if result_type == INT8 else raw("1")
    return _numbers(arguments[0].sql, arguments[1].sql, arguments[2].sql if len(arguments) > 2 else one)


def _numbers(start: Expression, stop: Expression, step: Expression) -> Expression:
    zero = raw("0")
    forward = and_(binary(">", step, zero), binary("<=", start, stop))
    backward = and_(binary("<", step, zero), binary(">=", start, stop))
    return case(
        (binary("=", step, zero), raise_error("22023", "step size cannot equal zero")),
        (or_(forward, backward), call("sequence", start, stop, step)),
        default=_empty(start),
    )


def _empty(start: Expression) -> Expression:
    return call("filter", call("array", start), lambda_("e", boolean(False)))


def _moments(arguments: Sequence[Value], session: SessionValues) -> Expression:
    """Compute a series by months only, or by days and time only; the zone must only have days of 24 hours."""
    start, stop, step = arguments
    if start.type_oid == TIMESTAMPTZ and session.time_zone not in FIXED_ZONES:
        raise unsupported(f"generate_series of timestamptz in the time zone {session.time_zone}")
    if not isinstance(step.constant, Interval):
        raise unsupported("generate_series by an interval that is not constant")
    months, time = step.constant.months, step.constant.days * 86_400_000_000 + step.constant.microseconds
    if not months and not time:
        raise SluiceError("22023", "step size cannot equal zero")
    if months and (step.constant.days or step.constant.microseconds):
        raise unsupported("generate_series by months together with days or time")
    if abs(months) > 12_000 or (step.constant.days * step.constant.microseconds) < 0:
        raise unsupported("generate_series by this interval")
    infinite = [is_infinite(side) for side in (start, stop) if not side.is_constant]
    if any(isinstance(side.constant, Infinite) for side in (start, stop)):
        raise unsupported("generate_series to infinity")
    ahead = binary("<=" if months + time > 0 else ">=", start.sql, stop.sql)
    if months:
        interval = call("make_ym_interval", raw("0"), integer(months))
    else:
        seconds, rest = divmod(abs(time), 10**6)
        sign = "-" if time < 0 else ""
        parts = f"{sign}{seconds % 86400}.{rest:06d}"
        interval = call("make_dt_interval", integer(int(f"{sign}{seconds // 86400}")), raw("0"), raw("0"),
                        raw(f"CAST({parts} AS DECIMAL(18,6))"))  # fmt: skip
    branches: list[tuple[Expression, Expression]] = []
    if infinite:
        refusal = raise_error("0A000", "generate_series to infinity is not supported on lake tables")
        branches.append((or_(*infinite), refusal))
    if months:
        # PostgreSQL continues from the day of the last step: after February 28th, the 28th.
        late = binary(">", call("day", start.sql), integer(_DAY_KEPT_BY_ALL_MONTHS))
        refusal = raise_error("0A000", "generate_series by months from a day after the 28th is not supported "
                              "on lake tables")  # fmt: skip
        branches.append((late, refusal))
    branches.append((ahead, call("sequence", start.sql, stop.sql, interval)))
    branches.append((and_(is_not_null(start.sql), is_not_null(stop.sql)), _empty(start.sql)))
    return case(*branches)
