"""Rows of a large file by their keys: those that have them, whatever its fingerprints say, and no deleted ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catalog import datatypes
from catalog.model import TableVersion
from gateway.execution.reading import handed_rows
from gateway.execution.reading.handed_rows import rows_by_keys
from planner.plans.row_filter import WantedKeys
from storage.indexes import keys
from storage.indexes.fingerprints import Fingerprints
from storage.parquet import file_rows
from storage.spark.write import replace_rows
from tests.storage.lake import rows, table, write


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("alike", [False, True], ids=["told apart", "alike"])
@pytest.mark.parametrize("needed", [None, "name"])
def test_only_rows_with_the_keys_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool, alike: bool, needed: str | None
) -> None:
    if large:
        for module in (keys, file_rows, handed_rows):
            monkeypatch.setattr(module, "is_small", lambda _: False)
    if alike:  # as if all keys had one fingerprint
        monkeypatch.setattr(Fingerprints, "places", lambda self, _: np.sort(self.positions).astype(np.int64))
    of = table(id=datatypes.INT4, name=datatypes.TEXT)
    version = write(tmp_path, of, rows(of, (1, "a"), (2, "b"), (None, "n"), (4, "d")), rows(of, (5, "e"), (4, "f")))
    gone = replace_rows(str(tmp_path), version, {version.files[0].path: np.array([3])}).delete_files
    files = tuple(replace(file, delete_file=gone.get(file.path)) for file in version.files)
    version = TableVersion(of, 1, files)
    chosen = None if needed is None else [column for column in of.columns if column.name == needed]
    found = rows_by_keys(str(tmp_path), version, WantedKeys((1,), [(2,), (4,), (7,)]), chosen)
    assert found is not None
    assert found.rows["name"].to_pylist() == ["b", "f"]
    assert found.rows["id"].to_pylist() == [2, 4]
    assert [found.files[number].path for number in found.file_numbers] == [file.path for file in files]
    assert found.positions.tolist() == [1, 1]
