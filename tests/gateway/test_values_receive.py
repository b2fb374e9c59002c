"""PostgreSQL's binary values to lake form."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.datatypes import BY_ARRAY_OID, BY_OID
from catalog.postgres.embedded import EmbeddedPostgres
from gateway.values import convert_binary
from gateway.values.forms import arrow_form
from tests.gateway.reference import SAMPLES, array_query, arrow_column, arrow_type, values_query

TYPES = sorted(SAMPLES)


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.dsn, autocommit=True, prepare_threshold=None) as opened:
        yield opened


def same_values(left: pa.Array, right: pa.Array) -> bool:
    """Bit by bit, so that NaN is NaN, and 24:00:00 and infinity can be compared."""
    return contents(left) == contents(right)


def contents(array: pa.Array) -> list[str]:
    if pa.types.is_list(array.type):
        return [
            array.is_null().to_pylist().__repr__(),
            repr(array.value_lengths().to_pylist()),
            *contents(array.flatten()),
        ]
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return [repr(array.to_pylist())]


def binaries(connection: psycopg.Connection, query: str) -> tuple[int, int, list[bytes | None]]:
    with connection.cursor(binary=True) as cursor:
        cursor.execute(query.encode())
        result = cursor.pgresult
        assert result is not None
        return result.ftype(0), result.fmod(0), [result.get_value(row, 0) for row in range(result.ntuples)]


@pytest.mark.parametrize("query", [values_query, array_query], ids=["scalars", "arrays"])
@pytest.mark.parametrize("type_name", TYPES)
def test_what_postgres_sends_is_taken(
    connection: psycopg.Connection, query: Callable[[str], str], type_name: str
) -> None:
    type_oid, typmod, values = binaries(connection, query(type_name))
    expected = arrow_column(type_oid, typmod, values)
    column = pa.array(values, pa.binary())
    for start, length in ((0, len(values)), (5, 17), (0, 0)):
        made = convert_binary(column.slice(start, length), type_oid, typmod, from_postgres=True)
        assert made.refused is None
        made.array.validate(full=type_name != "time")  # Arrow has no 24:00:00
        assert made.array.type == expected.type
        assert same_values(made.array, expected.slice(start, length))


@pytest.mark.parametrize("type_name", TYPES)
def test_what_a_client_sends_is_the_same_or_refused(connection: psycopg.Connection, type_name: str) -> None:
    type_oid, typmod, values = binaries(connection, values_query(type_name))
    expected = arrow_column(type_oid, typmod, values)
    made = convert_binary(pa.array(values, pa.binary()), type_oid, typmod)
    refused = [False] * len(values) if made.refused is None else made.refused.to_pylist()
    assert not any(no and value is None for no, value in zip(refused, values, strict=True))
    taken = pa.array([not no for no in refused])
    assert same_values(made.array.filter(taken), expected.filter(taken))
    assert made.array.filter(pc.invert(taken)).null_count == sum(refused)
    if not type_name.startswith("json"):
        assert sum(refused) <= 3


def int4_array(count: int, rest: bytes) -> bytes:
    return struct.pack("!iiiii", 1, 0, 23, count, 1) + rest


def one_element(element_oid: int, value: bytes) -> bytes:
    return struct.pack("!iiIiii", 1, 1, element_oid, 1, 1, len(value)) + value


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([*BY_OID, *BY_ARRAY_OID]),
    st.sampled_from([-1, 4, 6, 9, ((15 << 16) | 2) + 4]),
    st.lists(
        st.none()
        | st.binary(max_size=24)
        | st.builds(
            lambda n, b: struct.pack("!iii", 1, 0, 23) + struct.pack("!ii", n, 1) + b,
            st.integers(-1, 4),
            st.binary(max_size=24),
        )
    ),
    st.booleans(),
)
def test_arbitrary_bytes_are_refused_or_taken(
    type_oid: int, typmod: int, values: list[bytes | None], wrap: bool
) -> None:
    if wrap:  # an array of the very type
        element = BY_ARRAY_OID[type_oid].oid if type_oid in BY_ARRAY_OID else 23
        values = [
            None if v is None else struct.pack("!iiIii", 1, 1, element, 1, 1) + struct.pack("!i", len(v)) + v
            for v in values
        ]
    made = convert_binary(pa.array(values, pa.binary()), type_oid, typmod)
    made.array.validate()
    assert len(made.array) == len(values)
    refused = [False] * len(values) if made.refused is None else made.refused.to_pylist()
    for value, found, no in zip(values, made.array.is_null().to_pylist(), refused, strict=True):
        assert found == (value is None or no)


def test_arrow_forms_are_those_of_the_reference() -> None:
    for type_oid in (*BY_OID, *BY_ARRAY_OID):
        for typmod in (-1, ((15 << 16) | 2) + 4, ((50 << 16) | 2) + 4):
            assert arrow_form(type_oid, typmod) == arrow_type(type_oid, typmod)


def test_a_typmod_is_applied(connection: psycopg.Connection) -> None:
    """What a client's COPY BINARY gives to a narrower column, PostgreSQL coerces, and so must we or refuse."""
    cases = [
        ("numeric", "numeric(6,2)", ["1.005", "-1.005", "9999.994", "9999.995", "0.001", "1e3"]),
        ("timestamp", "timestamp(1)", ["2001-01-01 00:00:00.05", "1999-12-31 23:59:59.95", "1999-01-01 00:00:00.14"]),
        ("time", "time(3)", ["00:00:00.0005", "23:59:59.9995"]),
        ("text", "varchar(3)", ["abc", "äöü", "abcd", "abc  ", ""]),
        ("text", "char(3)", ["abc", "äöü", "abcd", "abc  ", "", "ä"]),
    ]
    for source, target, literals in cases:
        for literal in literals:
            _, _, sent = binaries(connection, f"SELECT '{literal}'::{source}")
            with connection.cursor(binary=True) as cursor:
                cursor.execute(f"SELECT NULL::{target}".encode())
                assert cursor.pgresult is not None
                type_oid, typmod = cursor.pgresult.ftype(0), cursor.pgresult.fmod(0)
                try:
                    connection.execute(f"CREATE TEMP TABLE narrow (v {target})".encode())
                    with connection.cursor().copy("COPY narrow FROM STDIN (FORMAT binary)") as copy:
                        assert sent[0] is not None
                        row = struct.pack("!hi", 1, len(sent[0])) + sent[0]
                        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + row + b"\xff\xff")
                    _, _, stored = binaries(connection, "SELECT v FROM narrow")
                except psycopg.Error:
                    stored = None
                connection.execute("DROP TABLE narrow")
            made = convert_binary(pa.array(sent, pa.binary()), type_oid, typmod)
            if made.refused is not None:
                continue
            assert stored is not None, (target, literal)
            assert made.array.equals(arrow_column(type_oid, typmod, stored)), (target, literal)
