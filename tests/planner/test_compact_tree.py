"""Long constants of a tree are kept beside its text, wherever the slices cut it, and the tree is the same."""

from __future__ import annotations

import random

import pytest

from planner.tree import compact_tree
from planner.tree.compact_tree import compact
from planner.tree.nodes import parse

_LINE = 78


def _printed(sizes: list[int], seed: int) -> bytes:
    """A list of constants of these sizes as PostgreSQL prints it, in lines that end at blanks."""
    chosen = random.Random(seed)
    text = "("
    for number, size in enumerate(sizes):
        octets = chosen.randbytes(size)
        # As characters have signs on one machine, and none on another.
        numbers = [octet - 256 if number % 2 and octet > 127 else octet for octet in octets]
        content = "".join(f"{each} " for each in numbers)
        text += (
            "{CONST :consttype 17 :consttypmod -1 :constcollid 0 :constlen -1 :constbyval false :constisnull false"
            f" :location {number} :constvalue {size} [ {content}]}} {{X :name na\\ me\\ [\\ 1\\ 2ü :list (i 1 2 3)}} "
        )
    text = text.rstrip() + ")"
    lines = []
    while len(text) > _LINE:
        end = text.rindex(" ", 0, _LINE + 1)
        lines.append(text[:end])
        text = text[end + 1 :]
    return "\n".join([*lines, text]).encode()


@pytest.mark.parametrize("slice_bytes", [1 << 18, 20_011, 9_000, 5_003])
def test_the_tree_is_the_same(monkeypatch: pytest.MonkeyPatch, slice_bytes: int) -> None:
    monkeypatch.setattr(compact_tree, "_SLICE", slice_bytes)
    for seed in range(5):
        sizes = random.Random(seed).choices([4, 8, 900, 1_200, 3_000, 20_000], k=7)
        printed = _printed(sizes, seed)
        made = compact(b"head" + printed + b"\0tail", 4, len(printed) + 4)
        assert parse(made) == parse(printed.decode())
        large = [size for size in sizes if size >= 3_000]
        assert [len(constant) for constant in made.kept if len(constant) >= 3_000] == large
        assert len(made.text) < len(printed) / 2


def test_trees_that_differ_in_a_constant_differ() -> None:
    one, other = (_printed([5_000], seed) for seed in (1, 2))
    assert compact(one, 0, len(one)) != compact(other, 0, len(other))
    assert compact(one, 0, len(one)) == compact(bytearray(one), 0, len(one))
