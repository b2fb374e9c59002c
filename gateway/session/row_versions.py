"""What a transaction's own statements have made of rows that its cursors may be on: which row came in place of which.

Noted only while there is a cursor that WHERE CURRENT OF may name, and given up with the last of them. What a savepoint
undoes stays noted, and does no harm: the rows that came in place of others are then not there, and the others are.
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

# Of so many rows it is noted what became of them; of any more, nobody knows.
ROWS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Replaced:
    """Rows that a statement replaced, and the new files with their numbers of rows. `sources` are the old rows in the
    order of the new ones; where that is not known, `positions` are the old ones by their files."""

    table_oid: int
    files: tuple[tuple[str, int], ...]
    sources: pa.Table | None
    positions: Mapping[str, npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Trace:
    """Where a row has been, the last place last; `lost` where a statement has replaced it that did not tell by what."""

    places: tuple[tuple[str, int], ...]
    lost: bool


class ReplacedRows:
    """`note` what a statement wrote, then `trace` a row."""

    def __init__(self) -> None:
        self._noted: list[_Replaced] = []
        self._rows = 0
        self._overflowed: set[int] = set()

    def clear(self) -> None:
        """Nobody is going to ask any more."""
        self._noted.clear()
        self._rows = 0
        self._overflowed.clear()

    def note(self, table_oid: int, result: WriteResult) -> None:
        """A statement has changed rows of a table. Where it has only deleted or only added some, nothing is to tell."""
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
        """The places of the row that was at `place` when the first of these statements began, or since."""
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
    """The number of the row that was there, among rows that tell where they were."""
    candidates = pc.indices_nonzero(pc.equal(sources["position"], position))
    for number, file in zip(candidates.to_pylist(), sources["file"].take(candidates).to_pylist(), strict=True):
        if file == path:
            return int(number)
    return None


def _at(files: tuple[tuple[str, int], ...], number: int) -> tuple[str, int]:
    """Where the row with this number is that was written into these files, one after another."""
    for path, count in files:
        if number < count:
            return path, number
        number -= count
    raise IndexError(number)
