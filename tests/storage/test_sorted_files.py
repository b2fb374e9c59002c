"""Files of a table with a sort key: which overlap needlessly, and rows in its order."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from catalog import datatypes
from catalog.model import ColumnStatistics, DataFile, SortColumn, TableVersion
from storage.maintenance.compaction import Policy, due
from storage.maintenance.sorted_files import in_key_order, overlapping
from storage.parquet import parquet_writer
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles
from storage.parquet.parquet_writer import ParquetWriter
from storage.parquet.sort_order import sort_indices
from tests.storage.lake import table

_PLAIN = table(a=datatypes.INT8, b=datatypes.TEXT)
_TABLE = replace(_PLAIN, sort_key=(SortColumn(1, False, False), SortColumn(2, True, True)))
_MB = 2**20


def file(name: str, a: tuple[int, int] | None, b: tuple[str, str] = ("a", "z"), size: int = 100 * _MB) -> DataFile:
    """A file with these bounds of its two columns."""
    bounds = (None, None) if a is None else map(str, a)
    return DataFile(
        name, 100, size, 10, {1: ColumnStatistics(100, 0, 50, *bounds), 2: ColumnStatistics(100, 0, 50, *b)}, 1, 0
    )


def numbers(lake_path: Path, written: DataFile) -> list[int]:
    """The first column of a file's rows."""
    batches = read_rows(LakeFiles(str(lake_path)), _TABLE, written, _TABLE.columns[:1])
    return [value for _, batch in batches for value in batch.column(0).to_pylist()]


def found(*files: DataFile, depth: int = 3, bytes_max: float = math.inf) -> list[list[str]]:
    return [[each.path for each in group] for group in overlapping(_TABLE, files, depth, bytes_max)]


def test_files_overlap_where_several_have_the_same_values() -> None:
    apart = [file(f"f{n}", (n * 10, n * 10 + 10)) for n in range(20)]
    assert found(*apart, depth=2) == [], "a border is no overlap"
    wide = [file(f"w{n}", (n, 199)) for n in range(3)]
    assert found(*apart, *wide[:2], depth=4) == []
    assert found(*apart, *wide, depth=4) == [["f0", "w0", "w1", "w2"]]
    assert found(*apart, file("unknown", None), depth=2) == []
    # Two groups that have nothing in common.
    assert found(*(file(f"l{n}", (0, 5)) for n in range(3)), *(file(f"h{n}", (6, 9)) for n in range(4))) == [
        ["h0", "h1", "h2", "h3"],
        ["l0", "l1", "l2"],
    ]


def test_files_of_one_value_overlap_in_the_next_column() -> None:
    ones = [file(f"o{n}", (1, 1), (f"{n}", "9")) for n in range(4)]
    assert found(*ones) == [["o0", "o1", "o2", "o3"]]
    assert found(*(file(f"o{n}", (1, 1), ("x", "x")) for n in range(9))) == [], "no order keeps them apart"
    assert found(file("s", (1, 1), ("b", "c")), *(file(f"o{n}", (1, 2)) for n in range(2)), depth=3) == [
        ["s", "o0", "o1"]
    ]


def test_groups_have_a_size() -> None:
    files = [file(f"f{n}", (0, 9)) for n in range(10)]
    assert [len(group) for group in found(*files, depth=2, bytes_max=400 * _MB)] == [4, 4, 2]
    assert [len(group) for group in found(*files, depth=2, bytes_max=1)] == [2] * 5, "else nothing would ever change"


def test_what_is_due() -> None:
    policy = Policy(min_files=3, small_bytes=32 * _MB, waste=0.2)
    small = [file(f"s{n}", (100 - n, 200), size=100) for n in range(3)]
    large = [file(f"l{n}", (n, 50)) for n in range(3)]

    def chosen(*files: DataFile, policy: Policy = policy) -> list[list[str]]:
        return [[each.path for each in group] for group in due(TableVersion(_TABLE, 1, files), policy)]

    assert chosen(*small, *large) == [["s2", "s1", "s0"], ["l0", "l1", "l2"]]
    assert chosen(*small[:2], *large[:2]) == []
    assert chosen(*small[:2], *large[:2], policy=replace(policy, all_files=True)) == [["s0", "s1", "l0", "l1"]]
    assert [each.path for each in in_key_order(_TABLE, [*large[::-1], file("u", None)])] == ["u", "l0", "l1", "l2"]


def test_the_order_of_rows() -> None:
    given = pa.table({"a": [2, None, 1, 1, 1, 1], "b": ["x", "y", "b", None, "Z", "\u00e4"]})
    assert sort_indices(given, _TABLE).to_pylist() == [3, 5, 2, 4, 0, 1]
    others = replace(_TABLE, sort_key=(SortColumn(2, False, True), SortColumn(1, True, False)))
    assert sort_indices(given, others).to_pylist() == [3, 4, 2, 0, 1, 5]


@pytest.mark.parametrize("order_max", [0, 60_000, 10**6])
def test_each_file_is_sorted_in_bounded_memory(
    lake_path: Path, monkeypatch: pytest.MonkeyPatch, order_max: int
) -> None:
    monkeypatch.setattr(parquet_writer, "SORT_BYTES", 2**20)
    values = np.random.default_rng(1).permutation(150_000)
    given = pa.table({"a": values, "b": [f"text {value % 7}" for value in values]})
    writer = ParquetWriter(str(lake_path), _TABLE, sorts=True, order_max=order_max)
    for first in range(0, given.num_rows, 1_000):
        writer.write(given.slice(first, 1_000))
    files = writer.finish()
    assert len(files) > 2
    written = [numbers(lake_path, each) for each in files]
    assert all(part == sorted(part) for part in written)
    every = [value for part in written for value in part]
    assert sorted(every) == list(range(150_000))
    order = writer.order
    assert order is not None
    assert values[order].tolist() == every[: len(order)]
    assert len(order) == 150_000 if order_max > 150_000 else len(order) <= order_max


def test_few_rows_stay_as_they_are(lake_path: Path) -> None:
    writer = ParquetWriter(str(lake_path), _TABLE, sorts=True)
    writer.write(pa.table({"a": [2, 1, 3], "b": ["a", "b", "c"]}))
    [written] = writer.finish()
    assert writer.order is None
    assert numbers(lake_path, written) == [2, 1, 3]
