"""Records which new rows replaced old ones in a transaction, for cursors with WHERE CURRENT OF.

Changes are recorded only while such a cursor is open. Changes that a savepoint undoes stay recorded, without harm: the
replacing rows do not exist then, and the replaced ones do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from storage.spark.write import WriteResult

# Replaced rows recorded at most; further replacements are lost.
ROWS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Replaced:
    """Rows that a statement replaced, and the new files with their numbers of rows. `sources` are the old rows in the
    order of the new ones; if that is unknown, `positions` are the old positions by file.
    """

    table_oid: int
    files: tuple[tuple[str, int], ...]
    sources: pa.Table | None
    positions: Mapping[str, npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Trace:
    """The places of a row, the latest last; `lost` if a statement has replaced it without recording by which row."""

    places: tuple[tuple[str, int], ...]
    lost: bool


class ReplacedRows:
    """`note` records what a statement wrote; `trace` follows a row."""

    def __init__(self) -> None:
        self._noted: list[_Replaced] = []
        self._rows = 0
        self._overflowed: set[int] = set()

    def clear(self) -> None:
        """Forget everything; no cursor can ask any more."""
        self._noted.clear()
        self._rows = 0
        self._overflowed.clear()

    def note(self, table_oid: int, result: WriteResult) -> None:
        """Record the changed rows of a table. A statement that only deletes or only inserts rows replaces none."""
        count = sum(map(len, result.positions.values()))
        if not count or not result.data_files:
            return
        self._rows += count
        if self._rows > ROWS_MAX:
            self._overflowed.add(table_oid)
            return
        files = tuple((file.path, file.record_count) for file in result.data_files)
        if result.sources is None:
            self._noted.append(_Replaced(table_oid, files, None, result.positions))
        else:
            self._noted.append(_Replaced(table_oid, files, result.sources.unify_dictionaries().combine_chunks(), {}))

    def trace(self, table_oid: int, place: tuple[str, int]) -> Trace:
        """The places of the row that was at `place` at or after the first recorded statement."""
        places, lost = [place], table_oid in self._overflowed
        for each in self._noted:
            if each.table_oid != table_oid:
                continue
            for path, position in tuple(places):
                if each.sources is not None:
                    number = _number(each.sources, path, position)
                    if number is not None:
                        places.append(_at(each.files, number))
                elif path in each.positions and position in each.positions[path]:
                    lost = True
        return Trace(tuple(places), lost)


def _number(sources: pa.Table, path: str, position: int) -> int | None:
    """The number of the row that was at that position, among the sources."""
    candidates = pc.indices_nonzero(pc.equal(sources["position"], position))
    for number, file in zip(candidates.to_pylist(), sources["file"].take(candidates).to_pylist(), strict=True):
        if file == path:
            return int(number)
    return None


def _at(files: tuple[tuple[str, int], ...], number: int) -> tuple[str, int]:
    """The place of the row with this number in files written one after another."""
    for path, count in files:
        if number < count:
            return path, number
        number -= count
    raise IndexError(number)
