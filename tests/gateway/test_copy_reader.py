"""COPY FROM in text and csv: the same bytes give the same rows, or the same error, as in PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from gateway.copy_format import CopyBatch, CopyOptions, TextReader

NAMES = ("a", "b")
Rows = list[tuple[str | None, ...]]


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.dsn, autocommit=True, prepare_threshold=None) as opened:
        opened.execute("CREATE TEMP TABLE one (n serial, a text)")
        opened.execute("CREATE TEMP TABLE two (n serial, a text, b text)")
        opened.execute("CREATE TEMP SEQUENCE row_numbers MINVALUE 0")
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
        copy_to(connection, f"{table} ({columns})", spelled(options), data)
    except psycopg.Error as error:
        return f"{error.sqlstate} {error.diag.message_primary} | {error.diag.message_hint}"
    return list(connection.execute(f"SELECT {columns} FROM {table} ORDER BY n".encode()))


def copy_to(connection: psycopg.Connection, target: str, options: str, data: bytes) -> None:
    with connection.cursor().copy(f"COPY {target} FROM STDIN {options}".encode()) as copy:
        copy.write(data)


def rows_of(batch: CopyBatch) -> Rows:
    return list(zip(*(column.to_pylist() for column in batch.fields.columns), strict=True))


def sluice_batches(
    width: int, options: dict[str, Any], data: bytes, cut: int, batch_bytes: int
) -> tuple[list[CopyBatch], str | None]:
    batches: list[CopyBatch] = []
    try:
        parsed = CopyOptions.read(options, NAMES[:width])
        reader = TextReader(parsed, NAMES[:width], "two", batch_bytes, range(width))
        for start in range(0, len(data), cut):
            batches.extend(reader.feed(data[start : start + cut]))
        batches.extend(reader.finish())
    except SluiceError as error:
        return batches, f"{error.sqlstate} {error.message} | {error.fields.get('H')}"
    return batches, None


def sluice_reads(width: int, options: dict[str, Any], data: bytes, cut: int, batch_bytes: int) -> Rows | str:
    batches, error = sluice_batches(width, options, data, cut, batch_bytes)
    for batch in batches:
        batch.fields.validate(full=True)
    return error or [row for batch in batches for row in rows_of(batch)]


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


def line_of(error: psycopg.Error) -> int:
    found = re.search(r"line (\d+)", error.diag.context or "")
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_rows_as_they_stand_in_the_data_are_read_again(connection: psycopg.Connection, number: int) -> None:
    options, names = OPTIONS[number], NAMES
    again = CopyOptions.read(options, names).of_rows(names)
    csv = options.get("format") == "csv"
    ending = '"a""b"' if csv and "quote" not in options else "x"
    delimiter = options.get("delimiter", "," if csv else "\t")

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(st.sampled_from(CSV_PIECES if csv else TEXT_PIECES), max_size=14).map("".join),
        st.sampled_from(["\n", "\r\n", "\r"]),
        st.integers(0, 5),
    )
    @example('"x\ny",b\n"\r",c\n', "\n", 1)
    @example('"x\r\ny",b\r\n"\n",c\r\n', "\r\n", 1)
    def check(text: str, line_end: str, last: int) -> None:
        header = delimiter.join(names) + line_end if options.get("header") else ""
        lines = [f"{ending}{delimiter}{ending}{line_end}"] * last
        data = f"{header}{text}{line_end}{''.join(lines)}".encode()
        for batch in sluice_batches(2, options, data, 7, 20)[0]:
            if batch.judged:
                continue
            rows = rows_of(batch)
            assert postgres_reads_again(connection, again, batch) == rows
            for place in {0, len(rows) - 1}:  # which of the lines it is that PostgreSQL complains of
                broken = batch.chosen(slice(place + 1))
                connection.execute("SELECT setval('row_numbers', 0, false)")
                fails = f"WHERE 1 / ({place} - nextval('row_numbers')) > -2"
                with pytest.raises(psycopg.Error) as failed:
                    copy_to(connection, "two (a, b)", f"({again}) {fails}", broken.source.data())
                assert broken.source.rows_at([line_of(failed.value)]).tolist() == [place]

    check()


def postgres_reads_again(connection: psycopg.Connection, options: str, batch: CopyBatch) -> Rows:
    connection.execute("TRUNCATE two")
    copy_to(connection, "two (a, b)", f"({options})", batch.source.data())
    return list(connection.execute("SELECT a, b FROM two ORDER BY n"))
