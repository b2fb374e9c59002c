"""Delete files of two transactions become one, unless both have deleted the same row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from catalog import datatypes
from catalog.errors import SluiceError, SqlState
from catalog.model import DeleteFile
from storage.parquet.files import LakeFiles
from storage.parquet.positions import deleted_positions, merged, write_delete_file
from tests.storage.lake import table, write

_TABLE = table(a=datatypes.INT8)


@pytest.fixture
def lake(lake_path: Path) -> LakeFiles:
    return LakeFiles(str(lake_path))


@pytest.mark.parametrize("inlined_max", [0, 2, 3, 100])
def test_other_rows_become_one_file(
    lake: LakeFiles, lake_path: Path, monkeypatch: pytest.MonkeyPatch, inlined_max: int
) -> None:
    monkeypatch.setattr("storage.parquet.positions.INLINED_MAX", inlined_max)
    [file] = write(lake_path, _TABLE, pa.table({"a": np.arange(10)})).files

    def deleting(number: int | None, before: DeleteFile | None, *positions: int) -> DeleteFile:
        written = write_delete_file(lake, _TABLE.path, file, np.array(positions, np.int64), before, inlined_max)
        base = written.base and replace(written.base, delete_file_id=number)
        return replace(written, delete_file_id=number, base=base)

    first = deleting(1, None, 2, 3)
    both = merged(lake, _TABLE.path, file, deleting(None, first, 2, 3, 7), deleting(2, first, 1, 2, 3), 2)
    assert deleted_positions(lake, _TABLE.path, both).tolist() == [1, 2, 3, 7]
    assert both.replaces == 2
    alone = merged(lake, _TABLE.path, file, deleting(None, None, 5), None, 0)
    assert deleted_positions(lake, _TABLE.path, alone).tolist() == [5]
    with pytest.raises(SluiceError) as refused:
        merged(lake, _TABLE.path, file, deleting(None, first, 2, 3, 7), deleting(2, first, 2, 3, 7), 2)
    assert refused.value.sqlstate == SqlState.SERIALIZATION_FAILURE


def test_few_positions_have_no_file(lake: LakeFiles, lake_path: Path) -> None:
    """What the catalog has stays there, and no file has it too: DuckDB would take it for twice deleted."""
    [file] = write(lake_path, _TABLE, pa.table({"a": np.arange(100)})).files
    before, known, chosen = None, set[int](), np.random.default_rng(1)
    for number in range(1, 20):
        fresh = set(chosen.integers(0, 100, chosen.integers(1, 4)).tolist()) - known
        deleted = np.array(sorted(known | fresh), np.int64)
        after = write_delete_file(lake, _TABLE.path, file, deleted, before, 3)
        assert deleted_positions(lake, _TABLE.path, after).tolist() == deleted.tolist()
        assert after.delete_count == len(deleted)
        if before is not None:
            assert after.replaces == before.delete_file_id
            assert set(before.positions or ()) <= set(after.positions or ())
        if after.file is not None:
            stored = deleted_positions(lake, _TABLE.path, after.file)
            assert not set(stored.tolist()) & set(after.positions or ())
        known |= fresh
        before = replace(after, delete_file_id=number, base=after.base and replace(after.base, delete_file_id=number))
    assert before is not None
    assert before.base is not None
