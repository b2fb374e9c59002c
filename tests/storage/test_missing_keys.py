"""Whether rows reference keys that are not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catalog import datatypes
from storage.indexes.missing_keys import lacks_keys
from tests.storage.lake import rows, table, write


@pytest.mark.parametrize(
    ("types", "mine", "parents", "expected"),
    [
        ([datatypes.INT4], [(1,), (2,)], [(2,), (1,), (3,)], False),
        ([datatypes.INT4], [(1,), (4,)], [(2,), (1,), (3,)], True),
        ([datatypes.INT4], [(None,)], [], False),
        ([datatypes.INT4], [(1,)], [], True),
        ([datatypes.INT4], [], [], False),
        ([datatypes.INT4, datatypes.TEXT], [(1, "a"), (None, "x"), (9, None)], [(1, "a"), (9, None)], False),
        ([datatypes.INT4, datatypes.TEXT], [(1, "a")], [(1, "b"), (2, "a")], True),
        ([datatypes.DATE], [(7,)], [(7,)], False),
    ],
)
def test_missing_keys(
    tmp_path: Path, types: list[int], mine: list[tuple[Any, ...]], parents: list[tuple[Any, ...]], expected: bool
) -> None:
    child, parent = (table(**{f"c{n}": kind for n, kind in enumerate(types)}) for _ in range(2))
    here, there = (
        write(tmp_path, of, *([rows(of, *found)] if found else [])) for of, found in ((child, mine), (parent, parents))
    )
    assert lacks_keys(str(tmp_path), here, child.columns, there, parent.columns) is expected


def test_integers_of_several_sizes(tmp_path: Path) -> None:
    child, parent = table(a=datatypes.INT2), table(a=datatypes.INT8)
    here, there = write(tmp_path, child, rows(child, (-3,), (5,))), write(tmp_path, parent, rows(parent, (5,), (-3,)))
    assert lacks_keys(str(tmp_path), here, child.columns, there, parent.columns) is False
