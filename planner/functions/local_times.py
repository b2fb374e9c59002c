"""Local times of the session's zone as instants: PostgreSQL's rules for local times that occur twice or never.

Source: `DetermineTimeZoneOffset` in PostgreSQL's datetime.c. A skipped time is read by the offset before, a repeated
one by the offset after. Spark reads both by the offset before. Time zone databases differ in their history before 1970,
so earlier instants are refused in zones whose offset has ever changed.
"""

from __future__ import annotations

import re
import zoneinfo
from functools import cache
from typing import Final

from catalog.errors import unsupported
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    call,
    case,
    cast,
    is_not_null,
    is_simple,
    let,
    raise_error,
    raw,
    variable,
)

FIXED_ZONES: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "Etc/Zulu", "Zulu", "Universal"})
# Names of PostgreSQL's zone files that are no zones of Java's.
_NOT_ZONES: Final = frozenset({"Factory", "localtime", "posixrules"})
# The result of SHOW after SET TIME ZONE with a number: `<+02>-02`, where the second sign is POSIX's, west of Greenwich.
_OFFSET: Final = re.compile(r"<[+-][0-9:]+>([+-])(\d\d)(:\d\d)?")
_DAY: Final = 86_400_000_000


@cache
def spark_zone(name: str) -> str:
    """Return the session's zone as Spark knows it; 0A000 if it does not."""
    if name in FIXED_ZONES:
        return "UTC"
    offset = _OFFSET.fullmatch(name)
    if offset is not None and int(offset[2]) <= 18:
        return f"{'-' if offset[1] == '+' else '+'}{offset[2]}{offset[3] or ':00'}"
    if name in _NOT_ZONES or name not in zoneinfo.available_timezones():
        raise unsupported(f"the time zone {name}")
    return name


def moment(local: Expression, zone: str) -> Expression:
    """Return the TIMESTAMP of a TIMESTAMP_NTZ in the session's `zone`."""
    if spark_zone(zone) == "UTC" or not spark_zone(zone)[0].isalpha():
        return cast(local, "TIMESTAMP_LTZ")
    if not is_simple(local):
        return let("w", local, _resolved(variable("w")))
    return _resolved(local)


def _resolved(local: Expression) -> Expression:
    before = cast(local, "TIMESTAMP_LTZ")
    # By the offset of a day later, which is the one after if the clocks are turned in between.
    shifted = cast(binary("+", local, raw("INTERVAL '1' DAY")), "TIMESTAMP_LTZ")
    after = call("timestamp_micros", binary("-", call("unix_micros", shifted), raw(f"{_DAY}L")))
    is_twice = and_(binary("=", cast(after, "TIMESTAMP_NTZ"), local), binary(">", after, before))
    refusal = raise_error("0A000", "a local time before 1970 as a timestamptz is not supported on lake tables")
    known = binary(">=", local, raw("TIMESTAMP_NTZ'1970-01-02 00:00:00'"))
    return case((known, case((is_twice, after), default=before)), (is_not_null(local), refusal))
