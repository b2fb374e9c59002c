"""The cache of parsed trees."""

from __future__ import annotations

import pytest

from catalog.errors import SluiceError
from planner.tree import parsed_trees
from planner.tree.compact_tree import TreeText
from planner.tree.parsed_trees import parsed


def _node(number: int, width: int = 0) -> str:
    return f"{{PARAM :paramkind 0 :paramid {number} :name {'x' * width or '<>'}}}"


def test_equal_texts_give_the_same_tree() -> None:
    assert parsed(_node(1)) is parsed(TreeText(_node(1)))
    assert parsed(_node(1)).paramid == 1
    assert parsed(_node(2)).paramid == 2


def test_an_empty_tree() -> None:
    assert parsed("<>") is None
    assert parsed("<>") is None


def test_an_error_is_not_cached() -> None:
    for _ in range(2):
        with pytest.raises(SluiceError):
            parsed("{PARAM")


def test_constants_beside_the_text_are_not_mistaken() -> None:
    text = "{CONST :consttype 25 :constvalue 8 [ #0:abc ]}"
    first, second = (parsed(TreeText(text, (kept,))) for kept in (b"1 2 3 4 5 6 7 8 ", b"8 7 6 5 4 3 2 1 "))
    assert first.constvalue != second.constvalue


def test_memory_is_bounded() -> None:
    for number in range(500):
        parsed(_node(number, 10_000))
    assert parsed_trees._kept.currsize <= parsed_trees._CHARACTERS_MAX
    assert len(parsed_trees._kept) <= parsed_trees._CHARACTERS_MAX / 10_000
    text = _node(0, parsed_trees._LENGTH_MAX)
    assert parsed(text) is not parsed(text)
