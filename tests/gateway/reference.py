"""Values for the tests of the wire codec, and a slow but plain conversion of PostgreSQL's binary values to Arrow.

The oracle's COPY … TO STDOUT (FORMAT binary) gives the value; the struct module reads it one by one, without the
codec's code. So a test compares three statements of PostgreSQL about the same value.
"""

from __future__ import annotations

import decimal
import struct
from typing import Any

import pyarrow as pa

from catalog import datatypes
from catalog.datatypes import lake_form, numeric_precision_scale

DAYS_1970_TO_2000 = 10957
MICROSECONDS_1970_TO_2000 = DAYS_1970_TO_2000 * 86_400_000_000

# type → (literals that are worth a test, an expression of i that makes many more)
SAMPLES: dict[str, tuple[list[str], str]] = {
    "boolean": (["true", "false"], "i % 3 = 0"),
    "bytea": (["", "\\x00ff5c27225c5c", "\\x41", "\\x09"], "decode(md5(i::text), 'hex')"),
    "smallint": (["0", "-32768", "32767", "-1"], "(i * 37 % 30000 - 15000)::int2"),
    "integer": (["0", "-2147483648", "2147483647"], "(i::int8 * 7654321 % 4000000000 - 2000000000)::int4"),
    "bigint": (["0", "-9223372036854775808", "9223372036854775807"], "(i::int8 * 987654321987)"),
    "text": (
        ["", "a b", '"', "\\", "a\\b\"c,d{e}", "NULL", "null", "\\N", "\\.", "é☃😀", "line\nbreak", "\r", "\t", "a'b",
         " lead", "trail ", ",", "\x01\x0b\x0c\x7f\b"],
        "repeat(chr(65 + i % 26), i % 40)",
    ),
    "varchar(20)": (["", "abc", "x" * 20], "left(md5(i::text), i % 21)"),
    "char(7)": (["", "abc", "x" * 7, "é"], "left(md5(i::text), i % 8)::char(7)"),
    "json": (['{"a": [1, "b"]}', "null", '"x"', "1"], "json_build_object('k', i)"),
    "jsonb": (['{"a": [1, "b"]}', "null", '"x"', "1"], "jsonb_build_object('k', i)"),
    "real": (
        ["0", "-0", "1", "1e6", "999999", "1e-4", "1e-5", "3.4028235e38", "1e-45", "NaN", "Infinity", "-Infinity",
         "16777216", "0.1"],
        "((i * 1.7)::float8 * 10 ^ (i % 60 - 30))::float4",
    ),
    "double precision": (
        ["0", "-0", "1", "1e15", "1e14", "123456789012345.6", "1e-4", "1e-5", "1.5e-7", "1e20", "1e23", "5e-324",
         "1.7976931348623157e308", "NaN", "Infinity", "-Infinity", "9007199254740993", "0.1", "12345678901.5"],
        "(i * 1.7)::float8 * 10 ^ (i % 300 - 150) / 3",
    ),
    "date": (
        ["1970-01-01", "0044-03-15 BC", "4713-01-01 BC", "5874897-12-31", "infinity", "-infinity", "2000-02-29",
         "0001-01-01", "0001-12-31 BC", "9999-12-31", "10000-01-01"],
        "date '1900-02-27' + i * 37",
    ),
    "time": (
        ["00:00:00", "24:00:00", "23:59:59.999999", "01:02:03.4", "12:00:00.00001"],
        "time '00:00' + i * interval '87.654321 s'",
    ),
    "timestamp": (
        ["1970-01-01", "0044-03-15 12:34:56.7 BC", "4713-01-01 BC", "294246-12-31 23:59:59.999999",
         "infinity", "-infinity", "2000-02-29 00:00:00.000001", "9999-12-31 23:59:59", "12345-01-01 01:02:03.45"],
        "timestamp '1900-02-27' + i * interval '37 days 1.0123 s'",
    ),
    "timestamptz": (
        ["1970-01-01 UTC", "0044-03-15 12:34:56.7 UTC BC", "4713-01-02 UTC BC", "294246-12-30 23:59:59.999999 UTC",
         "infinity", "-infinity", "2024-03-31 00:59:59 UTC", "2024-03-31 01:00:00 UTC", "2024-10-27 00:59:59 UTC",
         "2024-10-27 01:00:00 UTC", "1800-01-01 UTC", "2100-07-01 UTC", "9999-12-31 23:59:59 UTC",
         "3000-06-15 12:00 UTC"],
        "timestamptz '1850-02-27 UTC' + i * interval '37 days 1.0123 s'",
    ),
    "interval": (
        ["0", "1 year 2 mons -3 days 04:05:06.7", "-1 year", "-1 mon 2 days", "-1 day 00:00:01", "1 day -00:00:01",
         "00:00:00.000001", "-00:00:00.5", "1 mon", "2 years", "1000000:00:00",
         "infinity", "-infinity", "-14 mons -1 days",
         "178000000 years", "11 mons 1 day 100:00:00"],
        "make_interval(months => i % 31 - 15, days => i % 17 - 8, secs => (i % 100 - 50) * 1000.25)",
    ),
    "numeric(15,2)": (["0", "-0.01", "9999999999999.99", "-9999999999999.99"], "(i * 1234.567)::numeric(15,2)"),
    "numeric(18,16)": (["0", "-99.9999999999999999", "0.0000000000000001", "10"], "(i % 99 / 7.0)::numeric(18,16)"),
    "numeric(18,18)": (["0", "-0.999999999999999999", "0.000000000000000001"], "(1.0 / (i + 1))::numeric(18,18) - 0.5"),
    "numeric(38,10)": (
        ["0", "0.0000000001", "-0.0000000001", "9999999999999999999999999999.9999999999", "-123456789.1"],
        "(i * 1234567.0000567 - 1000000)::numeric(38,10)",
    ),
    "numeric(5,0)": (["0", "99999", "-10000", "10000"], "(i % 90000)::numeric(5,0)"),
    "numeric(4,4)": (["0", "0.9999", "-0.0001"], "(i % 9999 / 10000.0)::numeric(4,4)"),
    "numeric": (
        ["0", "0.0", "1e100", "-1e-100", "NaN", "Infinity", "-Infinity", "10000", "1.0000", "0.00010000",
         "123456789.987654321",
         "100000000", "-99999999.99990000", "1.5"],
        "(i * 1234567.0000567 - 1000000)::numeric * 10 ^ (i % 40 - 20)::numeric",
    ),
    "uuid": (["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"], "md5(i::text)::uuid"),
}  # fmt: skip


def values_query(type_name: str, many: int = 400) -> str:
    """A query for one column `v`: nulls, the literals, and `many` made values."""
    literals, expression = SAMPLES[type_name]
    quoted = [literal.replace("'", "''") for literal in literals]
    rows = ", ".join([f"('{literal}'::{type_name})" for literal in quoted] + ["(null)"])
    made = f"SELECT {expression} FROM generate_series(1, {many}) AS i"
    return f"SELECT v::{type_name} AS v FROM (VALUES {rows}) AS literal(v) UNION ALL {made}"


def array_query(type_name: str) -> str:
    """A query for one column of arrays of the type: null, empty, with nulls in it, and of growing length."""
    numbered = f"SELECT v, row_number() OVER () AS n FROM ({values_query(type_name, 40)})"
    arrays = f"SELECT array_agg(v)::{type_name}[] FROM ({numbered}) GROUP BY"
    return (
        f"SELECT v FROM (VALUES (null::{type_name}[]), ('{{}}'), ('{{NULL}}')) AS literal(v) "
        f"UNION ALL ({arrays} n % 23 ORDER BY n % 23) UNION ALL ({arrays} n)"
    )


def numeric_from_binary(data: bytes) -> str:
    """PostgreSQL's text of a numeric."""
    count, weight, sign, scale = struct.unpack_from("!hhHh", data)
    if sign in {0xC000, 0xD000, 0xF000}:
        return {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}[sign]
    digits = struct.unpack_from(f"!{count}h", data, 8)
    number = 0
    for digit in digits:
        number = number * 10000 + digit
    with decimal.localcontext(decimal.Context(prec=2000)):
        value = decimal.Decimal(number).scaleb(4 * (weight - count + 1)).quantize(decimal.Decimal(1).scaleb(-scale))
    return ("-" if sign else "") + format(value, "f")


def value_from_binary(type_oid: int, typmod: int, data: bytes | None) -> Any:
    """What pyarrow takes for the lake form."""
    if data is None:
        return None
    element = datatypes.element_type(type_oid)
    if element is not None:
        dimensions, _, _ = struct.unpack_from("!iiI", data)
        if dimensions == 0:
            return []
        assert dimensions == 1
        count, lower = struct.unpack_from("!ii", data, 12)
        assert lower == 1
        place, values = 20, []
        for _ in range(count):
            (length,) = struct.unpack_from("!i", data, place)
            place += 4
            piece = None if length == -1 else data[place : place + length]
            values.append(value_from_binary(element.oid, typmod, piece))
            place += max(length, 0)
        return values
    if type_oid == datatypes.NUMERIC:
        text = numeric_from_binary(data)
        return decimal.Decimal(text) if lake_form(type_oid, typmod).ducklake.startswith("decimal") else text
    if type_oid == datatypes.BOOL:
        return data == b"\1"
    if type_oid == datatypes.BYTEA:
        return data
    if type_oid == datatypes.DATE:
        (days,) = struct.unpack("!i", data)
        return {2**31 - 1: 2**31 - 1, -(2**31): -(2**31) + 1}.get(days, days + DAYS_1970_TO_2000)
    if type_oid in {datatypes.TIMESTAMP, datatypes.TIMESTAMPTZ}:
        (instant,) = struct.unpack("!q", data)
        return {2**63 - 1: 2**63 - 1, -(2**63): -(2**63) + 1}.get(instant, instant + MICROSECONDS_1970_TO_2000)
    if type_oid == datatypes.INTERVAL:
        microseconds, days, months = struct.unpack("!qii", data)
        return {"months": months, "days": days, "microseconds": microseconds}
    if type_oid == datatypes.UUID:
        text = data.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    if type_oid == datatypes.JSONB:
        assert data[0] == 1
        return data[1:].decode()
    forms = {datatypes.INT2: "!h", datatypes.INT4: "!i", datatypes.INT8: "!q", datatypes.TIME: "!q",
             datatypes.FLOAT4: "!f", datatypes.FLOAT8: "!d"}  # fmt: skip
    if type_oid in forms:
        return struct.unpack(forms[type_oid], data)[0]
    return data.decode()


def arrow_type(type_oid: int, typmod: int) -> pa.DataType:
    """The Arrow type of the lake form."""
    element = datatypes.element_type(type_oid)
    if element is not None:
        return pa.list_(arrow_type(element.oid, typmod))
    form = lake_form(type_oid, typmod)
    if form.ducklake.startswith("decimal"):
        declared = numeric_precision_scale(typmod)
        assert declared is not None
        return pa.decimal128(*declared)
    return {
        "boolean": pa.bool_(), "blob": pa.binary(), "int64": pa.int64(), "int16": pa.int16(), "int32": pa.int32(),
        "varchar": pa.string(), "json": pa.string(), "float32": pa.float32(), "float64": pa.float64(),
        "date": pa.date32(), "time": pa.time64("us"), "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "UTC"), "uuid": pa.string(),
        "struct": pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())]),
    }[form.ducklake]  # fmt: skip


def arrow_column(type_oid: int, typmod: int, values: list[bytes | None]) -> pa.Array:
    """A column in lake form from binary values."""
    wanted = arrow_type(type_oid, typmod)
    python = [value_from_binary(type_oid, typmod, value) for value in values]
    numbers = {
        pa.date32(): pa.int32(),
        pa.timestamp("us"): pa.int64(),
        pa.timestamp("us", "UTC"): pa.int64(),
        pa.time64("us"): pa.int64(),
    }

    def build(kind: pa.DataType, items: list[Any]) -> pa.Array:
        if pa.types.is_list(kind):
            flat = [item for row in items if row is not None for item in row]
            offsets, total = [], 0
            for item in items:
                offsets.append(None if item is None else total)
                total += len(item or ())
            return pa.ListArray.from_arrays(pa.array([*offsets, total], pa.int32()), build(kind.value_type, flat))
        if kind in numbers:
            return pa.array(items, numbers[kind]).view(kind)
        return pa.array(items, kind)

    return build(wanted, python)
