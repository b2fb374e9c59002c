"""Long tokens of a tree end where the reader's own expression says that shorter ones do, and mean the same."""

from __future__ import annotations

import re
import time
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.tree import long_text
from planner.tree.long_tokens import read_long
from planner.tree.nodes import _TOKEN, parse

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_STRING, _WORD = 7, 8


@pytest.mark.parametrize("piece", [3, 7, 1 << 16])
@given(st.text(alphabet='ab"\\ \n)}({x', min_size=1, max_size=40))
def test_they_end_where_short_ones_do(piece: int, text: str) -> None:
    found = _TOKEN.match(text)
    if found is None or found.lastindex not in (_STRING, _WORD):
        return
    expected = _ESCAPE.sub(r"\1", found[found.lastindex]), found.end(), found.lastindex == _STRING
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_text, "_MATCH", piece)
        assert read_long(text, 0) == expected


def _told(text: str) -> str:
    """As outToken writes it."""
    return re.sub(r"[ \n\t(){}\\]", r"\\\g<0>", text)


@pytest.mark.parametrize("body", ["x", "a b", '"q" ', "\\", "(", "ü ", '"', "1"])
def test_long_ones_mean_what_was_written(body: str) -> None:
    text = f"a{body * 200_000}z"
    begin = time.monotonic()
    tree = parse(f'{{DOSTMT :args ({{DEFELEM :arg "{_told(text)}" :defname as}}) :word {_told(text)}}}')
    assert tree.args[0].arg == tree.word == text
    assert tree.args[0].defname == "as"
    assert time.monotonic() - begin < 10


def test_a_number_that_int_does_not_read() -> None:
    digits = "9" * 5_000
    assert parse(f"{{FLOAT :fval {digits} :location 4}}").fval == digits
