"""COPY FROM in binary: the same bytes give the same fields, or the same error, as in PostgreSQL."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from gateway.copy_format import BinaryReader

Rows = list[tuple[bytes | None, ...]]
HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.dsn, autocommit=True, prepare_threshold=None) as opened:
        opened.execute("CREATE TEMP TABLE two (n serial, a bytea, b bytea)")
        yield opened


def encode(rows: Rows) -> bytes:
    def field(value: bytes | None) -> bytes:
        return struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value

    return b"".join(struct.pack("!h", len(row)) + b"".join(map(field, row)) for row in rows)


def postgres_reads(connection: psycopg.Connection, data: bytes) -> Rows | str:
    connection.execute("TRUNCATE two")
    try:
        with connection.cursor().copy("COPY two (a, b) FROM STDIN (FORMAT binary)") as copy:
            copy.write(data)
    except psycopg.Error as error:
        return f"{error.sqlstate} {error.diag.message_primary}"
    return list(connection.execute("SELECT a, b FROM two ORDER BY n"))


def sluice_reads(data: bytes, cut: int, batch_bytes: int) -> Rows | str:
    rows: Rows = []
    try:
        reader = BinaryReader(["a", "b"], "two", batch_bytes)
        for start in range(0, len(data), cut):
            for batch in reader.feed(data[start : start + cut]):
                rows += zip(*(column.to_pylist() for column in batch.fields.columns), strict=True)
        for batch in reader.finish():
            batch.fields.validate(full=True)
            rows += zip(*(column.to_pylist() for column in batch.fields.columns), strict=True)
    except SluiceError as error:
        return f"{error.sqlstate} {error.message}"
    return rows


VALUE = st.none() | st.binary(max_size=4)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(VALUE, VALUE), max_size=12), st.integers(1, 20), st.integers(1, 40))
@example([(b"abcd", b"ef")] * 300, 1000, 500)
@example([(b"abcd", b"ef")] * 100 + [(None, b"ef")] + [(b"abcd", b"ef")] * 100, 77, 500)
def test_rows(connection: psycopg.Connection, rows: Rows, cut: int, batch_bytes: int) -> None:
    data = HEADER + encode(rows) + b"\xff\xff"
    assert sluice_reads(data, cut, batch_bytes) == rows
    assert postgres_reads(connection, data) == rows


PIECES = [
    HEADER, HEADER[:11], HEADER[:15], HEADER[:17], b"PGCOPY\n\xff\r\n\1", HEADER[:15] + struct.pack("!i", 3) + b"xyz",
    HEADER[:11] + struct.pack("!Ii", 1 << 16, 0), HEADER[:11] + struct.pack("!Ii", 1 << 20, 0),
    HEADER[:11] + struct.pack("!Ii", 5, 0), HEADER[:15] + struct.pack("!i", -1), HEADER[:15] + struct.pack("!i", 9),
    encode([(b"a", None)]), encode([(b"a", b"b")] * 3), encode([(b"a",)]), encode([(b"a", b"b", b"c")]), b"\xff\xff",
    struct.pack("!hi", 2, -2), struct.pack("!hi", 2, 100), b"\0", b"\0\2", b"\0\2\0\0",
]  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.booleans(), st.lists(st.sampled_from(PIECES), max_size=5).map(b"".join), st.integers(1, 20), st.integers(1, 40)
)
def test_same_rows_or_same_error(
    connection: psycopg.Connection, header: bool, data: bytes, cut: int, batch_bytes: int
) -> None:
    data = HEADER * header + data
    expected = postgres_reads(connection, data)
    assert sluice_reads(data, cut, batch_bytes) == expected
