"""The line of every row is known, whether or not the lines follow each other."""

from __future__ import annotations

import pyarrow as pa

from gateway.copy_format import LineNumbers


def test_lines_of_rows() -> None:
    lines = LineNumbers()
    batches = [[2, 3, 4], [], [5, 8, 9], [10], [12, 13]]
    for batch in batches:
        lines.add(pa.array(batch, pa.int64()))
    expected = [line for batch in batches for line in batch]
    lines.add_unknown(2)
    lines.add(pa.array([20], pa.int64()))
    assert [lines.of(row) for row in range(len(expected) + 3)] == [*expected, None, None, 20]
