"""Results in text and binary: byte for byte PostgreSQL's for the same values."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pyarrow as pa
import pytest

from catalog.datatypes import BY_ARRAY_OID, BY_OID
from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from gateway.values import Format, OutputSettings, ResultColumn, encode_rows
from gateway.wire.framing import BACKEND_LIMITS, FrameReader
from gateway.wire.messages.backend import DataRow
from tests.gateway.reference import SAMPLES, array_query, arrow_column, values_query

TYPES = sorted(SAMPLES)
DEFAULTS = OutputSettings()
DATED = ("date", "time", "timestamp", "timestamptz")


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.dsn, autocommit=True, prepare_threshold=None) as opened:
        yield opened


def fetch(connection: psycopg.Connection, query: str) -> tuple[int, int, list[bytes | None], list[bytes | None]]:
    """(type OID, typmod, texts, binaries) of a query's one column, as they come over the wire."""
    found = []
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            cursor.execute(query.encode())
            result = cursor.pgresult
            assert result is not None
            found.append([result.get_value(row, 0) for row in range(result.ntuples)])
            kind = result.ftype(0), result.fmod(0)
    texts, binaries = found
    return (*kind, texts, binaries)


def decode(frames: bytes) -> list[bytes | None]:
    reader = FrameReader(BACKEND_LIMITS, "backend")
    reader.feed(frames)
    rows = [DataRow.decode(frame.body) for frame in reader.frames()]
    assert reader.buffered == 0
    return [row.values[0] for row in rows]


def check(connection: psycopg.Connection, query: str, settings: OutputSettings = DEFAULTS) -> None:
    type_oid, typmod, texts, binaries = fetch(connection, query)
    column = arrow_column(type_oid, typmod, binaries)
    batch = pa.record_batch([column], ["v"])
    for code, expected in ((Format.TEXT, texts), (Format.BINARY, binaries)):
        got = decode(encode_rows(batch, [ResultColumn(type_oid, typmod, code)], settings))
        wrong = [pair for pair in zip(expected, got, strict=True) if pair[0] != pair[1]]
        assert not wrong
    sliced = decode(encode_rows(batch.slice(3, 40), [ResultColumn(type_oid, typmod)], settings))
    assert sliced == texts[3:43]


@pytest.mark.parametrize("type_name", TYPES)
def test_scalars_are_what_postgres_sends(connection: psycopg.Connection, type_name: str) -> None:
    check(connection, values_query(type_name))


@pytest.mark.parametrize("type_name", TYPES)
def test_arrays_are_what_postgres_sends(connection: psycopg.Connection, type_name: str) -> None:
    check(connection, array_query(type_name))


def test_every_type_has_samples(connection: psycopg.Connection) -> None:
    seen = {fetch(connection, values_query(name, 1))[0] for name in TYPES}
    assert seen == set(BY_OID)
    seen = {fetch(connection, array_query(name))[0] for name in TYPES}
    assert seen == set(BY_ARRAY_OID)


@pytest.mark.parametrize("style", ["ISO", "SQL", "Postgres", "German"])
@pytest.mark.parametrize("order", ["MDY", "DMY", "YMD"])
@pytest.mark.parametrize("type_name", DATED)
def test_date_styles(connection: psycopg.Connection, style: str, order: str, type_name: str) -> None:
    connection.execute(f"SET DateStyle = '{style}, {order}'")
    connection.execute("SET TimeZone = 'America/Sao_Paulo'")
    try:
        check(connection, values_query(type_name), OutputSettings("America/Sao_Paulo", f"{style}, {order}"))
    finally:
        connection.execute("RESET ALL")


ZONES = [
    "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca", "Europe/Dublin",
    "Asia/Kathmandu", "Pacific/Apia", "America/St_Johns", "europe/london", "EST5EDT", "<-07>+07", "<+08:30>-08:30",
    "Antarctica/Troll", "Asia/Tehran", "Africa/Monrovia",
]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("style", ["ISO", "Postgres"])
def test_time_zones(connection: psycopg.Connection, zone: str, style: str) -> None:
    connection.execute(f"SET TimeZone = '{zone}'")
    connection.execute(f"SET DateStyle = '{style}'")
    try:
        dense = (
            "SELECT timestamptz '1880-01-01 UTC' + i * interval '253 hours 7 min' FROM generate_series(1, 8000) AS i"
        )
        check(
            connection, f"{values_query('timestamptz', 1000)} UNION ALL {dense}", OutputSettings(zone, f"{style}, MDY")
        )
    finally:
        connection.execute("RESET ALL")


def test_bytea_output_escape(connection: psycopg.Connection) -> None:
    connection.execute("SET bytea_output = 'escape'")
    try:
        check(connection, values_query("bytea"), OutputSettings(bytea_output="escape"))
        check(connection, array_query("bytea"), OutputSettings(bytea_output="escape"))
    finally:
        connection.execute("RESET ALL")


@pytest.mark.parametrize("style", ["postgres", "sql_standard", "postgres_verbose", "iso_8601"])
def test_interval_styles(connection: psycopg.Connection, style: str) -> None:
    """Every combination of signs of the parts, and numbers at which a unit's form changes."""
    parts = (
        "SELECT make_interval(months => m, days => d, secs => s) FROM "
        "unnest('{0,1,-1,5,12,-12,13,-25,2400}'::int[]) m, unnest('{0,1,-1,3,-30,1000000}'::int[]) d, "
        "unnest('{0,1,-1,0.5,-0.000001,1.000001,-1.5,60,-60,61.1,3600,-3600,3661,-86400,359999,-3723.45}'::float8[]) s"
    )
    extremes = (
        "SELECT unnest('{infinity,-infinity,178000000 years,-9223372036854775808 us,9223372036854775807 us}'"
        "::interval[])"
    )
    connection.execute(f"SET IntervalStyle = '{style}'")
    try:
        check(connection, f"{parts} UNION ALL {extremes}", OutputSettings(interval_style=style))
        check(connection, values_query("interval"), OutputSettings(interval_style=style))
        check(connection, array_query("interval"), OutputSettings(interval_style=style))
    finally:
        connection.execute("RESET ALL")


@pytest.mark.parametrize("digits", [-15, -5, -1, 0, 1, 3])
@pytest.mark.parametrize("type_name", ["real", "double precision"])
def test_extra_float_digits(connection: psycopg.Connection, type_name: str, digits: int) -> None:
    signed = "i * CASE WHEN i % 2 = 0 THEN 1 ELSE -1 END"
    dense = f"SELECT (1.7 ^ (i - 60) * {signed})::{type_name} FROM generate_series(1, 150) AS i"
    halves = (
        f"SELECT unnest('{{0.5,1.5,2.5,1e15,123456.5,1234565,0.00001234,1e-5,9.9999999999999995,-0}}'::{type_name}[])"
    )
    connection.execute(f"SET extra_float_digits = {digits}")
    try:
        check(connection, f"{dense} UNION ALL {halves}", OutputSettings(extra_float_digits=digits))
        check(connection, values_query(type_name), OutputSettings(extra_float_digits=digits))
        check(connection, array_query(type_name), OutputSettings(extra_float_digits=digits))
    finally:
        connection.execute("RESET ALL")


def test_several_columns_with_nulls_and_slices(connection: psycopg.Connection) -> None:
    query = (
        "SELECT i, CASE WHEN i % 3 = 0 THEN NULL ELSE i::text END, (i * 1.25)::numeric(15,2), "
        "CASE WHEN i % 5 = 0 THEN ARRAY[i, NULL] END FROM generate_series(1, 40000) AS i"
    )
    with connection.cursor() as cursor:
        cursor.execute(query)
        result = cursor.pgresult
        assert result is not None
        expected = b"".join(
            DataRow(tuple(result.get_value(row, column) for column in range(4))).encode()
            for row in range(result.ntuples)
        )
        columns = [ResultColumn(result.ftype(column), result.fmod(column)) for column in range(4)]
    numbers = range(1, 40001)
    batch = pa.record_batch(
        {
            "a": pa.array(numbers, pa.int32()),
            "b": pa.array([None if i % 3 == 0 else str(i) for i in numbers]),
            "c": pa.array([i * 1.25 for i in numbers]).cast(pa.decimal128(15, 2), safe=False),
            "d": pa.array([[i, None] if i % 5 == 0 else None for i in numbers], pa.list_(pa.int32())),
        }
    )
    assert encode_rows(batch, columns, OutputSettings()) == expected


def test_other_arrow_forms_of_strings() -> None:
    plain = pa.array(["a", None, "longer than twelve bytes"])
    expected = encode_rows(pa.record_batch([plain], ["v"]), [ResultColumn(25)], OutputSettings())
    for form in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        batch = pa.record_batch([plain.cast(form)], ["v"])
        assert encode_rows(batch, [ResultColumn(25)], OutputSettings()) == expected


def test_no_columns_and_no_rows() -> None:
    assert encode_rows(pa.record_batch([pa.array([], pa.int32())], ["v"]), [ResultColumn(23)], OutputSettings()) == b""
    batch = pa.record_batch([pa.array([1, 2])], ["v"]).select([])
    assert encode_rows(batch, [], OutputSettings()) == DataRow(()).encode() * 2


@pytest.mark.parametrize(
    ("column", "settings"),
    [
        (ResultColumn(600), OutputSettings()),
        (ResultColumn(600, format=1), OutputSettings()),
        (ResultColumn(1186), OutputSettings(interval_style="roman")),
        (ResultColumn(1184), OutputSettings(timezone="CET-1CEST,M3.5.0,M10.5.0/3")),
        (ResultColumn(1082), OutputSettings(date_style="Lunar, MDY")),
    ],
)
def test_what_is_not_known_is_refused_by_name(column: ResultColumn, settings: OutputSettings) -> None:
    arrays = {
        1184: pa.array([0], pa.timestamp("us", "UTC")),
        1082: pa.array([0], pa.int32()).view(pa.date32()),
        1186: pa.array([{"months": 1, "days": 1, "microseconds": 1}]),
    }
    batch = pa.record_batch([arrays.get(column.type_oid, pa.array([1.5]))], ["v"])
    with pytest.raises(SluiceError) as raised:
        encode_rows(batch, [column], settings)
    assert raised.value.sqlstate == "0A000"
