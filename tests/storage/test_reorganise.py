"""Rewritten files: several small ones become one, and each row can be found again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from catalog import datatypes
from catalog.model import Column
from storage.maintenance.reorganise import Rewritten, by_new_file, live_positions, lost_since, packs, rewritten
from storage.parquet.small_files import FILE_ROWS_MAX
from storage.spark.write import replace_rows
from tests.storage.lake import rows, table, write


def test_small_files_that_follow_each_other_are_a_pack(tmp_path: Path) -> None:
    of = table(a=datatypes.INT4)
    small = write(tmp_path, of, *(rows(of, (number,)) for number in range(4))).files
    large = [dataclasses.replace(file, path=f"large-{file.path}", record_count=FILE_ROWS_MAX + 1) for file in small[:2]]
    found = list(packs([small[0], *large, small[1], small[2], small[3]]))
    assert found == [[small[0]], [large[0]], [large[1]], [small[1], small[2], small[3]]]
    assert list(packs([])) == []


def test_rows_of_several_files_one_after_the_other(tmp_path: Path) -> None:
    """Deleted ones are there too, with NULL for what is given; and a source that is gone has lost all of its rows."""
    of = table(a=datatypes.INT4, b=datatypes.TEXT)
    new = dataclasses.replace(of, columns=(of.columns[0], Column(3, 9, "c", datatypes.INT4, -1, True)))
    version = write(tmp_path, of, rows(of, (1, "x"), (2, "y")), rows(of, (3, "z")), rows(of, (4, "u"), (5, "v")))
    path = str(tmp_path)
    [delete_file] = replace_rows(path, version, {version.files[2].path: np.array([0])}).delete_files.values()
    files = [*version.files[:2], dataclasses.replace(version.files[2], delete_file=delete_file)]
    positions = [live_positions(path, of, file) for file in files]
    assert [each.tolist() for each in positions] == [[0, 1], [0], [1]]
    found = rewritten(path, of, new, files, positions, {3: pa.array([10, 20, 30, 50], pa.int32())})
    assert [each.first for each in found] == [0, 2, 3]
    file = found[0].file
    assert all(each.file is file for each in found)
    written = pq.read_table(tmp_path / of.path / file.path)
    assert written.to_pydict() == {"a": [1, 2, 3, 4, 5], "c": [10, 20, 30, None, 50]}
    [(same, sources)] = by_new_file(zip(files, found, strict=True))
    assert same == file
    assert lost_since(path, new, file, sources).tolist() == [3]
    assert lost_since(path, new, file, [sources[0], sources[2]]).tolist() == [2, 3]
    assert by_new_file([(files[0], Rewritten(file, 0)), (files[1], Rewritten(files[1], 0))]) == [
        (file, [(files[0], 0)]),
        (files[1], [(files[1], 0)]),
    ]
