"""Rows of small files are read once, and let go of when others need the memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from catalog import datatypes
from catalog.errors import SluiceError, SqlState
from catalog.model import TableVersion
from storage import layout
from storage.files import LakeFiles
from storage.small_files import FILE_ROWS_MAX, SmallFiles, is_small
from tests.storage.lake import rows, table, write


def written(tmp_path: Path, count: int) -> tuple[LakeFiles, TableVersion, list[str]]:
    """Files of one row each: 0, 1, …"""
    of = table(a=datatypes.INT4, b=datatypes.TEXT)
    version = write(tmp_path, of, *(rows(of, (number, "x" * 1000)) for number in range(count)))
    return LakeFiles(str(tmp_path)), version, [layout.join(of.path, file.path) for file in version.files]


def test_a_file_is_read_once(tmp_path: Path) -> None:
    lake, _, [path] = written(tmp_path, 1)
    kept = SmallFiles()
    first = kept.read(lake, path)
    assert first.rows.column(0).to_pylist() == [0]
    assert first.names == {1: "a", 2: "b"}
    (tmp_path / path).unlink()
    assert kept.read(lake, path) is first
    with pytest.raises(SluiceError) as raised:
        SmallFiles().read(lake, path)
    assert raised.value.sqlstate == SqlState.IO_ERROR


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    lake, _, paths = written(tmp_path, 20)
    kept = SmallFiles(bytes_max=16 * 2048)  # a row takes some 2,030
    first = kept.read(lake, paths[0])
    second = kept.read(lake, paths[1])
    for path in paths[2:]:
        assert kept.read(lake, paths[0]) is first
        kept.read(lake, path)
    assert kept.read(lake, paths[1]) is not second


def test_rows_that_are_large_unpacked_are_not_kept(tmp_path: Path) -> None:
    of = table(b=datatypes.TEXT)
    version = write(tmp_path, of, rows(of, ("x" * 100_000,)))
    assert is_small(version.files[0])
    kept, lake = SmallFiles(bytes_max=400_000), LakeFiles(str(tmp_path))
    path = layout.join(of.path, version.files[0].path)
    assert kept.read(lake, path) is not kept.read(lake, path)


def test_what_is_small(tmp_path: Path) -> None:
    _, version, _ = written(tmp_path, 1)
    [file] = version.files
    assert is_small(file)
    assert not is_small(dataclasses.replace(file, record_count=FILE_ROWS_MAX + 1))
    assert not is_small(dataclasses.replace(file, size_bytes=2**20))
