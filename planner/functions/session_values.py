"""Functions of the session's values: current_date, now(), current_user and the like."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable
from typing import Any, Final

from catalog.datatypes import DATE, TEXT, TIMESTAMP, TIMESTAMPTZ
from catalog.errors import unsupported
from planner.functions.call import Call, Row, row
from planner.spark.literals import literal
from planner.spark.plan import SessionValues
from planner.spark.values import Value, null_value

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def moment(microseconds: int) -> datetime.datetime:
    """Return microseconds since 1970 UTC as a datetime."""
    return _EPOCH + datetime.timedelta(microseconds=microseconds)


def local(session: SessionValues) -> datetime.datetime:
    """Return the transaction's start in the session's time zone, without the zone."""
    try:
        zone = zoneinfo.ZoneInfo(session.time_zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise unsupported(f"the time zone {session.time_zone}") from None
    return moment(session.now).astimezone(zone).replace(tzinfo=None)


def _cut(value: datetime.datetime, typmod: int) -> datetime.datetime:
    """Return a timestamp rounded to `typmod` digits of a second (-1: all)."""
    if typmod < 0 or typmod >= 6:
        return value
    step = 10 ** (6 - typmod)
    rounded = (value.microsecond + step // 2) // step * step
    return value.replace(microsecond=0) + datetime.timedelta(microseconds=rounded)


# SQLValueFunctionOp of primnodes.h
_BY_OPERATION: Final[dict[int, Callable[[SessionValues, int], tuple[Any, int]]]] = {
    0: lambda session, _: (local(session).date(), DATE),  # CURRENT_DATE
    3: lambda session, _: (moment(session.now), TIMESTAMPTZ),  # CURRENT_TIMESTAMP
    4: lambda session, typmod: (_cut(moment(session.now), typmod), TIMESTAMPTZ),
    7: lambda session, _: (local(session), TIMESTAMP),  # LOCALTIMESTAMP
    8: lambda session, typmod: (_cut(local(session), typmod), TIMESTAMP),
    9: lambda session, _: (session.user, TEXT),  # CURRENT_ROLE
    10: lambda session, _: (session.user, TEXT),  # CURRENT_USER
    11: lambda session, _: (session.user, TEXT),  # USER
    12: lambda session, _: (session.session_user, TEXT),  # SESSION_USER
    13: lambda session, _: (session.database, TEXT),  # CURRENT_CATALOG
    14: lambda session, _: (session.schema, TEXT),  # CURRENT_SCHEMA
}


def sql_value_function(operation: int, type_oid: int, typmod: int, session: SessionValues) -> Value:
    """Return CURRENT_DATE and the others that have a node of their own in PostgreSQL's tree."""
    read = _BY_OPERATION.get(operation)
    if read is None:
        raise unsupported("CURRENT_TIME")
    value, found = read(session, typmod)
    return literal(value, found if found != TEXT else type_oid if type_oid == TEXT else TEXT, typmod)


def _moment_row(name: str, microseconds: Callable[[SessionValues], int]) -> Row:
    def build(given: Call) -> Value:
        return literal(moment(microseconds(given.session)), TIMESTAMPTZ)

    return row(f"{name}()", build)


def _setting(given: Call) -> Value:
    name, *missing_ok = given.arguments
    known = given.session.settings
    if not isinstance(name.constant, str) or name.constant.lower() not in known:
        raise unsupported(f"{given.signature} of this setting")
    value = known[name.constant.lower()]
    if value is not None:
        return literal(value, TEXT)
    if not missing_ok or missing_ok[0].constant is not True:
        raise unsupported(f"{given.signature} of a setting that there is none of")  # PostgreSQL raises the error
    return null_value(TEXT)


ROWS: Final[tuple[Row, ...]] = (
    _moment_row("now", lambda session: session.now),
    _moment_row("transaction_timestamp", lambda session: session.now),
    _moment_row("statement_timestamp", lambda session: session.statement_now),
    row("current_setting(text)", _setting),
    row("current_setting(text,bool)", _setting),
)
