"""Large trees are freed in a thread of their own, one node after another."""

from __future__ import annotations

import sys
import time

from planner.tree.nodes import parse

_COUNT = 20_000
_SECONDS_MAX = 10.0
_CONST = (
    "{{CONST :consttype 23 :consttypmod -1 :constcollid 0 :constlen 4 :constbyval true :constisnull false :location {}"
    " :constvalue 4 [ 1 0 0 0 0 0 0 0 ]}}"
)


def test_a_node_that_is_kept_outlives_its_tree() -> None:
    tree = parse(f"({{QUERY :args ({' '.join(map(_CONST.format, range(_COUNT)))})}})")
    kept = tree[0].args[7]
    assert sys.getrefcount(kept) == 4, "it is in its list, in that of the root's, here, and in the call"
    del tree
    begun = time.monotonic()
    while sys.getrefcount(kept) > 2:
        assert time.monotonic() - begun < _SECONDS_MAX
        time.sleep(0.01)
    assert kept.location == 7
    assert kept.constvalue == bytes([1, 0, 0, 0])
