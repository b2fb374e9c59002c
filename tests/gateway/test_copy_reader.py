"""COPY FROM in text and csv: the same bytes give the same rows, or the same error, as in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from catalog.embedded import EmbeddedPostgres
from catalog.errors import SluiceError
from gateway.copy import CopyOptions, TextReader

NAMES = ("a", "b")
Rows = list[tuple[str | None, ...]]


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.dsn, autocommit=True, prepare_threshold=None) as opened:
        opened.execute("CREATE TEMP TABLE one (n serial, a text)")
        opened.execute("CREATE TEMP TABLE two (n serial, a text, b text)")
        yield opened


def spelled(options: dict[str, Any]) -> str:
    parts = []
    for name, value in options.items():
        if isinstance(value, list):
            parts.append(f"{name} ({', '.join(value)})")
        elif value == "*" or isinstance(value, bool):
            parts.append(f"{name} {value}")
        else:
            escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
            parts.append(f"{name} E'{escaped}'")
    return f"WITH ({', '.join(parts)})" if parts else ""


def postgres_reads(connection: psycopg.Connection, width: int, options: dict[str, Any], data: bytes) -> Rows | str:
    table, columns = ("one", "a") if width == 1 else ("two", "a, b")
    connection.execute(f"TRUNCATE {table}".encode())
    try:
        with connection.cursor().copy(f"COPY {table} ({columns}) FROM STDIN {spelled(options)}".encode()) as copy:
            copy.write(data)
    except psycopg.Error as error:
        return f"{error.sqlstate} {error.diag.message_primary} | {error.diag.message_hint}"
    return list(connection.execute(f"SELECT {columns} FROM {table} ORDER BY n".encode()))


def sluice_reads(width: int, options: dict[str, Any], data: bytes, cut: int, batch_bytes: int) -> Rows | str:
    rows: Rows = []
    try:
        parsed = CopyOptions.parse(options, NAMES[:width], is_from=True)
        reader = TextReader(parsed, NAMES[:width], "two", batch_bytes, range(width))
        for start in range(0, len(data), cut):
            for batch in reader.feed(data[start : start + cut]):
                rows += zip(*(column.to_pylist() for column in batch.fields.columns), strict=True)
        for batch in reader.finish():
            batch.fields.validate(full=True)
            rows += zip(*(column.to_pylist() for column in batch.fields.columns), strict=True)
    except SluiceError as error:
        return f"{error.sqlstate} {error.message} | {error.fields.get('H')}"
    return rows


OPTIONS: list[dict[str, Any]] = [
    {},
    {"delimiter": "|", "null": ""},
    {"delimiter": ",", "null": "\\N", "header": True},
    {"default": "\\D"},
    {"format": "csv"},
    {"format": "csv", "header": "match"},
    {"format": "csv", "header": True, "null": "N", "delimiter": ";"},
    {"format": "csv", "quote": "'", "escape": "\\"},
    {"format": "csv", "force_not_null": ["a"], "force_null": ["a", "b"]},
    {"format": "csv", "force_null": "*", "null": "N"},
    {"format": "csv", "force_not_null": "*", "escape": "\\"},
]
TEXT_PIECES = [
    "a", "b", ",", "|", "\t", "\n", "\r", "\r\n", "\\", "\\N", "\\.", "\\.\n", "\\x4", "\\101", "\\n", "1", "é", "\\\\",
    "a\tb\n", "a|b\n", "a,b\n", "\\t", "\\xe9", "\\0", "\\D",
]  # fmt: skip
CSV_PIECES = [
    "a", "b", ",", ";", '"', '""', "'", "\\", "\n", "\r\n", "\r", "N", "a,b\n", '"a","b"\n', "a;b\n", "\\.", '"x\ny"',
    "é", "\\'", '\\"', "a\n",
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OPTIONS)))
@pytest.mark.parametrize("width", [1, 2])
def test_same_rows_or_same_error(connection: psycopg.Connection, number: int, width: int) -> None:
    options = OPTIONS[number]
    if width == 1:
        options = {
            name: [c for c in value if c == "a"] if isinstance(value, list) else value
            for name, value in options.items()
        }
    csv = options.get("format") == "csv"

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(st.sampled_from(CSV_PIECES if csv else TEXT_PIECES), max_size=14).map("".join),
        st.integers(1, 8),
        st.integers(1, 12),
    )
    @example('"' * 7 + "\n" + '""\n', 3, 4)
    @example("a\n\\.\nrest", 1, 1)
    @example("\n", 1, 1)
    @example("\r\\.", 1, 1)
    @example("\t\\xe9a|b\n\\xe9\t", 1, 1)
    @example("\t\\D\t", 1, 1)
    @example("|\\", 1, 1)
    @example("", 1, 1)
    def check(text: str, cut: int, batch_bytes: int) -> None:
        data = text.encode()
        expected = postgres_reads(connection, width, options, data)
        assert sluice_reads(width, options, data, cut, batch_bytes) == expected
        assert sluice_reads(width, options, data, 1000, 1 << 20) == expected

    check()
