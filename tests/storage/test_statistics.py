"""Statistics are those that DuckLake's own client writes for the same rows."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.datatypes import FLOAT4
from catalog.model import Table
from storage.parquet.arrow_types import arrow_schema
from storage.parquet.statistics import column_statistics
from tests.storage.lake import NUMERIC_10_2, Witness, rows, table, write

_INTERVAL = {"months": 1, "days": -2, "microseconds": 3}
_CASES: dict[str, tuple[Table, list[tuple[Any, ...]]]] = {
    "numbers": (
        table(b=16, i2=21, i4=23, i8=20, f4=700, f8=701, d=NUMERIC_10_2),
        [
            (True, -1, 2, 3, math.nan, 1.5, Decimal("1.10")),
            (False, None, -7, 3, math.inf, -math.inf, Decimal(-10)),
            (None, 5, 7, 9, 1.1, math.nan, Decimal(5)),
        ],
    ),
    "nothing but nulls": (table(b=16, f4=700, s=25, iv=1186), [(None, None, None, None)]),
    "nothing but nan": (table(f4=700, f8=701), [(math.nan, math.nan)]),
    "texts": (
        table(s=25, bl=17, u=2950, j=114),
        [
            ("héllo", b"\xaa\x00b", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", '{"a":1}'),
            ("", b"", None, None),
            ("zz", b"z", "00000000-0000-0000-0000-000000000000", "null"),
        ],
    ),
    "times": (
        table(dt=1082, ti=1083, ts=1114, tz=1184),
        [
            (20777, 49_078_400_000, 1_795_181_878_418_861, 1_795_178_278_000_000),
            (2**31 - 1, 86_400_000_000, 2**63 - 1, -(2**63 - 1)),
            (-800_000, 0, -63_517_824_000_000_000, 0),
        ],
    ),
    "nested": (table(iv=1186, li=1007, ls=1009, liv=1187), [
        (_INTERVAL, [1, None, 3], ["a"], [_INTERVAL]), (None, [], None, None), (None, None, ["b", None], [])
    ]),
}  # fmt: skip


@pytest.mark.parametrize("case", _CASES)
def test_statistics_are_those_of_ducklakes_client(case: str, tmp_path: Path) -> None:
    of, values = _CASES[case]
    version = write(tmp_path, of, rows(of, *values))
    duck = Witness(tmp_path, version)
    duck.connection.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    duck.connection.execute(f"INSERT INTO {duck.name} SELECT * FROM {duck.name}")
    # A float4's bounds have more digits here: the same number, which they are as a float8 too.
    floats = {column.column_id for column in of.columns if column.type_oid == FLOAT4}
    theirs = duck.connection.execute(
        "SELECT column_id, value_count, null_count, min_value, max_value, contains_nan"
        " FROM __ducklake_metadata_lake.main.ducklake_file_column_stats WHERE data_file_id <> 0 ORDER BY column_id"
    ).fetchall()
    duck.close()
    ours = [
        (field_id, each.value_count, each.null_count, each.minimum, each.maximum, each.contains_nan)
        for field_id, each in sorted(version.files[0].statistics.items())
    ]
    assert [_as_float4(each) if each[0] in floats else each for each in ours] == [
        _as_float4(each) if each[0] in floats else each for each in theirs
    ]
    for _, _, _, *bounds, _ in (each for each in ours if each[0] in floats):
        assert all(float(bound) == float(np.float32(bound)) for bound in bounds if bound is not None)


def _as_float4(found: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(str(np.float32(each)) if isinstance(each, str) else each for each in found)


def test_uncounted_nulls_may_be_there(tmp_path: Path) -> None:
    """As in a file of Spark's whose values are so long that it leaves the statistics of their column out."""
    of = table(s=25)
    arrow = pa.table({"s": ["x", None]}, schema=arrow_schema(of))
    pq.write_table(arrow, tmp_path / "counted.parquet")
    pq.write_table(arrow, tmp_path / "uncounted.parquet", write_statistics=False)
    counted, uncounted = (
        next(iter(column_statistics(pq.read_metadata(tmp_path / f"{name}.parquet"), of.columns).values()))
        for name in ("counted", "uncounted")
    )
    assert (counted.value_count, counted.null_count) == (1, 1)
    assert uncounted.value_count > 0
    assert uncounted.null_count > 0
    assert (uncounted.minimum, uncounted.maximum) == (None, None)
