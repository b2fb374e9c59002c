"""Rows of small files are read once, and evicted when others need the memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import datatypes
from catalog.errors import SluiceError, SqlState
from catalog.model import DataFile, TableVersion
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles
from storage.parquet.parquet_writer import ParquetWriter
from storage.parquet.small_files import FILE_ROWS_MAX, SmallFiles, is_small, small_files
from tests.storage.lake import rows, table, write

# In the order of the values of the test below.
_TYPES = (
    datatypes.BOOL, datatypes.INT2, datatypes.INT4, datatypes.INT8, datatypes.FLOAT4, datatypes.FLOAT8, datatypes.TEXT,
    datatypes.VARCHAR, datatypes.BYTEA, datatypes.DATE, datatypes.TIME, datatypes.TIMESTAMP, datatypes.TIMESTAMPTZ,
    1007,  # integer[]
)  # fmt: skip


def written(tmp_path: Path, count: int) -> tuple[LakeFiles, TableVersion, list[DataFile]]:
    """Files of one row each: 0, 1, …"""
    of = table(a=datatypes.INT4, b=datatypes.TEXT)
    version = write(tmp_path, of, *(rows(of, (number, "x" * 1000)) for number in range(count)))
    return LakeFiles(str(tmp_path)), version, list(version.files)


def test_a_file_is_read_once(tmp_path: Path) -> None:
    lake, version, [file] = written(tmp_path, 1)
    kept = SmallFiles()
    first = kept.read(lake, version.table.path, file)
    assert first is not None
    assert first.rows.column(0).to_pylist() == [0]
    assert first.names == {1: "a", 2: "b"}
    (tmp_path / version.table.path / file.path).write_bytes(bytes(file.size_bytes))
    assert kept.read(lake, version.table.path, file) is first
    with pytest.raises(SluiceError) as raised:
        SmallFiles().read(lake, version.table.path, file)
    assert raised.value.sqlstate == SqlState.DATA_CORRUPTED


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_what_is_kept_does_not_hide_that_the_file_is_damaged(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    lake, version, [file] = written(tmp_path, 1)
    kept = SmallFiles()
    kept.read(lake, version.table.path, file)
    damage(tmp_path / version.table.path / file.path)
    with pytest.raises(SluiceError) as raised:
        kept.read(lake, version.table.path, file)
    assert raised.value.sqlstate in {SqlState.IO_ERROR, SqlState.DATA_CORRUPTED}
    assert file.path in raised.value.message


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    lake, version, paths = written(tmp_path, 20)
    kept = SmallFiles(bytes_max=16 * 2048)  # a row takes some 2,030
    first = kept.read(lake, version.table.path, paths[0])
    second = kept.read(lake, version.table.path, paths[1])
    for path in paths[2:]:
        assert kept.read(lake, version.table.path, paths[0]) is first
        kept.read(lake, version.table.path, path)
    assert kept.read(lake, version.table.path, paths[1]) is not second


def test_rows_that_are_large_unpacked_are_not_kept(tmp_path: Path) -> None:
    of = table(b=datatypes.TEXT)
    version = write(tmp_path, of, rows(of, ("x" * 100_000,)))
    assert is_small(version.files[0])
    kept, lake = SmallFiles(bytes_max=400_000), LakeFiles(str(tmp_path))
    file = version.files[0]
    assert kept.read(lake, version.table.path, file) is not kept.read(lake, version.table.path, file)


def test_rows_that_were_written_are_kept_as_they_are_stored(tmp_path: Path) -> None:
    of = table(**{f"c{oid}": oid for oid in _TYPES}, price=(datatypes.NUMERIC, (10 << 16 | 2) + 4))
    value = (True, 1, 2, 3, 1.5, float("nan"), "t", "v", b"b", 1, 2, 3, 4, [1, None], Decimal("1.50"))
    version = write(tmp_path, of, rows(of, value, (None,) * len(value)))
    lake, file = LakeFiles(str(tmp_path)), version.files[0]
    stored = SmallFiles().read(lake, version.table.path, file)
    (tmp_path / version.table.path / file.path).write_bytes(bytes(file.size_bytes))
    kept = small_files.read(lake, version.table.path, file)
    assert kept is not None
    assert stored is not None
    assert kept.names == stored.names
    assert kept.rows.schema == stored.rows.schema
    assert str(kept.rows.to_pydict()) == str(stored.rows.to_pydict())


def test_what_is_small(tmp_path: Path) -> None:
    _, version, _ = written(tmp_path, 1)
    [file] = version.files
    assert is_small(file)
    assert not is_small(dataclasses.replace(file, record_count=FILE_ROWS_MAX + 1))
    assert not is_small(dataclasses.replace(file, size_bytes=2**20))


def _packed(tmp_path: Path, count: int, width: int) -> tuple[TableVersion, DataFile]:
    """A file that repeats one value: a few kilobytes, however wide the value is."""
    of = table(i=datatypes.INT4, b=datatypes.TEXT)
    writer = ParquetWriter(str(tmp_path), of)
    for start in range(0, count, 20):
        writer.write(rows(of, *((number, "x" * width) for number in range(start, min(start + 20, count)))))
    version = TableVersion(of, 1, tuple(writer.finish()))
    assert is_small(version.files[0])
    return version, version.files[0]


@pytest.mark.parametrize(
    ("count", "width", "is_read"), [(1000, 15_000, True), (1000, 17_000, False), (30, 10**6, False)]
)
def test_a_small_file_of_large_rows_is_not_read_whole(tmp_path: Path, count: int, width: int, is_read: bool) -> None:
    version, file = _packed(tmp_path, count, width)
    found = SmallFiles().read(LakeFiles(str(tmp_path)), version.table.path, file)
    assert (found is not None) is is_read


def test_large_rows_of_a_small_file_come_in_batches(tmp_path: Path) -> None:
    version, _ = _packed(tmp_path, 200, 10**6)
    before, position = pa.total_allocated_bytes(), 0
    for first, batch in read_rows(LakeFiles(str(tmp_path)), version.table, version.files[0], version.table.columns):
        assert first == position
        assert batch.column("i").to_pylist() == list(range(first, first + batch.num_rows))
        assert set(batch.column("b").to_pylist()) == {"x" * 10**6}
        assert pa.total_allocated_bytes() - before < 50 * 2**20
        position += batch.num_rows
    assert position == 200


def test_row_groups_count_together(tmp_path: Path) -> None:
    wide = pa.table({"b": ["x" * 10**6] * 20})
    pq.write_table(wide, tmp_path / "f.parquet", row_group_size=1, compression="zstd")
    file = DataFile("f.parquet", 20, (tmp_path / "f.parquet").stat().st_size, 0)
    assert file.size_bytes < 64 * 1024
    assert SmallFiles().read(LakeFiles(str(tmp_path)), "", file) is None
