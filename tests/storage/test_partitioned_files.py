"""Files of a table with a partition key: which are written anew together, and which an equality leaves out."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog import datatypes
from catalog.model import ColumnStatistics, DataFile, Partition, PartitionColumn, PartitionValue, TableVersion
from storage.indexes.pruning import prune
from storage.maintenance.compaction import Policy, due, is_to_be_divided
from storage.maintenance.partition_check import check_partitions
from storage.plan import Comparison
from tests.storage.lake import rows, table, write

_MB = 2**20
_TABLE = replace(table(a=datatypes.INT8), partition_key=(PartitionColumn(1, "bucket(4)"),))
_KEY = _TABLE.divided_by
_POLICY = Policy(8, 128 * _MB, 0.2)


def file(name: str, partition: Partition | None, size: int = _MB, *, hot: bool = False) -> DataFile:
    statistics = {1: ColumnStatistics(100, 0, 50, "1", "9")}
    return DataFile(name, 100, size, 10, statistics, hot_rows="{}" if hot else None, partition=partition)


def of(value: PartitionValue) -> Partition:
    return Partition(_KEY, (value,))


def found(*files: DataFile, policy: Policy = _POLICY) -> list[list[str]]:
    return [[each.path for each in group] for group in due(TableVersion(_TABLE, 1, files), policy)]


def test_only_files_of_one_partition_are_merged() -> None:
    mixed = [file(f"{name}{number}", of(place)) for number in range(7) for place, name in enumerate("abc")]
    assert found(*mixed) == [], "each partition has too few small files"
    assert found(*mixed, file("b7", of(1))) == [[f"b{number}" for number in range(8)]]
    by_name = {name: [f"{name}{number}" for number in range(7)] for name in "abc"}
    assert found(*mixed, policy=replace(_POLICY, min_files=2)) == [*by_name.values()]
    assert found(*mixed, policy=replace(_POLICY, all_files=True)) == [*by_name.values()]
    assert found(*mixed[:2], file("a9", of(0), 500 * _MB), policy=replace(_POLICY, min_files=2)) == []


def test_files_without_a_partition_are_divided() -> None:
    shared = Partition(_KEY, None)
    before, other = file("before", None, 500 * _MB), file("other", Partition(((1, "bucket(5)"),), (0,)), 500 * _MB)
    assert found(before, file("a", of(0)), other) == [["before", "other"]]
    assert found(file("shared", shared, 500 * _MB)) == [], "it has been divided as far as it may be"
    assert found(*(file(f"s{number}", shared) for number in range(7))) == []
    small = [file(f"s{number}", shared) for number in range(4)]
    hot = [file(f"h{number}", None, 100, hot=True) for number in range(8)]
    assert found(*small, *hot[:7]) == []
    assert found(*small, *hot) == [[each.path for each in hot]]
    assert found(*small, *hot[:1], policy=replace(_POLICY, hot_rows=True)) == [["h0"]]
    assert found(file("s", shared, 500 * _MB), file("a", of(0)), policy=replace(_POLICY, all_files=True)) == [
        ["s"],
        ["a"],
    ]
    huge = [file(f"l{number}", None, 1_000 * _MB) for number in range(9)]
    assert [len(group) for group in due(TableVersion(_TABLE, 1, tuple(huge)), _POLICY)] == [4, 4, 1], "4 GB at a time"
    assert all(is_to_be_divided(_TABLE, each) for each in (before, other, small[0]))
    assert not is_to_be_divided(_TABLE, file("a", of(0)))
    assert not is_to_be_divided(replace(_TABLE, partition_key=()), before)


_VALUES: dict[int, list[Any]] = {
    datatypes.INT2: [0, -1, 32767],
    datatypes.INT8: [0, -1, 2**63 - 1, -(2**63)],
    datatypes.TEXT: ["", "a", "Ünï 🙂", "x" * 300],
    datatypes.BYTEA: [b"", b"\xff\x00", b"x" * 300],
    datatypes.DATE: [datetime.date(1969, 12, 31), datetime.date(2026, 1, 1)],
    datatypes.TIMESTAMP: [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(2026, 1, 1)],
    datatypes.TIMESTAMPTZ: [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)],
    datatypes.TIME: [datetime.time(23, 59, 59, 999999), datetime.time(0)],
}


@pytest.mark.parametrize("oid", _VALUES)
def test_an_equality_reads_the_bucket_that_has_the_value(tmp_path: Path, oid: int) -> None:
    plain = table(c=oid)
    of_buckets = replace(plain, partition_key=(PartitionColumn(1, "bucket(3)"),))
    values = _VALUES[oid]
    version = write(tmp_path, of_buckets, rows(of_buckets, *((value,) for value in [*values, None])))
    assert check_partitions([version]) == []
    # Bounds alone leave out none of them.
    blunt = tuple(
        replace(each, statistics={1: replace(each.statistics[1], minimum=None, maximum=None)}) for each in version.files
    )
    for value in values:
        for operator in ("=", "in"):
            kept, _ = prune(blunt, of_buckets, [Comparison(1, operator, (value,))])
            assert len(kept) == 1
            only = write(tmp_path, of_buckets, rows(of_buckets, (value,)))
            assert kept[0].partition == only.files[0].partition
    kept, _ = prune(blunt, of_buckets, [Comparison(1, "in", tuple(values))])
    assert len(kept) == len({each.partition for each in blunt}) - 1, "all but that of NULL"


def test_what_has_no_bucket_leaves_out_nothing() -> None:
    files = [file(str(bucket), of(bucket)) for bucket in range(4)]
    for value in (2**63, 1.5, "1", uuid.UUID(int=1), True):
        kept, _ = prune(files, _TABLE, [Comparison(1, "in", (value, 5))])
        assert len(kept) == 4 or value == 2**63, value
    for operator in ("<", "<=", ">", ">="):
        assert len(prune(files, _TABLE, [Comparison(1, operator, (5,))])[0]) == 4
    assert len(prune(files, _TABLE, [Comparison(1, "=", (5,))])[0]) == 1
    foreign = [replace(each, partition=Partition(((2, "bucket(4)"),), (0,))) for each in files]
    assert len(prune(foreign, _TABLE, [Comparison(1, "=", (5,))])[0]) == 4, "by another column"


def test_wrong_values_are_told() -> None:
    def told(partition: Partition, statistics: ColumnStatistics) -> int:
        wrong = replace(file("f", partition), statistics={1: statistics})
        return len(check_partitions([TableVersion(_TABLE, 1, (wrong,))]))

    identity = ((1, "identity"),)
    bounds = ColumnStatistics(5, 0, 1, "7", "7")
    assert told(Partition(identity, ("7",)), bounds) == 0
    assert told(Partition(identity, ("8",)), bounds) == 1
    assert told(Partition(identity, ("7",)), replace(bounds, maximum="8")) == 1
    assert told(Partition(identity, ("7",)), replace(bounds, null_count=1)) == 1
    assert told(Partition(identity, (None,)), bounds) == 1
    assert told(Partition(identity, (None,)), ColumnStatistics(0, 5, 1)) == 0
    assert told(Partition(identity, None), bounds) == 0
    assert told(Partition(((9, "identity"),), ("8",)), bounds) == 0, "the column is gone"
