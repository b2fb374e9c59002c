"""Every kind of fault is found, and a sound lake has none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import datatypes
from catalog.model import DataFile, DeleteFile, TableVersion
from storage.maintenance.check import check_files
from storage.parquet import layout
from storage.parquet.files import LakeFiles
from storage.parquet.positions import DeletedPositions
from tests.storage.lake import rows, table, write


@pytest.fixture
def version(tmp_path: Path) -> TableVersion:
    """Two files of ten rows, of which the first has lost two."""
    of = table(a=datatypes.INT4)
    version = write(tmp_path, of, *(rows(of, *((n,) for n in range(10))) for _ in range(2)))
    deleted = DeletedPositions(version)
    path = version.files[0].path
    deleted.add(pa.array([path, path]), pa.array([3, 7], pa.int64()))
    (delete_file,) = deleted.write(LakeFiles(str(tmp_path))).values()
    files = (dataclasses.replace(version.files[0], delete_file=delete_file), version.files[1])
    return dataclasses.replace(version, files=files)


def _full(tmp_path: Path, version: TableVersion, file: DataFile | DeleteFile) -> Path:
    return tmp_path / version.table.path / file.path


def test_a_sound_lake_has_no_faults(tmp_path: Path, version: TableVersion) -> None:
    older = dataclasses.replace(version, files=(dataclasses.replace(version.files[0], delete_file=None),))
    assert check_files(str(tmp_path), [older, version]) == []
    assert check_files(str(tmp_path / "nothing"), []) == []


def test_orphans_are_named(tmp_path: Path, version: TableVersion) -> None:
    of = version.table
    left = write(tmp_path, of, rows(of, (1,))).files[0]
    job = tmp_path / of.path / layout.new_job_folder() / "_temporary" / "part-0.parquet"
    job.parent.mkdir(parents=True)
    job.write_bytes(b"half")
    found = check_files(str(tmp_path), [version])
    assert [(each.kind, each.path) for each in found] == sorted(
        [("orphan", of.path + left.path), ("orphan", str(job.relative_to(tmp_path)))], key=lambda pair: pair[1]
    )
    assert "it was begun 0 s ago" in found[0].message or "it was begun 1 s ago" in found[0].message


def _rewritten(path: Path, content: pa.Table) -> None:
    pq.write_table(content, path)


@pytest.mark.parametrize(
    ("damage", "kinds"),
    [
        (lambda path: path.unlink(), ["missing"]),
        (lambda path: path.write_bytes(path.read_bytes()[:-5]), ["size", "unreadable"]),
        (lambda path: path.write_bytes(bytes(path.stat().st_size)), ["unreadable"]),
        (lambda path: _rewritten(path, pa.table({"a": [1]})), ["field ids", "record count", "size"]),
    ],
)
def test_a_damaged_data_file_is_found(
    tmp_path: Path, version: TableVersion, damage: Callable[[Path], object], kinds: list[str]
) -> None:
    damage(_full(tmp_path, version, version.files[1]))
    found = check_files(str(tmp_path), [version])
    assert [each.kind for each in found] == kinds
    assert {each.path for each in found} == {version.table.path + version.files[1].path}


@pytest.mark.parametrize(
    ("positions", "kinds"),
    [
        ([3, 10], ["deletes"]),
        ([7, 3], ["deletes"]),
        ([3, 3], ["deletes"]),
        ([-1, 3], ["deletes"]),
        ([3], ["record count"]),
    ],
)
def test_wrong_positions(tmp_path: Path, version: TableVersion, positions: list[int], kinds: list[str]) -> None:
    delete_file = version.files[0].delete_file
    assert delete_file is not None
    path = _full(tmp_path, version, delete_file)
    _rewritten(path, pa.table({"file_path": ["x"] * len(positions), "pos": positions}))
    same_size = dataclasses.replace(delete_file, size_bytes=path.stat().st_size)
    files = (dataclasses.replace(version.files[0], delete_file=same_size), version.files[1])
    found = check_files(str(tmp_path), [dataclasses.replace(version, files=files)])
    assert [each.kind for each in found] == kinds


def test_a_file_whose_columns_have_all_been_replaced_since_is_no_fault(tmp_path: Path, version: TableVersion) -> None:
    columns = tuple(dataclasses.replace(each, column_id=each.column_id + 100) for each in version.table.columns)
    later = dataclasses.replace(version, table=dataclasses.replace(version.table, columns=columns))
    assert check_files(str(tmp_path), [later]) == []
