"""The heap's share always has a rest for the next taker, and never gives more than it has."""

from __future__ import annotations

from storage.spark.heap_share import HeapShare


def test_each_takes_half_of_what_is_left_at_most() -> None:
    share = HeapShare(4_096)
    taken = [share.take(10_000) for _ in range(4)]
    assert taken == [512, 256, 128, 64]
    assert share.left == 64
    for each in taken:
        share.give_back(each)
    assert share.left == 1_024


def test_who_wants_little_has_it() -> None:
    share = HeapShare(4_096)
    assert share.take(100) == 100
    assert share.left == 924
    assert share.offered(10_000) == 462
