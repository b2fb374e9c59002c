"""Whether keys are there twice, and the order in which texts are sorted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import datatypes
from storage.indexes import repeated_keys
from storage.indexes.repeated_keys import repeats
from storage.indexes.rough_order import rough_order
from storage.spark.write import replace_rows
from tests.storage.lake import rows, table, write

_FAR = 2**62


@pytest.mark.parametrize(
    ("types", "files", "expected"),
    [
        ([datatypes.INT4], [[(1,), (2,)], [(3,)]], False),
        ([datatypes.INT4], [[(1,), (2,)], [(1,)]], True),
        ([datatypes.INT8, datatypes.INT4], [[(1, 2), (2, 1)], [(1, 1), (2, 2)]], False),
        ([datatypes.INT8, datatypes.INT4], [[(-5, 2), (2, 1)], [(1, 1), (-5, 2)]], True),
        ([datatypes.INT8, datatypes.INT8], [[(_FAR, -_FAR), (-_FAR, _FAR)], [(_FAR, _FAR)]], False),
        ([datatypes.INT8, datatypes.INT8], [[(_FAR, -_FAR), (-_FAR, _FAR)], [(_FAR, -_FAR)]], True),
        ([datatypes.TEXT, datatypes.INT2], [[("a", 1), ("a", 2)], [("b", 1), ("a ", 1)]], False),
        ([datatypes.TEXT, datatypes.INT2], [[("a", 1), ("é", 2)], [("b", 1), ("é", 2)]], True),
        ([datatypes.INT4, datatypes.INT4], [[(1, None), (None, 1), (1, None), (None, None)], [(1, None)]], False),
        ([datatypes.INT4], [[(None,), (None,)]], False),
        ([datatypes.INT4], [], False),
        ([datatypes.BOOL, datatypes.DATE], [[(True, 1), (False, 1), (True, -(2**31))]], False),
        ([datatypes.BOOL, datatypes.TIMESTAMP], [[(True, 7), (True, 7)]], True),
    ],
)
def test_repeated_keys(tmp_path: Path, types: list[int], files: list[list[tuple[Any, ...]]], expected: bool) -> None:
    of = table(**{f"c{n}": kind for n, kind in enumerate(types)})
    version = write(tmp_path, of, *(rows(of, *each) for each in files))
    assert repeats(str(tmp_path), version, of.columns) is expected


def test_deleted_rows_do_not_count(tmp_path: Path) -> None:
    of = table(a=datatypes.INT4)
    version = write(tmp_path, of, rows(of, (1,), (2,), (1,)))
    [file] = version.files
    [deleted] = replace_rows(str(tmp_path), version, {file.path: np.array([2])}).delete_files.values()
    assert repeats(str(tmp_path), version, of.columns) is True
    without = replace(version, files=(replace(file, delete_file=deleted),))
    assert repeats(str(tmp_path), without, of.columns) is False


def test_too_much_memory_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_keys, "_BYTES_MAX", 4)
    of = table(a=datatypes.TEXT)
    assert repeats(str(tmp_path), write(tmp_path, of, rows(of, ("abc",), ("abc",))), of.columns) is None


_TEXTS = st.lists(st.none() | st.text("aé\x01\U0010ffff", max_size=10) | st.text("a", min_size=7, max_size=20))


@given(_TEXTS, st.integers(0, 3))
def test_a_rough_order_changes_no_order(values: list[str | None], cut: int) -> None:
    texts = pa.array([*values, "x"], pa.string()).slice(min(cut, len(values)))
    rough = pa.array(rough_order(texts))
    exactly = rough.take(pc.sort_indices(texts.take(rough)))
    assert exactly.to_pylist() == pc.sort_indices(texts).to_pylist()
    firsts = [None if text is None else text.encode()[:8] for text in texts.take(rough).to_pylist()]
    assert firsts == sorted(firsts, key=lambda first: (first is None, first or b""))
