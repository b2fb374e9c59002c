"""Bounds as DuckDB writes them, compared with DuckDB's own."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.parquet.bounds import (
    DATE_INFINITY,
    TEXT_LENGTH_MAX,
    TIMESTAMP_INFINITY,
    bound_form,
    date_days,
    date_text,
    time_microseconds,
    time_text,
    timestamp_microseconds,
    timestamp_text,
    truncated,
)

_DUCK = duckdb.connect()
_DUCK.execute("SET timezone = 'UTC'")
_DAYS = st.integers(-2_400_000, 20_000_000)
_MICROSECONDS = st.integers(-(2**57), 2**60)


@given(_DAYS)
def test_dates_are_duckdbs(days: int) -> None:
    ((text,),) = _DUCK.execute("SELECT (DATE '1970-01-01' + ?::INTEGER)::DATE::VARCHAR", [days]).fetchall()
    assert date_text(days) == text
    assert date_days(text) == days


@given(_MICROSECONDS)
def test_timestamps_are_duckdbs(microseconds: int) -> None:
    ((text, zoned),) = _DUCK.execute(
        "SELECT make_timestamp($1)::VARCHAR, make_timestamp($1)::TIMESTAMPTZ::VARCHAR", [microseconds]
    ).fetchall()
    assert timestamp_text(microseconds) == text
    assert timestamp_microseconds(text) == microseconds
    assert timestamp_text(microseconds, "+00") == zoned
    assert timestamp_microseconds(zoned, "+00") == microseconds


@given(st.integers(0, 86_400_000_000))
def test_times_come_back(microseconds: int) -> None:
    assert time_microseconds(time_text(microseconds)) == microseconds


@pytest.mark.parametrize(
    ("ducklake", "key", "text"),
    [
        ("date", DATE_INFINITY, "infinity"),
        ("date", -DATE_INFINITY, "-infinity"),
        ("timestamp", TIMESTAMP_INFINITY, "infinity"),
        ("timestamptz", -TIMESTAMP_INFINITY, "-infinity"),
        ("time", 86_400_000_000, "24:00:00"),
        ("decimal(38,2)", Decimal("99999999999999999999999999999999999.99"), "99999999999999999999999999999999999.99"),
        ("float32", 1.100000023841858, "1.100000023841858"),
        ("float64", float("-inf"), "-inf"),
        ("blob", b"\xaa\x00b", "AA0062"),
        ("boolean", 1, "1"),
    ],
)
def test_extremes_have_duckdbs_texts_and_come_back(ducklake: str, key: object, text: str) -> None:
    form = bound_form(ducklake)
    assert form.to_text(key, True) == text  # type: ignore[arg-type]
    assert form.from_text(text) == key


@given(st.text(min_size=TEXT_LENGTH_MAX + 1, max_size=TEXT_LENGTH_MAX + 9, alphabet=st.characters(codec="utf-8")))
def test_cut_strings_still_bound(text: str) -> None:
    low, high = truncated(text, upper=False), truncated(text, upper=True)
    assert low is not None
    assert low.encode() <= text.encode()
    assert high is None or (high.encode() >= text.encode() and len(high) <= TEXT_LENGTH_MAX)


def test_nothing_is_above_the_last_characters() -> None:
    assert truncated(chr(0x10FFFF) * 300, upper=True) is None
    assert truncated("a" + chr(0x10FFFF) * 300, upper=True) == "b"
    assert truncated("x" * 255 + chr(0xD7FF) + "x", upper=True) == "x" * 255 + chr(0xE000)


def test_decimals_are_read_from_bytes_and_from_integers() -> None:
    form = bound_form("decimal(38,2)")
    assert form.from_raw((-110).to_bytes(16, "big", signed=True)) == Decimal("-1.10")
    assert form.to_text(form.from_raw(500), False) == "5.00"
