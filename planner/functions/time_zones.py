"""AT TIME ZONE with a constant zone: UTC, and for a timestamptz the regions of the time zone database."""

from __future__ import annotations

import re
import zoneinfo
from typing import Final

from catalog.datatypes import TIMESTAMP, TIMESTAMPTZ
from catalog.errors import unsupported
from planner.functions.call import Call, Row, row
from planner.functions.datetimes import finite, infinity
from planner.spark.builders import Expression, binary, call, case, cast, is_not_null, raise_error, raw, string
from planner.spark.values import Value

_UTC: Final = frozenset({"UTC", "GMT", "Etc/UTC", "Z"})
# Continent/City: a name without a slash may mean something else to PostgreSQL (EST, CET) than to Java.
_REGION: Final = re.compile(r"(Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific)/[A-Za-z_/-]+")


def _zone(given: Call) -> str:
    zone = given.constant(0, "a time zone")
    if not isinstance(zone, str):
        raise unsupported(f"{given.signature} with this time zone")
    if zone in _UTC:
        return "UTC"
    if not _REGION.fullmatch(zone) or zone not in zoneinfo.available_timezones():
        raise unsupported(f"AT TIME ZONE {zone!r}")
    return zone


def _in_utc(moment: Expression) -> Expression:
    """Return the instant's local time in UTC, whatever the session's zone."""
    micros = cast(call("unix_micros", moment), "DECIMAL(19,0)")
    seconds = cast(binary("*", micros, raw("0.000001BD")), "DECIMAL(20,6)")
    return binary("+", raw("TIMESTAMP_NTZ'1970-01-01 00:00:00'"), call(
        "make_dt_interval", raw("0"), raw("0"), raw("0"), seconds))  # fmt: skip


def _to_local(given: Call) -> Value:
    zone = _zone(given)

    def body(value: Value) -> Expression:
        local = _in_utc(value.sql)
        if zone == "UTC":
            return local
        # Databases of time zones differ about the time before.
        known = binary(">=", call("unix_micros", value.sql), raw("0L"))
        refusal = raise_error("0A000", "AT TIME ZONE of a moment before 1970 is not supported on lake tables")
        moved = call("convert_timezone", string("UTC"), string(zone), local)
        return case((known, moved), (is_not_null(value.sql), refusal))

    return given.result(finite(given.arguments[1], body, lambda positive: infinity(TIMESTAMP, positive)))


def _from_local(given: Call) -> Value:
    """Return the instant of a local time, in UTC only: PostgreSQL and Spark resolve repeated local times
    differently."""
    if _zone(given) != "UTC":
        raise unsupported("a timestamp AT TIME ZONE other than UTC")

    if given.session.time_zone not in _UTC:
        raise unsupported(f"a timestamp AT TIME ZONE in the session's time zone {given.session.time_zone}")
    return given.result(
        finite(given.arguments[1], lambda value: cast(value.sql, "TIMESTAMP_LTZ"),
               lambda positive: infinity(TIMESTAMPTZ, positive))
    )  # fmt: skip


ROWS: Final[tuple[Row, ...]] = (
    row("timezone(text,timestamptz)", _to_local, "SELECT id, tz AT TIME ZONE 'UTC' FROM dates",
        "SELECT id, tz AT TIME ZONE 'Europe/Zurich', tz AT TIME ZONE 'America/New_York', "
        "tz AT TIME ZONE 'Asia/Kolkata' FROM dates WHERE tz >= '1970-01-01' OR tz IS NULL",
        "SELECT (timestamptz '2024-10-26 23:45+00' + interval '1 hour') AT TIME ZONE 'Europe/Zurich' FROM dates"),
    row("timezone(text,timestamp)", _from_local, "SELECT id, ts AT TIME ZONE 'UTC' FROM dates"),
)  # fmt: skip
