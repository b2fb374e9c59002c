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


def test_other_rows_become_one_file(lake: LakeFiles, lake_path: Path) -> None:
    [file] = write(lake_path, _TABLE, pa.table({"a": np.arange(10)})).files

    def deleting(number: int, replaces: int | None, *positions: int) -> DeleteFile:
        written = write_delete_file(lake, _TABLE.path, file, np.array(positions, np.int64), replaces)
        return replace(written, delete_file_id=number)

    first = deleting(1, None, 2, 3)
    both = merged(lake, _TABLE.path, file, deleting(0, 1, 2, 3, 7), deleting(2, 1, 1, 2, 3), first.delete_count)
    assert deleted_positions(lake, _TABLE.path, both).tolist() == [1, 2, 3, 7]
    assert both.replaces == 2
    alone = merged(lake, _TABLE.path, file, deleting(0, None, 5), None, 0)
    assert deleted_positions(lake, _TABLE.path, alone).tolist() == [5]
    with pytest.raises(SluiceError) as refused:
        merged(lake, _TABLE.path, file, deleting(0, 1, 2, 3, 7), deleting(2, 1, 2, 3, 7), first.delete_count)
    assert refused.value.sqlstate == SqlState.SERIALIZATION_FAILURE
