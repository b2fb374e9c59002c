"""Constant folding while planning, for calls whose result Python's arithmetic computes as PostgreSQL does.

It serves conditions such as `d < date '1998-12-01' - interval '90' day` or `x between 0.06 - 0.01 and 0.06 + 0.01`.
Folded, they are compared with a column as they stand: files are skipped by them, and Spark pushes them down. Spark
computes calls that are not in the table, that overflow, or that leave Python's range.
"""

from __future__ import annotations

import calendar
import datetime
import decimal
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from planner.spark.values import MISSING, Value
from planner.tree.datum import Interval

_EXACT: Final = decimal.Context(prec=200, traps=[decimal.Inexact, decimal.InvalidOperation])


def folded(signature: str, arguments: Sequence[Value]) -> Any:
    """Return the call's value if all arguments are constants and the table has the call; otherwise `MISSING`."""
    function = _TABLE.get(signature)
    if function is None:
        return MISSING
    constants = [argument.constant for argument in arguments]
    if any(constant is None or constant is MISSING for constant in constants):
        return MISSING
    try:
        return function(*constants)
    except (_UnfoldedError, OverflowError, decimal.DecimalException, TypeError, ValueError, AttributeError):
        return MISSING


class _UnfoldedError(Exception):
    """The result is left to Spark: it may be an error."""


def _ranged(bits: int, function: Callable[..., int]) -> Callable[..., int]:
    bound = 1 << (bits - 1)

    def checked(*values: int) -> int:
        result = function(*values)
        if not -bound <= result < bound:
            raise _UnfoldedError
        return result

    return checked


def _add_interval(moment: datetime.datetime, interval: Interval, sign: int = 1) -> datetime.datetime:
    """Add as timestamp_pl_interval: months first, the day cut to the month's last, then days, then microseconds."""
    if interval.months:
        year, month = divmod(moment.year * 12 + moment.month - 1 + sign * interval.months, 12)
        day = min(moment.day, calendar.monthrange(year, month + 1)[1])
        moment = moment.replace(year=year, month=month + 1, day=day)
    return moment + sign * datetime.timedelta(days=interval.days, microseconds=interval.microseconds)


def _date_interval(sign: int) -> Callable[[datetime.date, Interval], datetime.datetime]:
    return lambda date, interval: _add_interval(datetime.datetime.combine(date, datetime.time()), interval, sign)


def _timestamp_interval(sign: int) -> Callable[[datetime.datetime, Interval], datetime.datetime]:
    return lambda moment, interval: _add_interval(moment, interval, sign)


def _days(sign: int) -> Callable[[datetime.date, int], datetime.date]:
    return lambda date, days: date + sign * datetime.timedelta(days)


def _subtract_scaled(left: decimal.Decimal, right: decimal.Decimal) -> decimal.Decimal:
    return _limited(_EXACT.subtract(left, right))


def _add_scaled(left: decimal.Decimal, right: decimal.Decimal) -> decimal.Decimal:
    return _limited(_EXACT.add(left, right))


def _limited(result: decimal.Decimal) -> decimal.Decimal:
    """Return the result, without a minus before zero; a value for which Spark has no literal is not folded."""
    if len(result.as_tuple().digits) > 38:
        raise _UnfoldedError
    return abs(result) if result.is_zero() else result


def _multiply(left: decimal.Decimal, right: decimal.Decimal) -> decimal.Decimal:
    return _limited(_EXACT.multiply(left, right))


def _double(value: decimal.Decimal) -> float:
    result = float(value)
    if result in (float("inf"), float("-inf")) or (result == 0 and value != 0):
        raise _UnfoldedError
    return result


def _negative(value: decimal.Decimal) -> decimal.Decimal:
    return abs(value) if value.is_zero() else value.copy_negate()


_COMPARISONS: Final[dict[str, Callable[..., bool]]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def _integer_rows() -> dict[str, Callable[..., Any]]:
    rows: dict[str, Callable[..., Any]] = {}
    for name, bits in (("int2", 16), ("int4", 32), ("int8", 64)):
        rows[f"{name}pl({name},{name})"] = _ranged(bits, lambda a, b: a + b)
        rows[f"{name}mi({name},{name})"] = _ranged(bits, lambda a, b: a - b)
        rows[f"{name}mul({name},{name})"] = _ranged(bits, lambda a, b: a * b)
        rows[f"{name}um({name})"] = _ranged(bits, lambda a: -a)
        for function, compare in _COMPARISONS.items():
            rows[f"{name}{function}({name},{name})"] = compare
        rows[f"numeric({name})"] = decimal.Decimal
        rows[f"float8({name})"] = float
    for source, target, bits in (("int4", "int2", 16), ("int8", "int4", 32), ("int2", "int4", 32),
                                 ("int4", "int8", 64), ("int2", "int8", 64), ("int8", "int2", 16)):  # fmt: skip
        rows[f"{target}({source})"] = _ranged(bits, lambda a: a)
    return rows


_TABLE: Final[dict[str, Callable[..., Any]]] = {
    **_integer_rows(),
    "numeric_add(numeric,numeric)": _add_scaled,
    "numeric_sub(numeric,numeric)": _subtract_scaled,
    "numeric_mul(numeric,numeric)": _multiply,
    "numeric_uminus(numeric)": _negative,
    "float8(numeric)": _double,
    "date_pl_interval(date,interval)": _date_interval(1),
    "date_mi_interval(date,interval)": _date_interval(-1),
    "timestamp_pl_interval(timestamp,interval)": _timestamp_interval(1),
    "timestamp_mi_interval(timestamp,interval)": _timestamp_interval(-1),
    "date_pli(date,int4)": _days(1),
    "date_mii(date,int4)": _days(-1),
    "date_mi(date,date)": lambda left, right: (left - right).days,
    "date(timestamp)": lambda moment: moment.date(),
    "timestamp(date)": lambda date: datetime.datetime.combine(date, datetime.time()),
    "texteq(text,text)": operator.eq,
    "textne(text,text)": operator.ne,
    "text(bpchar)": lambda text: text.rstrip(" "),
}
