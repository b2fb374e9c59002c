"""Texts to lake form: an accepted text gives PostgreSQL's value; a text that PostgreSQL refuses is never accepted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.postgres.embedded import EmbeddedPostgres
from gateway.values import convert_text
from tests.gateway.reference import SAMPLES, array_query, arrow_column, values_query
from tests.gateway.test_values_receive import binaries, same_values

TYPES = sorted(SAMPLES)
# How many of the samples of a type may be refused; of the others, only those that are not spelled canonically.
REFUSED = {
    "json": 403, "jsonb": 403, "date": 5, "timestamp": 6, "timestamptz": 4, "interval": 4, "time": 1,
    "bigint": 2, "numeric": 2,
}  # fmt: skip

# Spellings that are odd, wrong, or nearly right, for any type.
SPELLINGS = [
    "", " ", "0", "-0", "+1", "1 ", " 1", "1.", ".5", "-.5", "1e3", "1e400", "1e-400", "1E+2", "--1", "1-", "1.2.3",
    "0x1F", "1_000", "00012", "-00012.50", "999999999999999999", "9223372036854775807", "9223372036854775808",
    "32768", "-32768", "-32769", "2147483648", "NaN", "nan", "Infinity", "inf", "-infinity", "infinity", "t", "TRUE",
    "tru", "yes", "of", "off", "on", "2", "null", "NULL", "1.005", "1.004999999", "9999999999999.994",
    "9999999999999.995", "99999.5", "0.99995", "0.99994", "1.00000", "0.00004", "0.00005",
    "12345678901234567890123456789012345678", "0.000000000000000000000000000000000000001", "-0.00", "1e-3",
    "3.4028236e38", "1e39", "1e-46", "1e-310", "2020-01-01", "2020-02-30", "2020-2-1", "20200101", "2020-01-01 ",
    "0000-01-01", "0001-01-01", "10000-01-01", "2020-01-01 12:34:56", "2020-01-01T12:34:56.123456",
    "2020-01-01 12:34:56.1234567", "2020-01-01 24:00:00", "2020-01-01 12:34:60", "2020-01-01 12:34",
    "2020-01-01 12:34:56+02", "2020-01-01 12:34:56-0330", "2020-01-01 12:34:56-03:30", "2020-01-01 12:34:56 UTC",
    "2020-01-01 12:34:56Z", "2020-01-01 12:34:56+15:59:59", "2020-01-01 12:34:56+16", "2020-01-01+02",
    "2020-01-01 12:34:56.+02", "2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-10-27 02:00:00",
    "1890-01-01 00:00:00", "3024-07-01 00:00:00", "2020-01-01 12:34:56.5+05:30:15", "2020-01-01 12:34:56 BC",
    "12:34:56", "12:34", "24:00:00", "24:00:01", "23:59:59.9999999", "12:34:56.789+02", "12:34:56 PM", "1 day",
    "1 days", "-1 days", "1 year 2 mons", "1 mon 1 year", "3 days 04:05:06", "-04:05:06", "+04:05:06.5",
    "1 day -04:05:06", "100:00:00", "1 year 2 mons 3 days", "P1Y", "@ 1 day", "1 day ", "days",
    "1 years -2 mons +3 days", "1000000 years", "00000000-0000-0000-0000-00000000000a",
    "00000000-0000-0000-0000-00000000000A", "{00000000-0000-0000-0000-00000000000a}",
    "0000000000000000000000000000000a", "\\x", "\\xDEADbeef", "\\x1", "\\xzz", "\\x 01", "abc", "a\\\\b", "a\\101",
    "é", "ab\tc", '{"a": 1}', '{"b":1,"a":2}', "[1, 2]", '"x"', "true", "01", "-1", "1.0", "[1,]", '"\\u0000"',
    "1e1000", "abc   ", "abcdefgh", "äöüäöüä", "{}", "{1}", "{1,2}", "{1,NULL}", "{null,2}", "{1,}", "{,}", "{1, 2}",
    '{"1"}', "{{1}}", "[1:1]={1}", "{1", "1}", "{a b}", "{a,b}", "{t,f}", "{2020-01-01}", "{ }", '{""}', "{\\x01}",
    "{1}{2}", "{nUlL}",
]  # fmt: skip


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.dsn, autocommit=True, prepare_threshold=None) as opened:
        yield opened


def texts(connection: psycopg.Connection, query: str) -> list[str | None]:
    with connection.cursor() as cursor:
        cursor.execute(query.encode())
        result = cursor.pgresult
        assert result is not None
        found = [result.get_value(row, 0) for row in range(result.ntuples)]
        return [None if value is None else value.decode() for value in found]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("type_name", TYPES)
def test_what_postgres_writes_is_taken(connection: psycopg.Connection, type_name: str, zone: str) -> None:
    connection.execute(f"SET TimeZone = '{zone}'".encode())
    query = values_query(type_name)
    type_oid, typmod, values = binaries(connection, query)
    expected = arrow_column(type_oid, typmod, values)
    column = pa.array(texts(connection, query), pa.string())
    for start, length in ((0, len(values)), (3, 30), (0, 0)):
        made = convert_text(column.slice(start, length), type_oid, typmod, zone)
        check(made, expected.slice(start, length))
        if start == 0 and made.refused is not None:
            assert made.refused.true_count <= REFUSED.get(type_name, 0)


@pytest.mark.parametrize("type_name", TYPES)
def test_arrays_that_postgres_writes_are_taken_or_refused(connection: psycopg.Connection, type_name: str) -> None:
    connection.execute("SET TimeZone = 'UTC'")
    query = array_query(type_name)
    type_oid, typmod, values = binaries(connection, query)
    made = convert_text(pa.array(texts(connection, query), pa.string()), type_oid, typmod)
    check(made, arrow_column(type_oid, typmod, values))
    if type_name in {"integer", "boolean", "uuid"}:
        assert made.refused is None


def check(made: Any, expected: pa.Array) -> None:
    refused = [False] * len(expected) if made.refused is None else made.refused.to_pylist()
    assert not any(no and null for no, null in zip(refused, expected.is_null().to_pylist(), strict=True))
    taken = pa.array([not no for no in refused], pa.bool_())
    assert made.array.type == expected.type
    made.array.validate()
    assert same_values(made.array.filter(taken), expected.filter(taken))
    assert made.array.null_count == expected.filter(taken).null_count + sum(refused)


def postgres_reads(connection: psycopg.Connection, type_name: str, spellings: list[str]) -> list[bytes | None]:
    """Each spelling as a binary value of the type, by way of COPY as typmods are applied there; None for an error."""
    found: list[bytes | None] = []
    for text in spellings:
        try:
            with connection.transaction():
                connection.execute(f"CREATE TEMP TABLE spelled (v {type_name})".encode())
                with connection.cursor().copy("COPY spelled FROM STDIN (FORMAT csv, FORCE_NOT_NULL *)") as copy:
                    copy.write(b'"' + text.replace('"', '""').encode() + b'"\n')
                found.append(binaries(connection, "SELECT v FROM spelled")[2][0])
                connection.execute("DROP TABLE spelled")
        except psycopg.Error:
            found.append(None)
    return found


MORE_TYPES = [
    "integer[]", "text[]", "date[]", "numeric(4,2)[]", "numeric(50,2)", "numeric(3,-1)", "numeric(3,5)",
    "numeric(38,38)", "numeric(1,0)", "timestamp(2)", "timestamptz(0)", "time(3)", "interval(3)", "varchar", "char(1)",
]  # fmt: skip


@pytest.mark.parametrize("type_name", [*TYPES, *MORE_TYPES])
def test_odd_spellings(connection: psycopg.Connection, type_name: str) -> None:
    zone = "Europe/Berlin"
    connection.execute(f"SET TimeZone = '{zone}'".encode())
    with connection.cursor(binary=True) as cursor:
        cursor.execute(f"SELECT NULL::{type_name}".encode())
        assert cursor.pgresult is not None
        type_oid, typmod = cursor.pgresult.ftype(0), cursor.pgresult.fmod(0)
    compare(connection, type_name, type_oid, typmod, SPELLINGS)


def compare(connection: psycopg.Connection, type_name: str, type_oid: int, typmod: int, spellings: list[str]) -> None:
    made = convert_text(pa.array(spellings, pa.string()), type_oid, typmod, "Europe/Berlin")
    refused = [False] * len(spellings) if made.refused is None else made.refused.to_pylist()
    taken = [number for number, no in enumerate(refused) if not no]
    values = postgres_reads(connection, type_name, [spellings[number] for number in taken])
    assert [spellings[number] for number, value in zip(taken, values, strict=True) if value is None] == []
    for number, value in zip(taken, values, strict=True):
        expected = arrow_column(type_oid, typmod, [value])
        assert same_values(made.array.slice(number, 1), expected), spellings[number]


ALPHABETS = {
    "bigint": "0123456789-+ ._e",
    "double precision": "0159-+.eEinfNa",
    "numeric(6,3)": "0159-+.eE",
    "numeric": "0159-+.eNa",
    "date": "0123-9 ",
    "timestamptz": "0123:- +.ZT5",
    "interval": "019 dayshmonyer:+-.",
    "integer[]": '{}12,NUL "\\',
    "bytea": "\\x0fGa ",
    "boolean": "tfTFrueyesno01 ",
}


@pytest.mark.parametrize("type_name", ALPHABETS)
def test_fuzzed_spellings(connection: psycopg.Connection, type_name: str) -> None:
    connection.execute("SET TimeZone = 'Europe/Berlin'")
    with connection.cursor(binary=True) as cursor:
        cursor.execute(f"SELECT NULL::{type_name}".encode())
        assert cursor.pgresult is not None
        type_oid, typmod = cursor.pgresult.ftype(0), cursor.pgresult.fmod(0)

    # Near misses of good spellings, and soups of their letters.
    canonical = [text for text in SPELLINGS if text]
    mutated = st.builds(
        lambda text, place, letter: text[: place % len(text)] + letter + text[place % len(text) + 1 :],
        st.sampled_from(canonical),
        st.integers(0, 30),
        st.sampled_from([*ALPHABETS[type_name], ""]),
    )

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.text(ALPHABETS[type_name], max_size=12) | mutated, max_size=30))
    def check_all(spellings: list[str]) -> None:
        compare(connection, type_name, type_oid, typmod, spellings)

    check_all()
