"""The settings that a statement reads, wherever PostgreSQL breaks the lines of its tree."""

from __future__ import annotations

import pytest

from planner.syntax.asked_settings import asked_settings
from planner.tree.compact_tree import TreeText
from planner.tree.nodes import parse

_NAME = "".join(f"{byte} " for byte in b"app.tenant")
_TREE = (
    "{FUNCEXPR :funcid 2077 :args ({CONST :consttype 25 :consttypmod -1 :constcollid 100 :constlen -1"
    f" :constbyval false :constisnull false :location 7 :constvalue 14 [ 56 0 0 0 {_NAME}]}}) :location 7}}"
)


@pytest.mark.parametrize("separator", [" ", "\n"])
@pytest.mark.parametrize("before", [0, (1 << 16) - 8, 1 << 16])
def test_a_call_is_found(separator: str, before: int) -> None:
    written = TreeText("x" * before + _TREE.replace(":funcid ", ":funcid" + separator))
    assert asked_settings(written, parse(_TREE)) == {"app.tenant"}


def test_another_function_reads_none() -> None:
    assert asked_settings(TreeText(_TREE.replace("2077", "20771")), parse(_TREE)) == set()
