"""Casts: between numbers, to and from text, and the length coercions varchar(n), char(n) and numeric(p, s)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from catalog.datatypes import (
    BOOL,
    BPCHAR,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    OID,
    TEXT,
    TID,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    element_type,
    is_enumeration,
)
from catalog.errors import SluiceError, unsupported
from planner.functions.call import Call, Row, row
from planner.functions.comparison import is_infinity, midnight
from planner.functions.tids import tid_of_text, tid_text
from planner.spark import numerics
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    call,
    case,
    cast,
    integer,
    is_not_null,
    is_simple,
    let,
    not_,
    or_,
    raise_error,
    raise_error_about,
    raw,
    string,
    try_cast,
    variable,
)
from planner.spark.literals import literal
from planner.spark.plan import SessionValues
from planner.spark.values import INTEGERS, MISSING, Decimal, Value, null_value, spark_type
from planner.tree.datum import Infinite

_TEXTS: Final = frozenset({TEXT, VARCHAR})
_INTEGER_NAMES: Final = {INT2: "smallint", INT4: "integer", INT8: "bigint"}


def relabelled(value: Value, type_oid: int, typmod: int) -> Value:
    """Return the same bits as another type."""
    if value.constant is None:
        return null_value(type_oid, typmod)
    if value.type_oid == type_oid:
        return replace(value, typmod=typmod)
    if value.type_oid in _TEXTS and type_oid in _TEXTS | {BPCHAR}:
        return replace(value, type_oid=type_oid, typmod=typmod)
    if {value.type_oid, type_oid} == {INT4, OID}:
        raise unsupported("a cast between integer and oid")
    left, right = element_type(value.type_oid), element_type(type_oid)
    if left is not None and right is not None and left.oid in _TEXTS and right.oid in _TEXTS:
        return replace(value, type_oid=type_oid, typmod=typmod)
    raise unsupported(f"a cast from the type with OID {value.type_oid} to the one with OID {type_oid}")


def on(value: Expression, body: Callable[[Expression], Expression]) -> Expression:
    """Return `body` of the expression, which is evaluated once."""
    return body(value) if is_simple(value) else let("v", value, body(variable("v")))


# --- to text ---


def to_text(value: Value, session: SessionValues) -> Expression:
    """Return PostgreSQL's text of the value, as its output function writes it (bool: t, f)."""
    kind = value.type_oid
    if kind in (TEXT, VARCHAR, UUID, BPCHAR, 705) or is_enumeration(kind):
        return value.sql
    if kind in INTEGERS or kind == NUMERIC:
        return cast(value.sql, "STRING") if kind in INTEGERS else numerics.as_text(value)
    if kind == BOOL:
        return case((value.sql, string("t")), (not_(value.sql), string("f")))
    if kind in (DATE, TIMESTAMP, TIMESTAMPTZ) and not session.date_style.startswith("ISO"):
        raise unsupported(f"DateStyle {session.date_style}")
    if kind == DATE:
        return on(value.sql, _date_text)
    if kind == TIMESTAMP:
        return on(value.sql, _timestamp_text)
    if kind == TIMESTAMPTZ and session.time_zone in ("UTC", "Etc/UTC", "GMT"):
        return on_value(value, _text_in_utc)
    if kind == TIME:
        return cast(value.sql, "STRING")
    if kind == TID:
        return tid_text(value.sql)
    raise unsupported(f"a cast to text from the type with OID {kind}")


_FIRST_DATE: Final = "DATE'0001-01-01'"
_LAST_DATE: Final = "DATE'9999-12-31'"


def _date_text(sql: Expression) -> Expression:
    return case(
        (and_(binary(">=", sql, raw(_FIRST_DATE)), binary("<=", sql, raw(_LAST_DATE))), cast(sql, "STRING")),
        (is_infinity(Value(sql, DATE), True), string("infinity")),
        (is_infinity(Value(sql, DATE), False), string("-infinity")),
        (is_not_null(sql), raise_error("0A000", "the text of a date before year 1 or after year 9999 "
                                       "is not supported on lake tables")),
    )  # fmt: skip


def _timestamp_text(sql: Expression) -> Expression:
    first, last = raw("TIMESTAMP_NTZ'0001-01-01 00:00:00'"), raw("TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'")
    return case(
        (and_(binary(">=", sql, first), binary("<=", sql, last)), cast(sql, "STRING")),
        (binary("=", sql, literal(Infinite(True), TIMESTAMP).sql), string("infinity")),
        (binary("=", sql, literal(Infinite(False), TIMESTAMP).sql), string("-infinity")),
        (is_not_null(sql), raise_error("0A000", "the text of a timestamp before year 1 or after year 9999 "
                                       "is not supported on lake tables")),
    )  # fmt: skip


def _text_in_utc(value: Value) -> Expression:
    infinite = or_(*(is_infinity(value, positive) for positive in (True, False)))
    local = case(
        *((is_infinity(value, positive), literal(Infinite(positive), TIMESTAMP).sql) for positive in (True, False)),
        default=cast(value.sql, "TIMESTAMP_NTZ"),
    )
    return call("concat", on(local, _timestamp_text), case((infinite, string("")), default=string("+00")))


# --- from text ---


def through_text(value: Value, type_oid: int, session: SessionValues) -> Value:
    """Cast by CoerceViaIO: the source's output function, then the target's input function."""
    if value.constant is None:
        return null_value(type_oid)
    if type_oid in _TEXTS:
        if value.type_oid == BOOL:
            return Value(cast(value.sql, "STRING"), type_oid)
        return Value(to_text(value, session), type_oid)
    if value.type_oid not in _TEXTS:
        raise unsupported(f"a cast from the type with OID {value.type_oid} to the one with OID {type_oid}")
    if type_oid in INTEGERS:
        return Value(on(value.sql, lambda sql: _parsed_integer(sql, type_oid)), type_oid)
    if type_oid == DATE:
        return Value(on(value.sql, _parsed_date), type_oid)
    if type_oid == NUMERIC:
        return Value(on(value.sql, _parsed_numeric), NUMERIC, -1, Decimal(0, 0, None))
    if type_oid == BOOL:
        return Value(on(value.sql, _parsed_boolean), type_oid)
    if type_oid == TID:
        return Value(on(value.sql, tid_of_text), type_oid)
    raise unsupported(f"a cast from text to the type with OID {type_oid}")


_SPACES_AROUND: Final = r"^\s+|(?<!\s)\s+$"  # Java looks for the end of each run once
_INTEGER_PATTERN: Final = r"^\s*[+-]?[0-9]+\s*$"
# PostgreSQL also accepts other bases and underscores, which Spark does not. For an error behind many digits, it may
# report "out of range".
_OTHER_INTEGER_PATTERN: Final = r"^\s*[+-]?((0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*)\s*$|[0-9]{5})"
_BOUNDS: Final = {INT2: 2**15, INT4: 2**31, INT8: 2**63}


def _parsed_integer(sql: Expression, type_oid: int) -> Expression:
    name = _INTEGER_NAMES[type_oid]
    target = spark_type(type_oid)
    trimmed = call("regexp_replace", sql, string(_SPACES_AROUND), string(""))
    parsed = try_cast(trimmed, target)
    return case(
        (
            call("rlike", sql, string(_INTEGER_PATTERN)),
            case(
                (is_not_null(parsed), parsed),
                default=raise_error_about("22003", 'value "', sql, f'" is out of range for type {name}'),
            ),
        ),
        (
            call("rlike", sql, string(_OTHER_INTEGER_PATTERN)),
            raise_error("0A000", "an integer in this form is not supported on lake tables"),
        ),
        (is_not_null(sql), raise_error_about("22P02", f'invalid input syntax for type {name}: "', sql, '"')),
    )


def _parsed_numeric(sql: Expression) -> Expression:
    """Parse texts that are a numeric's canonical text already; every other spelling is refused."""
    return case(
        (call("rlike", sql, string(r"^(?!-0+(\.0*)?$)-?(0|[1-9][0-9]*)(\.[0-9]+)?$")), sql),
        (
            is_not_null(sql),
            raise_error_about("0A000", 'the numeric "', sql, '" in this form is not supported on lake tables'),
        ),
    )


def _parsed_date(sql: Expression) -> Expression:
    # PostgreSQL has its own error for a day that does not exist; it has no year 0, and accepts other spellings.
    parsed = try_cast(sql, "DATE")
    return case(
        (and_(call("rlike", sql, string("^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}$")), is_not_null(parsed)), parsed),
        (
            is_not_null(sql),
            raise_error_about("0A000", 'the date "', sql, '" in this form is not supported on lake tables'),
        ),
    )


def _parsed_boolean(sql: Expression) -> Expression:
    """Parse as boolin: the unique prefixes of true, false, yes, no, on, off, and 0 and 1, in any case, blanks
    around."""
    word = call("lower", call("regexp_replace", sql, string(_SPACES_AROUND), string("")))
    return case(
        (call("rlike", word, string("^(t|tr|tru|true|y|ye|yes|on|1)$")), raw("TRUE")),
        (call("rlike", word, string("^(f|fa|fal|fals|false|n|no|of|off|0)$")), raw("FALSE")),
        (is_not_null(sql), raise_error_about("22P02", 'invalid input syntax for type boolean: "', sql, '"')),
    )


# --- numbers ---


def _to_integer(given: Call) -> Value:
    (value,) = given.arguments
    target = given.result_type
    if target not in _INTEGER_NAMES:  # an oid, which is a coerced integer
        raise unsupported(f"{given.signature} as the type with OID {target}")
    name = _INTEGER_NAMES[target]
    spark = spark_type(target)
    out_of_range = raise_error("22003", f"{name} out of range")
    if value.type_oid in INTEGERS:
        if _size(value.type_oid) <= _size(target):
            return Value(cast(value.sql, spark), target)
        bound = _BOUNDS[target]
        return Value(
            on(
                value.sql,
                lambda sql: case(
                    (
                        and_(binary(">=", sql, raw(f"({-bound})")), binary("<", sql, raw(f"{bound}L"))),
                        cast(sql, spark),
                    ),
                    (is_not_null(sql), out_of_range),
                ),
            ),
            target,
        )
    if value.type_oid == NUMERIC:
        nearest = numerics.rounded(value, 0, "round")
        low, high = raw(f"({-_BOUNDS[target]}BD)"), raw(f"{_BOUNDS[target]}BD")
        return Value(
            on(
                nearest.sql,
                lambda sql: case(
                    (and_(binary(">=", sql, low), binary("<", sql, high)), cast(sql, spark)),
                    (is_not_null(sql), out_of_range),
                ),
            ),
            target,
        )
    low, high = raw(f"({-float(_BOUNDS[target])}D)"), raw(f"{float(_BOUNDS[target])}D")
    if target == INT8:
        low, high = raw("(-9223372036854775808D)"), raw("9223372036854775808D")
    return Value(
        on(
            call("rint", cast(value.sql, "DOUBLE")),
            lambda sql: case(
                (and_(binary(">=", sql, low), binary("<", sql, high)), cast(sql, spark)),
                (is_not_null(sql), out_of_range),
            ),
        ),
        target,
    )


def _size(type_oid: int) -> int:
    return (INT2, INT4, INT8).index(type_oid)


def _numeric_of_float(given: Call) -> Value:
    (value,) = given.arguments
    return numerics.from_float(cast(value.sql, "DOUBLE"), 15 if value.type_oid == FLOAT8 else 6)


def _to_numeric(given: Call) -> Value:
    return numerics.from_integer(given.arguments[0])


def _to_float(given: Call) -> Value:
    (value,) = given.arguments
    target = spark_type(given.result_type)
    if value.type_oid == NUMERIC:
        value = numerics.computable(value)
        return given.result(cast(value.sql, target))
    if value.type_oid == FLOAT8 and given.result_type == FLOAT4:
        return given.result(on(value.sql, _narrow_float))
    return given.result(cast(value.sql, target))


def _narrow_float(sql: Expression) -> Expression:
    narrow = cast(sql, "FLOAT")
    infinite = binary("=", call("abs", narrow), raw("CAST('Infinity' AS FLOAT)"))
    was_finite = binary("<", call("abs", sql), raw("CAST('Infinity' AS DOUBLE)"))
    zero = binary("=", narrow, raw("CAST(0 AS FLOAT)"))
    was_not = binary("<>", sql, raw("0D"))
    return case(
        (and_(infinite, was_finite), raise_error("22003", "value out of range: overflow")),
        (and_(zero, was_not), raise_error("22003", "value out of range: underflow")),
        default=narrow,
    )


# --- length coercions ---


def _numeric_length(given: Call) -> Value:
    typmod = given.constant(1, "a length")
    assert isinstance(typmod, int)
    return numerics.with_typmod(given.arguments[0], typmod)


def varchar_length(value: Value, typmod: int, explicit: bool) -> Value:
    """varchar(n): cut surplus blanks. An assignment fails if it would cut more than blanks; a cast cuts that too."""
    limit = typmod - 4
    if limit < 1:
        return value
    if isinstance(value.constant, str):
        return literal(_cut(value.constant, limit, explicit, "character varying"), value.type_oid, typmod)
    if explicit:
        return Value(call("left", value.sql, integer(limit)), value.type_oid, typmod)
    return Value(on(value.sql, lambda sql: _limited(sql, limit, "character varying")), value.type_oid, typmod)


def _cut(text: str, limit: int, explicit: bool, name: str) -> str:
    """Return the constant at its length; raise 22001 as PostgreSQL would when it runs."""
    if not explicit and len(text[limit:].rstrip(" ")) > 0:
        raise SluiceError("22001", f"value too long for type {name}({limit})")
    return text[:limit]


def _limited(sql: Expression, limit: int, name: str) -> Expression:
    # Only blanks may be cut off: counted from the end, blanks that lie inside the limit do not matter.
    too_long = binary(">", call("length", call("rtrim", sql)), integer(limit))
    return case(
        (binary("<=", call("length", sql), integer(limit)), sql),
        (too_long, raise_error("22001", f"value too long for type {name}({limit})")),
        default=call("left", sql, integer(limit)),
    )


def bpchar_length(value: Value, typmod: int, explicit: bool) -> Value:
    """char(n): pad with blanks; longer values as with varchar(n)."""
    limit = typmod - 4
    length = integer(limit)
    if limit < 1:
        return value
    if isinstance(value.constant, str):
        return literal(_cut(value.constant, limit, explicit, "character").ljust(limit), BPCHAR, typmod)
    if not explicit:
        limited = on(value.sql, lambda sql: call("rpad", _limited(sql, limit, "character"), length, string(" ")))
        return Value(limited, BPCHAR, typmod)
    return Value(call("rpad", value.sql, length, string(" ")), BPCHAR, typmod)


def _varchar_row(given: Call) -> Value:
    typmod, explicit = given.constant(1, "a length"), given.constant(2, "a flag")
    assert isinstance(typmod, int)
    return varchar_length(given.arguments[0], typmod, bool(explicit))


def _bpchar_row(given: Call) -> Value:
    typmod, explicit = given.constant(1, "a length"), given.constant(2, "a flag")
    assert isinstance(typmod, int)
    return bpchar_length(given.arguments[0], typmod, bool(explicit))


def _text_of_bpchar(given: Call) -> Value:
    return given.result(call("rtrim", given.sql[0]))


def _text_of_boolean(given: Call) -> Value:
    return given.result(cast(given.sql[0], "STRING"))


def _boolean_of_integer(given: Call) -> Value:
    return given.result(binary("<>", given.sql[0], raw("0")))


def _integer_of_boolean(given: Call) -> Value:
    return given.result(cast(given.sql[0], "INT"))


# --- dates and times ---


def _timestamp_of_date(given: Call) -> Value:
    return given.result(on_value(given.arguments[0], midnight))


def on_value(value: Value, body: Callable[[Value], Expression]) -> Expression:
    """Do as `on`, with a value."""
    if is_simple(value.sql) or value.is_constant:
        return body(value)
    return let("v", value.sql, body(replace(value, sql=variable("v"), constant=MISSING)))


def _date_of_timestamp(given: Call) -> Value:
    def build(value: Value) -> Expression:
        return case(
            *((is_infinity(value, positive), literal(Infinite(positive), DATE).sql) for positive in (True, False)),
            default=cast(value.sql, "DATE"),
        )

    return given.result(on_value(given.arguments[0], build))


def _time_of_timestamp(given: Call) -> Value:
    def build(value: Value) -> Expression:
        infinite = or_(*(is_infinity(value, positive) for positive in (True, False)))
        return case((infinite, cast(raw("NULL"), "TIME(6)")), default=cast(value.sql, "TIME(6)"))

    return given.result(on_value(given.arguments[0], build))


_NUMBER_COLUMNS: Final = {"int2": "s", "int4": "i", "int8": "b"}


def _rows() -> list[Row]:
    rows = []
    for target, symbol in (("int2", "int2"), ("int4", "int4"), ("int8", "int8")):
        for source in ("int2", "int4", "int8"):
            if source == target:
                continue
            column = _NUMBER_COLUMNS[source]
            rows.append(
                row(f"{target}({source})", _to_integer, f"SELECT id, {column}::{symbol} FROM integers WHERE id < 3",
                    f"SELECT {column}::{symbol} FROM integers WHERE id = 3")
            )  # fmt: skip
        rows += [
            row(f"{target}(numeric)", _to_integer, f"SELECT id, n::{symbol} FROM decimals WHERE abs(n) < 30000",
                f"SELECT 99999999999999999999::numeric::{symbol} FROM decimals WHERE id = 1",
                f"SELECT id, (n + 0.5)::{symbol} FROM decimals WHERE abs(n) < 30000"),
            row(f"{target}(float8)", _to_integer, f"SELECT id, d::{symbol} FROM floats WHERE abs(d) < 30000",
                f"SELECT d::{symbol} FROM floats WHERE d = 'NaN'",
                f"SELECT (d * 1e10)::{symbol} FROM floats WHERE d = 1e10"),
            row(f"{target}(float4)", _to_integer, f"SELECT id, r::{symbol} FROM floats WHERE abs(r) < 30000"),
        ]  # fmt: skip
        column = _NUMBER_COLUMNS[target]
        rows += [
            row(f"numeric({target})", _to_numeric, f"SELECT id, {column}::numeric FROM integers",
                f"SELECT id, {column} * 1.50 FROM integers"),
            row(f"float8({target})", _to_float, f"SELECT id, {column}::float8 + 0.5::float8 FROM integers"),
            row(f"float4({target})", _to_float, f"SELECT id, {column}::float4 FROM integers WHERE id < 3"),
        ]  # fmt: skip
    return rows


ROWS: Final[tuple[Row, ...]] = (
    *_rows(),
    row("float8(float4)", _to_float, "SELECT id, r::float8 FROM floats"),
    row("float4(float8)", _to_float, "SELECT id, d::float4 FROM floats WHERE abs(d) < 1e30 AND abs(d) > 1e-30"),
    row("numeric(float8)", _numeric_of_float,
        "SELECT id, d::numeric FROM floats WHERE abs(d) BETWEEN 1e-5 AND 1e15",
        "SELECT id, round(d::numeric, 2), round((d / 3)::numeric, 4) FROM floats WHERE abs(d) BETWEEN 1e-3 AND 1e11",
        "SELECT d::numeric FROM floats WHERE d = 0", "SELECT d::numeric FROM floats WHERE d = 'NaN'",
        "SELECT (id / 7.0::float8)::numeric, (id * 1234567.891::float8)::numeric FROM floats"),
    row("numeric(float4)", _numeric_of_float,
        "SELECT id, r::numeric FROM floats WHERE abs(r) BETWEEN 1e-5 AND 1e11",
        "SELECT id, (id / 7.0::float4)::numeric FROM floats"),
    row("float4(numeric)", _to_float, "SELECT id, n::float4, m::float4, 0.1::float4 FROM decimals",
        "SELECT id, r = 0.1::float4 FROM floats"),
    row("float8(numeric)", _to_float, "SELECT id, n::float8 FROM decimals", "SELECT id, m::float8 FROM decimals"),
    row("numeric(numeric,int4)", _numeric_length, "SELECT id, n::numeric(10,1) FROM decimals WHERE abs(n) < 1e8",
        "SELECT id, n::numeric(3,2) FROM decimals WHERE abs(n) < 5", "SELECT n::numeric(3,2) FROM decimals",
        "SELECT id, f::numeric(20,3) FROM decimals WHERE abs(f) < 1e10"),
    row("varchar(varchar,int4,bool)", _varchar_row, "SELECT id, v::varchar(3), t::varchar(2) FROM texts"),
    row("bpchar(bpchar,int4,bool)", _bpchar_row, "SELECT id, c::char(2), t::char(7), 'a'::char(3) || 'x' FROM texts"),
    row("text(bpchar)", _text_of_bpchar, "SELECT id, c::text || 'x' FROM texts"),
    row("text(bool)", _text_of_boolean, "SELECT id, x::text FROM booleans"),
    row("bool(int4)", _boolean_of_integer, "SELECT id, i::bool FROM integers"),
    row("int4(bool)", _integer_of_boolean, "SELECT id, x::int FROM booleans"),
    row("timestamp(date)", _timestamp_of_date, "SELECT id, d::timestamp FROM dates"),
    row("date(timestamp)", _date_of_timestamp, "SELECT id, ts::date FROM dates"),
    row("time(timestamp)", _time_of_timestamp, "SELECT id, ts::time FROM dates"),
)  # fmt: skip
