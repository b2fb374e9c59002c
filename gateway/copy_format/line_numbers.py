"""Which line of COPY's data each row was: a number for each batch, where lines follow each other.

Of rows that a condition has chosen it is not known.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class LineNumbers:
    """`add` the lines of further rows, `of` a row by its number from 0."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lines: list[int | npt.NDArray[np.int64] | None] = []
        self._count = 0

    def add(self, lines: pa.Int64Array) -> None:
        """The lines of the next rows."""
        numbers = lines.to_numpy(zero_copy_only=False)
        if not len(numbers):
            return
        self._firsts.append(self._count)
        follow = bool((np.diff(numbers) == 1).all())
        self._lines.append(int(numbers[0]) if follow else numbers)
        self._count += len(numbers)

    def add_unknown(self, count: int) -> None:
        """The next rows are so many."""
        if count:
            self._firsts.append(self._count)
            self._lines.append(None)
            self._count += count

    def of(self, row: int) -> int | None:
        """The line of a row; None where it is not known."""
        place = bisect_right(self._firsts, row) - 1
        lines, offset = self._lines[place], row - self._firsts[place]
        if lines is None:
            return None
        return lines + offset if isinstance(lines, int) else int(lines[offset])
