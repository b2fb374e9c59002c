"""COPY TO: the messages are PostgreSQL's, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from gateway.copy_format import CopyOptions, CopyWriter, line_messages
from gateway.values import OutputSettings, ResultColumn
from gateway.wire.framing import BACKEND_LIMITS, FrameReader
from gateway.wire.messages.copy import CopyData
from tests.gateway.reference import SAMPLES, array_query, arrow_column, values_query
from tests.gateway.test_copy_reader import spelled
from tests.gateway.test_values_receive import binaries

TYPES = sorted(SAMPLES)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"delimiter": "|", "null": ""},
    {"delimiter": "-", "header": True},
    {"delimiter": ":", "null": "NULL"},
    {"format": "csv"},
    {"format": "csv", "header": True, "force_quote": "*"},
    {"format": "csv", "quote": "'", "escape": "\\", "delimiter": ";", "null": "null"},
    {"format": "csv", "delimiter": " ", "null": "1", "force_quote": ["v"]},
    {"format": "binary"},
]


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.dsn, autocommit=True, prepare_threshold=None) as opened:
        yield opened


def postgres_writes(connection: psycopg.Connection, query: str, options: dict[str, Any]) -> list[bytes]:
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT {spelled(options)}".encode()) as copy:
        return [bytes(piece) for piece in copy]


def payloads(messages: bytes) -> list[bytes]:
    reader = FrameReader(BACKEND_LIMITS, "backend")
    reader.feed(messages)
    found = [CopyData.decode(frame.body).data for frame in reader.frames()]
    assert reader.buffered == 0
    return found


def check(connection: psycopg.Connection, query: str, names: list[str], options: dict[str, Any]) -> None:
    columns, kinds = [], []
    for name in names:
        type_oid, typmod, values = binaries(connection, f"SELECT {name} FROM ({query}) AS q")
        columns.append(arrow_column(type_oid, typmod, values))
        kinds.append(ResultColumn(type_oid, typmod))
    batch = pa.record_batch(columns, names)
    parsed = CopyOptions.read(options, names)
    expected = postgres_writes(connection, query, options)
    for size in (max(1, batch.num_rows), 7):
        writer = CopyWriter(parsed, kinds, names, OutputSettings())
        rows = b"".join(writer.rows(batch.slice(start, size)) for start in range(0, batch.num_rows, size))
        assert payloads(rows + writer.finish()) == expected


@pytest.mark.parametrize("number", range(len(OPTIONS)))
@pytest.mark.parametrize("type_name", TYPES)
def test_every_type(connection: psycopg.Connection, type_name: str, number: int) -> None:
    check(connection, values_query(type_name, 50), ["v"], OPTIONS[number])


@pytest.mark.parametrize("number", range(len(OPTIONS)))
@pytest.mark.parametrize("type_name", ["text", "integer", "timestamp"])
def test_arrays(connection: psycopg.Connection, type_name: str, number: int) -> None:
    check(connection, array_query(type_name), ["v"], OPTIONS[number])


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_several_columns(connection: psycopg.Connection, number: int) -> None:
    options = OPTIONS[number]
    query = (
        'SELECT i AS "a,b", CASE WHEN i % 3 > 0 THEN i::text || chr(9) END AS v, (i * 1.5)::numeric(9,2) AS "ü", '
        'i % 2 = 0 AS "qu\'ote|" FROM generate_series(1, 300) AS i'
    )
    names = ['"a,b"', "v", '"ü"', '"qu\'ote|"']
    columns, kinds = [], []
    for name in names:
        type_oid, typmod, values = binaries(connection, f"SELECT {name} FROM ({query}) AS q")
        columns.append(arrow_column(type_oid, typmod, values))
        kinds.append(ResultColumn(type_oid, typmod))
    plain = [name.strip('"') for name in names]
    writer = CopyWriter(CopyOptions.read(options, plain), kinds, plain, OutputSettings())
    messages = writer.rows(pa.record_batch(columns, plain)) + writer.finish()
    assert payloads(messages) == postgres_writes(connection, query, options)


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_no_rows(connection: psycopg.Connection, number: int) -> None:
    check(connection, "SELECT 1 AS v WHERE false", ["v"], OPTIONS[number])


def test_lines_are_the_messages_without_their_heads(connection: psycopg.Connection) -> None:
    query = "SELECT i::text || chr(9) AS v, nullif(i % 3, 0) AS w FROM generate_series(1, 20) AS i"
    for options in OPTIONS[:-1]:
        names, columns, kinds = ["v", "w"], [], []
        chosen = {name: ["v"] if value == "*" else value for name, value in options.items()}
        for name in names:
            type_oid, typmod, values = binaries(connection, f"SELECT {name} FROM ({query}) AS q")
            columns.append(arrow_column(type_oid, typmod, values))
            kinds.append(ResultColumn(type_oid, typmod))
        writer = CopyWriter(CopyOptions.read(chosen, names), kinds, names, OutputSettings())
        batch = pa.record_batch(columns, names)
        lines = pa.concat_arrays([writer.lines(batch), writer.lines(None)])
        assert lines.to_pylist() == payloads(line_messages(lines)) == postgres_writes(connection, query, chosen)


def test_convert_selectively_is_refused_by_name() -> None:
    with pytest.raises(SluiceError, match="not supported on lake tables") as found:
        CopyOptions.read({"convert_selectively": ["v"]}, ["v"])
    assert found.value.sqlstate == "0A000"
