"""Rows of a transaction's own files that PostgreSQL does not check for their foreign keys, because an UPDATE has left
these as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from catalog.model import DataFile


class UnchangedReferences:
    """The positions of such rows, by the columns of a foreign key (attnums) and the path of their file."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, ...], dict[str, npt.NDArray[np.int64]]] = {}

    def note(self, path: str, attnums: Sequence[int], positions: npt.NDArray[np.int64]) -> None:
        """Record rows of a new file."""
        if len(positions):
            self._rows.setdefault(tuple(attnums), {})[path] = positions

    def of(self, attnums: Sequence[int]) -> Mapping[str, npt.NDArray[np.int64]]:
        """The positions for these columns, by path."""
        return self._rows.get(tuple(attnums), {})

    def are_all(self, files: Collection[DataFile], attnums: Sequence[int]) -> bool:
        """Whether all rows of these files are such rows."""
        rows = self.of(attnums)
        return all(len(rows.get(file.path, ())) == file.record_count for file in files)

    def clear(self) -> None:
        """Forget all."""
        self._rows.clear()
