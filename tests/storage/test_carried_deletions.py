"""Rows that are deleted while files are merged are deleted from the merged files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from catalog import datatypes
from catalog.model import DataFile
from storage.maintenance.carried_deletions import carried_deletions
from storage.maintenance.compaction import merged
from storage.maintenance.sorted_files import source_order
from storage.parquet import layout
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles
from storage.parquet.hot_rows import hot_file
from storage.parquet.positions import deleted_positions, write_delete_file
from tests.storage.lake import table, write

_TABLE = table(a=datatypes.INT8)


def _live(files: LakeFiles, file: DataFile) -> list[int]:
    values = [v for _, batch in read_rows(files, _TABLE, file, _TABLE.columns) for v in batch.column(0).to_pylist()]
    gone = set() if file.delete_file is None else set(deleted_positions(files, _TABLE.path, file.delete_file).tolist())
    return [value for position, value in enumerate(values) if position not in gone]


def _deleting(files: LakeFiles, file: DataFile, positions: list[int], number: int) -> DataFile:
    before = file.delete_file
    known = [] if before is None else deleted_positions(files, _TABLE.path, before).tolist()
    every = np.array(sorted({*known, *positions}), np.int64)
    written = write_delete_file(files, _TABLE.path, file, every, before, 3)
    base = written.base and replace(written.base, delete_file_id=number)
    return replace(file, delete_file=replace(written, delete_file_id=number, base=base))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("halves", [False, True])
def test_deletions_since(lake_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, *, halves: bool) -> None:
    """Some of every file's rows were deleted before, others meanwhile; of some files all are, and of hot rows too."""
    monkeypatch.setattr("storage.maintenance.carried_deletions.INLINED_MAX", seed)
    chosen, files, first = np.random.default_rng(seed), LakeFiles(str(lake_path)), 0
    old = list[DataFile]()
    for number in range(6):
        count = int(chosen.integers(1, 20))
        values = pa.table({"a": np.arange(first, first + count)})
        first += count
        made = (
            hot_file(layout.new_data_file(), _TABLE.columns, values)
            if seed % 2 and number % 2
            else write(lake_path, _TABLE, values).files[0]
        )
        lost = chosen.integers(0, count, chosen.integers(0, 4)).tolist()
        old.append(_deleting(files, made, lost, number + 1) if lost else made)
    new = merged(str(lake_path), _TABLE, old, lambda: False)
    if halves:  # as if the rows were many
        alive = [value for file in new for value in _live(files, file)]
        half = len(alive) // 2
        new = write(lake_path, _TABLE, pa.table({"a": alive[:half]}), pa.table({"a": alive[half:]})).files
    now = {
        file.path: _deleting(files, file, chosen.integers(0, file.record_count, 3).tolist(), number + 10)
        for number, file in enumerate(old)
        if number != 3
    }
    deletions = {each.data_path: each for each in carried_deletions(str(lake_path), _TABLE, old, now, new)}
    assert all(each.data_file_id is None for each in deletions.values())
    for path in (path for each in deletions.values() for path in each.file.new_paths):
        assert (lake_path / layout.join(_TABLE.path, path)).exists()
    seen = [replace(file, delete_file=deletions[file.path].file if file.path in deletions else None) for file in new]
    assert [value for file in seen for value in _live(files, file)] == [
        value for file in now.values() for value in _live(files, file)
    ]


def test_nothing_since(lake_path: Path) -> None:
    old = write(lake_path, _TABLE, pa.table({"a": np.arange(5)})).files
    new = merged(str(lake_path), _TABLE, old, lambda: False)
    assert carried_deletions(str(lake_path), _TABLE, old, {file.path: file for file in old}, new) == ()


@pytest.mark.parametrize("seed", range(4))
def test_deletions_since_from_rows_in_another_order(lake_path: Path, seed: int) -> None:
    """As of a table with a sort key: each new row's file and position tell which one it was."""
    chosen, files = np.random.default_rng(seed), LakeFiles(str(lake_path))
    old = list[DataFile]()
    for number in range(5):
        count = int(chosen.integers(5, 20))
        made = write(lake_path, _TABLE, pa.table({"a": chosen.integers(0, 1000, count)})).files[0]
        lost = chosen.integers(0, count, chosen.integers(0, 4)).tolist()
        old.append(_deleting(files, made, lost, number + 1) if lost else made)
    rows = list[tuple[int, str, int]]()
    for file in old:
        gone = (
            set() if file.delete_file is None else set(deleted_positions(files, _TABLE.path, file.delete_file).tolist())
        )
        values = [v for _, batch in read_rows(files, _TABLE, file, _TABLE.columns) for v in batch.column(0).to_pylist()]
        rows += [(value, file.path, at) for at, value in enumerate(values) if at not in gone]
    rows.sort()
    half = len(rows) // 2
    new = write(
        lake_path, _TABLE, *(pa.table({"a": [value for value, *_ in part]}) for part in (rows[:half], rows[half:]))
    ).files
    source = pa.table({"file": [path for _, path, _ in rows], "position": [at for *_, at in rows]})
    now = {
        file.path: _deleting(files, file, chosen.integers(0, file.record_count, 3).tolist(), number + 10)
        for number, file in enumerate(old)
        if number != 3
    }
    order = source_order(str(lake_path), _TABLE, old, source.to_reader(max_chunksize=7))
    found = carried_deletions(str(lake_path), _TABLE, old, now, new, order)
    deletions = {each.data_path: each for each in found}
    seen = [replace(file, delete_file=deletions[file.path].file if file.path in deletions else None) for file in new]
    assert [value for file in seen for value in _live(files, file)] == sorted(
        value for file in now.values() for value in _live(files, file)
    )
