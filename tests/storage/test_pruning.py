"""A file with a row that meets the predicate is never skipped; one that cannot have such a row is."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import datatypes
from catalog.model import ColumnStatistics, DataFile, Table
from storage.indexes.pruning import prune
from storage.parquet.bounds import bound_form
from storage.plan import Comparison, Operator
from tests.storage.lake import NUMERIC_10_2, rows, table, write

_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_FLOATS = st.floats(width=32)


def _postgres_float(value: float) -> tuple[bool, float]:
    """PostgreSQL's order: NaN equals itself and is greater than everything else."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def _file(values: list[Any], of: Table) -> DataFile:
    """A file with statistics as a writer makes them."""
    form = bound_form(of.columns[0].form.ducklake)
    present = [value for value in values if value is not None]
    numbers = [value for value in present if not (isinstance(value, float) and math.isnan(value))]
    floats = of.columns[0].type_oid in (datatypes.FLOAT4, datatypes.FLOAT8)
    return DataFile("f", len(values), 1, 1, {1: ColumnStatistics(
        len(present), len(values) - len(present), 1,
        form.to_text(min(numbers), False) if numbers else None,
        form.to_text(max(numbers), True) if numbers else None,
        len(numbers) < len(present) if floats else None,
    )})  # fmt: skip


@given(st.lists(st.none() | st.integers(-9, 9), min_size=1), st.sampled_from(list(_COMPARE)), st.integers(-10, 10))
def test_integers(values: list[int | None], compare: Operator, constant: int) -> None:
    of = table(a=datatypes.INT4)
    kept, skipped = prune([_file(values, of)], of, [Comparison(1, compare, (constant,))])
    matches = any(value is not None and _COMPARE[compare](value, constant) for value in values)
    assert kept or not matches
    assert len(kept) + len(skipped) == 1
    if all(value == values[0] for value in values):
        assert bool(kept) == matches


@given(st.lists(st.none() | _FLOATS, min_size=1), st.sampled_from(list(_COMPARE)), st.floats())
def test_floats_in_postgresqls_order(values: list[float | None], compare: Operator, constant: float) -> None:
    of = table(a=datatypes.FLOAT4)
    kept, _ = prune([_file(values, of)], of, [Comparison(1, compare, (constant,))])
    order = [_postgres_float(value) for value in values if value is not None]
    assert kept or not any(_COMPARE[compare](value, _postgres_float(constant)) for value in order)


@given(st.lists(st.text(max_size=3), min_size=1), st.sampled_from(list(_COMPARE)), st.text(max_size=3))
def test_strings_by_their_bytes(values: list[str], compare: Operator, constant: str) -> None:
    of = table(a=datatypes.TEXT)
    kept, _ = prune([_file(sorted(values, key=str.encode), of)], of, [Comparison(1, compare, (constant,))])
    low, high = min(values, key=str.encode), max(values, key=str.encode)
    if _file(values, of).statistics[1].minimum == low and _file(values, of).statistics[1].maximum == high:
        assert kept or not any(_COMPARE[compare](value.encode(), constant.encode()) for value in values)


@given(st.lists(st.none() | st.text(max_size=2), min_size=1), st.lists(st.text(max_size=2), min_size=1, max_size=5))
def test_lists(values: list[str | None], listed: list[str]) -> None:
    of = table(a=datatypes.TEXT)
    kept, _ = prune([_file(values, of)], of, [Comparison(1, "in", tuple(listed))])
    present = [value for value in values if value is not None]
    assert bool(kept) == any(present and min(present) <= each <= max(present) for each in listed)


def test_a_long_list_is_searched_once_for_a_file() -> None:
    of = table(a=datatypes.INT4)
    files = [_file([number * 1000 + 1, number * 1000 + 500], of) for number in range(1000)]
    began = monotonic()
    kept, skipped = prune(files, of, [Comparison(1, "in", tuple(range(0, 1_000_000, 5)))])
    assert (len(kept), len(skipped)) == (1000, 0)
    assert not prune(files, of, [Comparison(1, "in", tuple(range(0, 1_000_000, 1000)))])[0]
    assert monotonic() - began < 5  # one by one, it were a billion comparisons


_DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("oid", "value", "inside", "outside"),
    [
        (datatypes.BOOL, True, True, False),
        (NUMERIC_10_2, Decimal("1.10"), Decimal("1.1"), Decimal("1.11")),
        (datatypes.INT8, 7, Decimal("7.0"), Decimal("6.99")),
        (datatypes.FLOAT4, 1.100000023841858, 1.100000023841858, 1.1),
        (datatypes.BYTEA, b"\xff", b"\xff", b"\xfe"),
        (datatypes.UUID, str(UUID(int=5)), UUID(int=5), UUID(int=0)),
        (datatypes.DATE, 0, date(1970, 1, 1), date(1969, 12, 31)),
        (datatypes.TIME, 1, time(microsecond=1), time()),
        (datatypes.TIMESTAMP, _DAY, datetime(1970, 1, 2), datetime(1970, 1, 1)),
        (datatypes.TIMESTAMPTZ, 0, datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 2, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_a_constant_within_the_bounds_keeps_the_file(
    oid: int | tuple[int, int], value: object, inside: Any, outside: Any, tmp_path: Path
) -> None:
    of = table(a=oid)
    files = write(tmp_path, of, rows(of, (value,))).files
    assert prune(files, of, [Comparison(1, "=", (inside,))]) == (files, ())
    assert prune(files, of, [Comparison(1, "=", (outside,))]) == ((), files)
    assert prune(files, of, [Comparison(1, "in", (outside, inside))]) == (files, ())
    assert prune(files, of, [Comparison(1, "in", (outside,))]) == ((), files)


def test_null_tests(tmp_path: Path) -> None:
    of = table(a=datatypes.INT4)
    version = write(tmp_path, of, rows(of, (1,), (2,)), rows(of, (None,)), rows(of, (3,), (None,)))
    full, empty, mixed = version.files
    assert prune(version.files, of, [Comparison(1, "is null")]) == ((empty, mixed), (full,))
    assert prune(version.files, of, [Comparison(1, "is not null")]) == ((full, mixed), (empty,))
    assert prune(version.files, of, [Comparison(1, ">", (2,))]) == ((mixed,), (full, empty))
    assert prune(version.files, of, [Comparison(1, "is not null"), Comparison(1, "<", (3,))]) == (
        (full,),
        (empty, mixed),
    )


@pytest.mark.parametrize(
    ("oid", "stored", "constant"),
    [
        (datatypes.NUMERIC, "9", Decimal(10)),  # kept as text, whose order is not the numbers'
        (datatypes.BPCHAR, "a ", "a"),
        (datatypes.TIMESTAMP, 0, date(2000, 1, 1)),
        (datatypes.TIMESTAMP, 0, datetime(2000, 1, 1, tzinfo=UTC)),
        (datatypes.FLOAT8, 1.0, math.nan),
        (1007, [1], 7),
    ],
)
def test_what_does_not_compare_by_bounds_keeps_the_file(
    oid: int, stored: object, constant: Any, tmp_path: Path
) -> None:
    of = table(a=oid)
    files = write(tmp_path, of, rows(of, (stored,))).files
    assert prune(files, of, [Comparison(1, ">", (constant,))]) == (files, ())


def test_nan_is_greater_than_everything(tmp_path: Path) -> None:
    of = table(a=datatypes.FLOAT8)
    files = write(tmp_path, of, rows(of, (1.0,), (math.nan,))).files
    assert prune(files, of, [Comparison(1, ">", (5.0,))]) == (files, ())
    assert prune(files, of, [Comparison(1, "=", (5.0,))]) == ((), files)


def test_a_column_that_the_file_does_not_have_keeps_it() -> None:
    of = table(a=datatypes.INT4)
    file = DataFile("f", 1, 1, 1)
    assert prune([file], of, [Comparison(1, "=", (1,)), Comparison(1, "is null")]) == ((file,), ())
