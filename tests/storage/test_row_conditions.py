"""Conditions that Arrow decides: NULL, NaN, and constants that a column cannot have."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from catalog import datatypes
from catalog.model import Column
from storage.parquet.row_conditions import RowFilter, condition_columns, is_decided
from storage.plan import Comparison, Condition, Contains, Either, Unlisted
from tests.storage.lake import NUMERIC_10_2, rows, table

_NUMERICS = [Decimal("1.00"), Decimal("1.01"), None, Decimal("-3.50")]
_FLOATS = [1.0, math.nan, None, -0.0, math.inf]


def _chosen(oid: int | tuple[int, int], values: list[Any], *conditions: Condition) -> list[Any]:
    """The places of the values that meet the conditions."""
    of = table(c=oid, place=datatypes.INT4)
    batch = rows(of, *((value, place) for place, value in enumerate(values))).to_batches()[0]
    found: list[Any] = RowFilter(of.columns, conditions).of(batch).column(1).to_pylist()
    return found


@pytest.mark.parametrize(
    ("operator", "value", "wanted"),
    [
        ("=", "1", [0]), ("=", "1.005", []), ("<", "1.005", [0, 3]), ("<=", "1.0100", [0, 1, 3]), (">", "1.005", [1]),
        (">=", "1", [0, 1]), ("<", "1e20", [0, 1, 3]), (">", "1.0000000000000000000000000001", [1]),
        ("<", "99999999999999999999999999999999999999.5", [0, 1, 3]),
    ],
)  # fmt: skip
def test_numerics_of_other_scales(operator: Any, value: str, wanted: list[int]) -> None:
    assert _chosen(NUMERIC_10_2, _NUMERICS, Comparison(1, operator, (Decimal(value),))) == wanted


def test_lists() -> None:
    listed = (Decimal(1), Decimal("1.005"), Decimal("1e30"))
    assert _chosen(NUMERIC_10_2, _NUMERICS, Comparison(1, "in", listed)) == [0]
    assert _chosen(NUMERIC_10_2, _NUMERICS, Unlisted(1, listed)) == [1, 3]
    assert _chosen(datatypes.INT2, [1, 2, None], Comparison(1, "in", (70_000, 1))) == [0]
    assert _chosen(datatypes.INT2, [1, 2, None], Unlisted(1, (70_000, 1))) == [1]
    assert _chosen(datatypes.INT2, [1, 2, None], Comparison(1, "in", ())) == []
    assert _chosen(datatypes.INT2, [1, 2, None], Comparison(1, "<", (70_000,))) == [0, 1]
    assert _chosen(datatypes.TEXT, ["a", "é", None, ""], Unlisted(1, ("a",))) == [1, 3]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (Comparison(1, ">", (0.5,)), [0, 1, 4]), (Comparison(1, ">=", (math.inf,)), [1, 4]),
        (Comparison(1, "<", (0.5,)), [3]), (Comparison(1, "=", (0.0,)), [3]), (Comparison(1, "in", (0.0, 1.0)), [0, 3]),
        (Unlisted(1, (0.0,)), [0, 1, 4]), (Comparison(1, "is null"), [2]), (Comparison(1, "is not null"), [0, 1, 3, 4]),
    ],
)  # fmt: skip
def test_nan_is_the_greatest_number_and_zero_has_one_value(condition: Condition, wanted: list[int]) -> None:
    assert _chosen(datatypes.FLOAT8, _FLOATS, condition) == wanted


def test_alternatives_with_unknown_parts() -> None:
    of = table(a=datatypes.INT4, b=datatypes.INT4)
    values = [(1, None), (None, 2), (None, None), (3, 2), (4, 4)]
    either = Either(((Comparison(1, "=", (1,)),), (Comparison(2, "=", (2,)), Comparison(1, "is not null"))))
    assert condition_columns([either]) == {1, 2}
    found = RowFilter(of.columns, [either]).of(rows(of, *values).to_batches()[0])
    assert [tuple(row.values()) for row in found.to_pylist()] == [(1, None), (3, 2)]


@pytest.mark.parametrize(
    ("at", "wanted"),
    [("start", ["ab", "abc", "ab%"]), ("end", ["ab", "éab"]), ("anywhere", ["ab", "abc", "éab", "ab%"])],
)
def test_texts_that_contain_another(at: Any, wanted: list[str]) -> None:
    values = ["ab", "abc", "éab", "", None, "AB", "ab%"]
    found = [values[place] for place in _chosen(datatypes.TEXT, values, Contains(1, "ab", at))]
    assert found == wanted
    others = [values[place] for place in _chosen(datatypes.TEXT, values, Contains(1, "ab", at, negated=True))]
    assert others == [value for value in values if value is not None and value not in wanted]


def test_what_is_left_to_others() -> None:
    numeric = Column(1, 1, "c", *NUMERIC_10_2, True)
    assert not is_decided(numeric, Comparison(1, "<", (Decimal("NaN"),)))
    assert not is_decided(numeric, Comparison(1, "<", (Decimal("Infinity"),)))
    assert not is_decided(Column(1, 1, "c", datatypes.DATE, -1, True), Comparison(1, "<", ("tomorrow",)))
    assert is_decided(numeric, Comparison(1, "<", (Decimal("1e20"),)))
    assert pa.types.is_decimal(rows(table(c=NUMERIC_10_2), (Decimal(1),)).schema.field(0).type)
