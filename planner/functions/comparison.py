"""Comparisons: =, <>, <, <=, >, >= of every type, and between types that PostgreSQL compares directly.

Spark orders strings and binaries by bytes, NaN last, false before true: as PostgreSQL does in the C collations.
"""

from __future__ import annotations

import datetime
from typing import Final

from catalog.datatypes import is_enumeration
from catalog.errors import unsupported
from planner.functions.call import Build, Call, Row, row
from planner.functions.local_times import moment
from planner.spark.builders import Expression, binary, boolean, call, case, cast, field, is_not_null, raw, string
from planner.spark.literals import literal
from planner.spark.numerics import computable
from planner.spark.values import BPCHAR, DATE, FLOAT8, FLOATS, INTERVAL, NUMERIC, TIMESTAMP, TIMESTAMPTZ, Value
from planner.tree.datum import Infinite

_SUFFIXES: Final = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def comparable(value: Value) -> Expression:
    """Return an expression that Spark compares in PostgreSQL's order of the value's type. 0A000 if there is none."""
    if value.type_oid == NUMERIC:
        return computable(value).sql
    if value.type_oid == BPCHAR:
        return unpadded(value)
    if value.type_oid == INTERVAL:
        return interval_key(value.sql)
    if value.type_oid in FLOATS and value.constant == 0:
        return literal(0.0, value.type_oid).sql  # in a list of many, -0 would be another value
    if value.type_oid in FLOATS and not value.is_constant:
        # Parquet's statistics know neither NaN nor -0: keep the comparison from being pushed down to them.
        return binary("+", value.sql, raw("0D") if value.type_oid == FLOAT8 else raw("CAST(0 AS FLOAT)"))
    return value.sql


def unpadded(value: Value) -> Expression:
    """Return a bpchar without its trailing blanks, which do not count when it is compared."""
    if isinstance(value.constant, str):
        return string(value.constant.rstrip(" "))
    return call("rtrim", value.sql)


def interval_key(sql: Expression) -> Expression:
    """Return an interval's estimated length, by which PostgreSQL compares: 30 days to a month (timestamp.c)."""
    days = binary(
        "+",
        binary("*", cast(field(sql, "months"), "DECIMAL(20,0)"), raw("30BD")),
        cast(field(sql, "days"), "DECIMAL(20,0)"),
    )
    return binary("+", binary("*", days, raw("86400000000BD")), cast(field(sql, "microseconds"), "DECIMAL(20,0)"))


def _compare(operator: str) -> Build:
    def build(given: Call) -> Value:
        left, right = given.arguments
        if is_enumeration(left.type_oid) and operator not in ("=", "<>"):
            raise unsupported(f"{given.signature} by the texts of labels")
        if left.type_oid == BPCHAR and right.type_oid == BPCHAR and operator in ("=", "<>"):
            return given.result(_bpchar_equality(operator, left, right))
        if isinstance(left.constant, Infinite) or isinstance(right.constant, Infinite):
            return given.result(binary(operator, _counted(left), _counted(right)))
        return given.result(binary(operator, comparable(left), comparable(right)))

    return build


def _counted(value: Value) -> Expression:
    """Return a date or timestamptz as a number: Spark fails if it pushes an infinite literal down to Parquet."""
    if value.type_oid == DATE:
        return call("unix_date", value.sql)
    if value.type_oid == TIMESTAMPTZ:
        return call("unix_micros", value.sql)
    return value.sql


def is_infinity(value: Value, positive: bool) -> Expression:
    """Whether a date or timestamp is this infinity."""
    other = literal(Infinite(positive), value.type_oid)
    if value.type_oid == DATE:
        return binary("=", _counted(value), raw("2147483647" if positive else "(-2147483647)"))
    if value.type_oid == TIMESTAMPTZ:
        return binary("=", _counted(value), raw("9223372036854775807L" if positive else "(-9223372036854775807L)"))
    return binary("=", value.sql, other.sql)


def _bpchar_equality(operator: str, left: Value, right: Value) -> Expression:
    """Compare char(n). If the column's length is declared, pad the constant instead: files can be skipped by it."""
    for one, other in ((left, right), (right, left)):
        if one.typmod > 4 and isinstance(other.constant, str):
            padded = other.constant.rstrip(" ").ljust(one.typmod - 4)
            return binary(operator, one.sql, string(padded))
    if left.typmod == right.typmod and left.typmod > 4:
        return binary(operator, left.sql, right.sql)
    return binary(operator, unpadded(left), unpadded(right))


_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _date_with_timestamp(operator: str, date_first: bool) -> Build:
    """Compare a date with a timestamp: the date means its midnight."""

    def build(given: Call) -> Value:
        date, timestamp = given.arguments if date_first else given.arguments[::-1]
        toward = operator if date_first else _MIRRORED[operator]
        if isinstance(timestamp.constant, datetime.datetime):
            return given.result(_date_against_constant(toward, date, timestamp.constant))
        return given.result(binary(toward, midnight(date), timestamp.sql))

    return build


def _date_against_constant(operator: str, date: Value, timestamp: datetime.datetime) -> Expression:
    day = literal(timestamp.date(), DATE).sql
    if timestamp.time() == datetime.time():
        return binary(operator, date.sql, day)
    if operator in ("=", "<>"):
        return case((is_not_null(date.sql), boolean(operator == "<>")))
    # The timestamp lies inside the day: the day's midnight is before it.
    return binary("<=" if operator in ("<", "<=") else ">", date.sql, day)


def midnight(date: Value) -> Expression:
    """Return the date as a timestamp, infinities kept."""
    if date.is_constant and not isinstance(date.constant, Infinite):
        return cast(date.sql, "TIMESTAMP_NTZ")
    return case(
        *((is_infinity(date, positive), literal(Infinite(positive), TIMESTAMP).sql) for positive in (True, False)),
        default=cast(date.sql, "TIMESTAMP_NTZ"),
    )  # fmt: skip


def _zoned(value: Value, zone: str) -> Expression:
    """Return a date or timestamp as a timestamptz in the session's time zone."""
    if value.type_oid == TIMESTAMPTZ:
        return value.sql
    local = cast(value.sql, "TIMESTAMP_NTZ") if value.type_oid == DATE else value.sql
    return case(
        *((is_infinity(value, positive), literal(Infinite(positive), TIMESTAMPTZ).sql) for positive in (True, False)),
        default=moment(local, zone),
    )


def _with_time_zone(operator: str) -> Build:
    def build(given: Call) -> Value:
        left, right = (_zoned(argument, given.session.time_zone) for argument in given.arguments)
        return given.result(binary(operator, left, right))

    return build


# (prefix of the function's name, its arguments, the probe table, left and right expressions)
_SAME: Final = (
    ("int2", "int2,int2", "integers", "s", "7::int2"),
    ("int4", "int4,int4", "integers", "i", "7"),
    ("int8", "int8,int8", "integers", "b", "7::int8"),
    ("int24", "int2,int4", "integers", "s", "i"),
    ("int42", "int4,int2", "integers", "i", "s"),
    ("int28", "int2,int8", "integers", "s", "b"),
    ("int82", "int8,int2", "integers", "b", "s"),
    ("int48", "int4,int8", "integers", "i", "b"),
    ("int84", "int8,int4", "integers", "b", "i"),
    ("float4", "float4,float4", "floats", "r", "1.5::float4"),
    ("float8", "float8,float8", "floats", "d", "1.5::float8"),
    ("float48", "float4,float8", "floats", "r", "d"),
    ("float84", "float8,float4", "floats", "d", "r"),
    ("bool", "bool,bool", "booleans", "x", "y"),
    ("bytea", "bytea,bytea", "binaries", "x", "'\\x61'::bytea"),
    ("date_", "date,date", "dates", "d", "date '2024-02-29'"),
    ("time_", "time,time", "dates", "t", "time '12:00'"),
    ("timestamp_", "timestamp,timestamp", "dates", "ts", "timestamp '2024-02-29 12:00'"),
    ("timestamptz_", "timestamptz,timestamptz", "dates", "tz", "timestamptz '2024-02-29 12:00+00'"),
    ("interval_", "interval,interval", "intervals", "v", "interval '1 day'"),
    ("uuid_", "uuid,uuid", "uuids", "u", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid"),
    ("numeric_", "numeric,numeric", "decimals", "n", "1.5"),
    ("bpchar", "bpchar,bpchar", "texts", "c", "'abc'::char(5)"),
    ("oid", "oid,oid", "integers", "i::oid", "7::oid"),
    ("tid", "tid,tid", "integers", "ctid", "'(0,3)'::tid"),
    ("enum_", "anyenum,anyenum", "moods", "m", "o"),
)
_TEXT_NAMES: Final = {
    "text_lt": "<", "text_le": "<=", "text_gt": ">", "text_ge": ">=", "texteq": "=", "textne": "<>",
    "text_pattern_lt": "<", "text_pattern_le": "<=", "text_pattern_gt": ">", "text_pattern_ge": ">=",
}  # fmt: skip
_SYMBOL: Final = {
    "text_pattern_lt": "~<~", "text_pattern_le": "~<=~", "text_pattern_gt": "~>~", "text_pattern_ge": "~>=~",
}  # fmt: skip
_NOT_PROBED: Final = frozenset({"oid", "tid"})


def _rows() -> list[Row]:
    rows = []
    for prefix, arguments, table, left, right in _SAME:
        for suffix, operator in _SUFFIXES.items():
            probe = f"SELECT id, {left} {operator} {right} FROM {table}"
            if prefix == "interval_":
                probe = f"SELECT id, {left} {operator} {right} FROM {table}"
            rows.append(
                row(f"{prefix}{suffix}({arguments})", _compare(operator),
                    *(() if prefix in _NOT_PROBED else (probe,)))
            )  # fmt: skip
    for name, operator in _TEXT_NAMES.items():
        symbol = _SYMBOL.get(name, operator)
        rows.append(row(f"{name}(text,text)", _compare(operator), f"SELECT id, t {symbol} 'abc' FROM texts"))
    for suffix, operator in (("eq", "="), ("ne", "<>")):
        rows += [
            row(f"text{suffix}name(text,name)", _compare(operator), f"SELECT id, t {operator} current_user FROM texts"),
            row(f"name{suffix}text(name,text)", _compare(operator), f"SELECT id, current_user {operator} t FROM texts"),
        ]
    for suffix, operator in _SUFFIXES.items():
        rows += [
            row(f"date_{suffix}_timestamp(date,timestamp)", _date_with_timestamp(operator, True),
                f"SELECT id, d {operator} timestamp '2024-02-29 00:00' FROM dates",
                f"SELECT id, d {operator} timestamp '2024-02-29 00:01' FROM dates",
                f"SELECT id, d {operator} ts FROM dates"),
            row(f"timestamp_{suffix}_date(timestamp,date)", _date_with_timestamp(operator, False),
                f"SELECT id, timestamp '2024-02-29 00:00' {operator} d FROM dates",
                f"SELECT id, timestamp '2024-02-29 00:01' {operator} d FROM dates",
                f"SELECT id, ts {operator} d FROM dates"),
            row(f"date_{suffix}_timestamptz(date,timestamptz)", _with_time_zone(operator),
                f"SELECT id, d {operator} tz FROM dates"),
            row(f"timestamptz_{suffix}_date(timestamptz,date)", _with_time_zone(operator),
                f"SELECT id, tz {operator} d FROM dates"),
            row(f"timestamp_{suffix}_timestamptz(timestamp,timestamptz)", _with_time_zone(operator),
                f"SELECT id, ts {operator} tz FROM dates"),
            row(f"timestamptz_{suffix}_timestamp(timestamptz,timestamp)", _with_time_zone(operator),
                f"SELECT id, tz {operator} ts FROM dates"),
        ]  # fmt: skip
    return rows


ROWS: Final[tuple[Row, ...]] = tuple(_rows())
