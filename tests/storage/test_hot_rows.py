"""Hot rows: what is written comes back, with the statistics that a Parquet file of the same rows would have."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import datatypes
from catalog.model import DataFile, Table, TableVersion
from storage.maintenance.check import check_files
from storage.maintenance.compaction import merged
from storage.parquet.arrow_types import arrow_schema
from storage.parquet.file_rows import live_rows_of, read_rows
from storage.parquet.files import LakeFiles
from storage.parquet.hot_rows import HOT_BYTES_MAX, decode, encode, may_be_hot
from storage.parquet.parquet_writer import ParquetWriter
from storage.parquet.positions import deleted_positions
from storage.spark.write import replace_rows
from tests.storage.lake import NUMERIC_10_2, rows, table, write

_ALL: dict[str, int | tuple[int, int]] = {
    "a": datatypes.BOOL, "b": datatypes.INT2, "c": datatypes.INT4, "d": datatypes.INT8, "e": datatypes.FLOAT4,
    "f": datatypes.FLOAT8, "g": datatypes.TEXT, "h": datatypes.BYTEA, "i": datatypes.DATE, "j": datatypes.TIME,
    "k": datatypes.TIMESTAMP, "l": datatypes.TIMESTAMPTZ, "m": NUMERIC_10_2, "n": datatypes.NUMERIC,
    "o": datatypes.INTERVAL, "p": datatypes.UUID, "q": datatypes.JSONB, "r": 1007, "s": 1009, "t": 1187, "u": 1183,
    "v": 1001, "w": 1022,
}  # fmt: skip
_INTERVAL = {"months": -1, "days": 2, "microseconds": 3}
_VALUES = (
    True, -2, 3, 2**63 - 1, 0.1, float("nan"), 'é"\\\n', b"\x00\xff", 2**31 - 1, 86_400_000_000, -(2**63 - 1), 17,
    Decimal("-1.50"), "1.500", _INTERVAL, "x", '{"a": 1}', [1, None, 3], ["{", None, ""], [_INTERVAL, None],
    [5_000_000, None], [b"\x01", None], [0.1, float("inf")],
)  # fmt: skip


def shown(of: pa.Table | pa.RecordBatch) -> str:
    """All values as texts: NaN equals NaN, and days may be infinite."""
    columns = [
        each.cast(pa.int32() if pa.types.is_date(each.type) else pa.int64())
        if pa.types.is_temporal(each.type)
        else each
        for each in of.columns
    ]
    return str([each.to_pylist() for each in columns])


def hot(tmp_path: Path, of: Table, *batches: pa.Table) -> DataFile:
    writer = ParquetWriter(str(tmp_path), of, hot_rows=1_000)
    for batch in batches:
        writer.write(batch)
    [file] = writer.finish()
    return file


def test_rows_of_all_types_come_back(tmp_path: Path) -> None:
    of = table(**_ALL)
    batch = rows(of, _VALUES, (None,) * len(_VALUES), _VALUES)
    file = hot(tmp_path, of, batch)
    assert file.hot_rows is not None
    assert not list(tmp_path.rglob("*.parquet")), "hot rows have no file"
    [(first, read)] = read_rows(LakeFiles(str(tmp_path)), of, file, of.columns)
    assert first == 0
    assert shown(read) == shown(batch)
    decoded, names = decode(file.hot_rows)
    assert [decoded.schema.field(names[each.column_id]).type for each in of.columns] == read.schema.types


def test_statistics_are_those_of_a_file(tmp_path: Path) -> None:
    of = table(**_ALL)
    empty: tuple[object, ...] = (None,) * (len(_VALUES) - 6) + ([],) * 6
    batch = rows(of, _VALUES, (None,) * len(_VALUES), empty)
    [stored] = write(tmp_path, of, batch).files
    made = hot(tmp_path, of, batch)
    assert made.statistics.keys() == stored.statistics.keys()
    for field_id, expected in stored.statistics.items():
        assert replace(made.statistics[field_id], size_bytes=0) == replace(expected, size_bytes=0), field_id


@given(st.lists(st.tuples(st.floats(), st.floats(width=32), st.text(), st.integers(-(2**63), 2**63 - 1))))
def test_any_number_and_text(values: list[tuple[float, float, str, int]]) -> None:
    of = table(f=datatypes.FLOAT8, e=datatypes.FLOAT4, g=datatypes.TEXT, d=datatypes.INT8)
    batch = rows(of, *values) if values else arrow_schema(of).empty_table()
    found, names = decode(encode(of.columns, [each.combine_chunks() for each in batch.columns]))
    for column, array in zip(of.columns, batch.columns, strict=True):
        assert str(found.column(names[column.column_id]).to_pylist()) == str(array.to_pylist())


def test_parts_of_larger_arrays(tmp_path: Path) -> None:
    of = table(**_ALL)
    batch = rows(of, (None,) * len(_VALUES), _VALUES, _VALUES)
    [(_, read)] = read_rows(LakeFiles(str(tmp_path)), of, hot(tmp_path, of, batch.slice(1, 1)), of.columns)
    assert shown(read) == shown(batch.slice(1, 1))


def test_what_is_large_is_a_file(tmp_path: Path) -> None:
    of = table(g=datatypes.TEXT)
    many = ParquetWriter(str(tmp_path), of, hot_rows=3)
    many.write(rows(of, *[("x",)] * 4))
    assert [file.hot_rows for file in many.finish()] == [None]
    wide = ParquetWriter(str(tmp_path), of, hot_rows=3)
    wide.write(rows(of, ("x" * (HOT_BYTES_MAX + 1),)))
    assert [file.hot_rows for file in wide.finish()] == [None]
    assert ParquetWriter(str(tmp_path), of, hot_rows=3).finish() == ()


@pytest.mark.parametrize("name", ["row_id", "Begin_Snapshot", "end_snapshot", "_ducklake_internal_row_id"])
def test_tables_that_ducklake_has_no_place_for(name: str) -> None:
    assert not may_be_hot(table(a=datatypes.INT4, **{name: datatypes.INT4}))
    assert may_be_hot(table(a=datatypes.INT4))


def test_deleted_rows_have_no_file(tmp_path: Path) -> None:
    of = table(a=datatypes.INT4)
    file = hot(tmp_path, of, rows(of, (0,), (1,), (2,)))
    version = TableVersion(of, 1, (file,))
    [(path, deletes)] = replace_rows(str(tmp_path), version, {file.path: np.array([1])}).delete_files.items()
    assert path == file.path
    assert deletes.positions == (1,)
    file = replace(file, delete_file=replace(deletes, delete_file_id=7))
    [(_, again)] = replace_rows(
        str(tmp_path), TableVersion(of, 2, (file,)), {file.path: np.array([0])}
    ).delete_files.items()
    assert (again.positions, again.replaces) == ((0, 1), 7)
    lake = LakeFiles(str(tmp_path))
    assert deleted_positions(lake, of.path, again).tolist() == [0, 1]
    live = [batch.to_pydict() for batch in live_rows_of(lake, of, replace(file, delete_file=again), of.columns)]
    assert live == [{"a": [2]}]
    assert not list(tmp_path.rglob("*"))


def test_compaction_makes_a_file_of_hot_rows(tmp_path: Path) -> None:
    of = table(a=datatypes.INT4, b=datatypes.TEXT)
    old = [hot(tmp_path, of, rows(of, (number, str(number)))) for number in range(3)]
    gone = replace_rows(str(tmp_path), TableVersion(of, 1, tuple(old)), {old[1].path: np.array([0])})
    old[1] = replace(old[1], delete_file=gone.delete_files[old[1].path])
    [new] = merged(str(tmp_path), of, old, lambda: False)
    assert new.hot_rows is None
    [(_, read)] = read_rows(LakeFiles(str(tmp_path)), of, new, of.columns)
    assert read.to_pydict() == {"a": [0, 2], "b": ["0", "2"]}


def test_check_finds_damaged_hot_rows(tmp_path: Path) -> None:
    of = table(a=datatypes.INT4)
    file = hot(tmp_path, of, rows(of, (0,), (1,)))
    deletes = replace_rows(str(tmp_path), TableVersion(of, 1, (file,)), {file.path: np.array([1])}).delete_files

    def found(damaged: DataFile) -> list[str]:
        return [each.kind for each in check_files(str(tmp_path), [TableVersion(of, 1, (damaged,))])]

    whole = replace(file, delete_file=deletes[file.path])
    assert found(whole) == []
    assert found(replace(whole, record_count=3)) == ["record count"]
    assert found(replace(whole, hot_rows="{")) == ["hot rows"]
    assert found(replace(whole, hot_rows='{"1":{"type":"int32","values":["x"]}}')) == ["hot rows"]
    assert found(replace(whole, delete_file=replace(deletes[file.path], positions=(5,)))) == ["deletes"]
    assert found(replace(whole, delete_file=replace(deletes[file.path], delete_count=2))) == ["deletes"]
