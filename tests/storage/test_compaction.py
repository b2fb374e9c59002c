"""Files due for compaction, and their replacements, which have their live rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from catalog import datatypes
from catalog.errors import SluiceError
from catalog.model import ColumnStatistics, DataFile, DeleteFile, TableVersion
from storage.maintenance.compaction import Policy, due, merged
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles
from storage.parquet.parquet_writer import FILE_BYTES
from storage.parquet.positions import write_delete_file
from tests.storage.lake import rows, table, write

_KB, _MB = 2**10, 2**20
_POLICY = Policy(min_files=4, small_bytes=32 * _MB, waste=0.2)
_TABLE = table(a=datatypes.INT8, b=datatypes.TEXT)


def file(name: str, size: int, *, deleted: int = 0, dropped: int = 0) -> DataFile:
    """A file of 100 rows, of which so many are deleted; `dropped` of its bytes are of a column that is gone."""
    statistics = {
        1: ColumnStatistics(100, 0, (size - dropped) // 2),
        2: ColumnStatistics(100, 0, (size - dropped) // 2),
        9: ColumnStatistics(100, 0, dropped),
    }
    delete_file = DeleteFile(f"{name}-delete", deleted, 100, 10, 1) if deleted else None
    return DataFile(name, 100, size, 10, statistics, 1, 0, delete_file)


def chosen(*files: DataFile, policy: Policy = _POLICY) -> list[list[str]]:
    return [[each.path for each in group] for group in due(TableVersion(_TABLE, 1, files), policy)]


def test_small_files_are_merged_once_there_are_enough() -> None:
    small = [file(f"s{n}", 10 * _KB) for n in range(4)]
    assert chosen(*small[:3]) == []
    assert chosen(*small) == [["s0", "s1", "s2", "s3"]]
    assert chosen(*small, file("large", 40 * _MB)) == [["s0", "s1", "s2", "s3"]]


def test_a_large_file_is_not_written_anew_for_each_few_small_ones() -> None:
    """Tiers: what has been merged waits for others of its size."""
    small = [file(f"s{n}", 10 * _KB) for n in range(4)]
    middle = [file(f"m{n}", 5 * _MB) for n in range(4)]
    assert chosen(middle[0], *small) == [["s0", "s1", "s2", "s3"]]
    assert chosen(*middle[:3], *small[:3]) == []
    # Where a tier is full, the lower ones come along.
    assert chosen(*middle, small[0]) == [["m0", "m1", "m2", "m3", "s0"]]


def test_waste() -> None:
    assert chosen(file("a", 50 * _MB, deleted=19)) == []
    assert chosen(file("a", 50 * _MB, deleted=20)) == [["a"]]
    assert chosen(file("a", 50 * _MB, dropped=5 * _MB)) == []
    assert chosen(file("a", 50 * _MB, dropped=20 * _MB)) == [["a"]]


def test_groups_are_as_large_as_a_file_may_be() -> None:
    half = FILE_BYTES // 2 - _MB
    everything = Policy(2, 0, 1.0, all_files=True)
    files = [file(f"f{n}", half) for n in range(5)]
    assert chosen(*files, policy=everything) == [["f0", "f1"], ["f2", "f3"], ["f4"]]
    # What is deleted does not count.
    assert chosen(*(file(f"f{n}", half, deleted=75) for n in range(5)), policy=everything) == [
        ["f0", "f1", "f2", "f3", "f4"]
    ]


def test_a_file_without_any_of_the_columns_is_left_alone() -> None:
    gone = replace(file("a", 10), statistics={9: ColumnStatistics(100, 0, 10)})
    assert chosen(gone, policy=Policy(2, 0, 0.0, all_files=True)) == []


def _deleted(data_path: Path, version: TableVersion, *positions: tuple[int, ...]) -> list[DataFile]:
    """The version's files, each with these positions deleted."""
    files = LakeFiles(str(data_path))
    return [
        replace(each, delete_file=write_delete_file(files, version.table.path, each, np.array(gone, np.int64), None))
        if gone
        else each
        for each, gone in zip(version.files, positions, strict=True)
    ]


def test_live_rows_in_their_order(lake_path: Path) -> None:
    batches = [rows(_TABLE, *((n, f"row {n}") for n in range(first, first + 5))) for first in (0, 5, 10)]
    version = write(lake_path, _TABLE, *batches)
    old = _deleted(lake_path, version, (0, 4), (), (0, 1, 2, 3, 4))
    wider = replace(
        _TABLE, columns=(*_TABLE.columns[:1], replace(_TABLE.columns[1], attnum=3, column_id=3, initial_default="dflt"))
    )
    [new] = merged(str(lake_path), wider, old, lambda: False)
    assert new.record_count == 8
    found = pa.Table.from_batches(
        [batch for _, batch in read_rows(LakeFiles(str(lake_path)), wider, new, wider.columns)]
    )
    assert found.column(0).to_pylist() == [1, 2, 3, 5, 6, 7, 8, 9]
    assert found.column(1).to_pylist() == ["dflt"] * 8, "a column that the files were written without"
    assert set(new.statistics) == {1, 3}, "a column that the table has no more is gone"
    assert merged(str(lake_path), _TABLE, old[2:], lambda: False) == ()


def test_one_that_is_stopped_leaves_nothing(lake_path: Path) -> None:
    version = write(lake_path, _TABLE, rows(_TABLE, (1, "x")), rows(_TABLE, (2, "y")))
    before = LakeFiles(str(lake_path)).list()
    answers = iter([False, True])
    with pytest.raises(SluiceError) as failed:
        merged(str(lake_path), _TABLE, version.files, lambda: next(answers))
    assert failed.value.sqlstate == "57014"
    assert LakeFiles(str(lake_path)).list() == before


def test_old_hot_rows_become_a_file_be_they_few() -> None:
    hot = [replace(file(f"h{n}", 100), hot_rows="{}") for n in range(2)]
    others = [file("s", 10 * _KB), file("large", 40 * _MB)]
    assert chosen(*hot, *others) == []
    assert chosen(others[0], *hot, others[1], policy=replace(_POLICY, hot_rows=True)) == [["h0", "h1"]]
    assert chosen(hot[0], policy=replace(_POLICY, hot_rows=True)) == [["h0"]]
