"""Index lookups: the rows of each file that a scan needs, found by sidecars.

Contract: `look_up` returns, of the files that statistics leave, those to be read whole and those of which a few
positions suffice. If in doubt, it reads: a file stays whole if it has no sidecar, if the keys cannot be compared by a
condition, or if the lookup would find much of it. Rows found may still be deleted, or not meet the query's condition.
Blocking.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from cachetools import LRUCache, cached

from catalog.errors import SluiceError
from catalog.indexes import Index
from catalog.model import Column, DataFile, Sidecar, Table
from storage.indexes.pruning import comparable, prune
from storage.indexes.sidecars import POSITION, key_table
from storage.parquet.arrow_types import arrow_type
from storage.parquet.file_errors import corrupt_file
from storage.parquet.file_identity import Expected, expected
from storage.parquet.files import LakeFiles
from storage.plan import BoundScan, Comparison, Operator

# A lookup that may find more rows of a file is given up: reading the file whole costs less.
FOUND_MAX: Final = 100_000
_FRAGMENTS_MAX: Final = 512
# For a longer list, the row groups of a sidecar are chosen by the least and the greatest value.
_LISTED_MAX: Final = 64
_EQUAL: Final = ("=", "in", "is null")


@dataclass(frozen=True, slots=True)
class LookUp:
    """The result of a lookup. `index` is the one that was used, if any. `whole` are files to be read whole.

    `rows` are the positions (ascending) to be read of other files, by path; those `skipped` have none.
    """

    index: Index | None
    whole: tuple[DataFile, ...]
    rows: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    skipped: tuple[DataFile, ...] = ()

    @property
    def row_count(self) -> int:
        """The number of rows that the index has found."""
        return sum(len(each) for each in self.rows.values())


def look_up(data_path: str, bound: BoundScan) -> LookUp:
    """Return what a scan must read."""
    scan, version = bound.scan, bound.version
    kept, skipped = prune(version.files, version.table, scan.predicate)
    chosen = _chosen(bound) if bound.sidecars else None
    if chosen is None:
        return LookUp(None, kept, skipped=skipped)
    index, conditions = chosen
    keys = key_table(version.table, index.form)
    tests = [_Test(keys.column(each.attnum), each) for each in conditions]
    if all(test.filter is None for test in tests):
        return LookUp(None, kept, skipped=skipped)
    files = LakeFiles(data_path)
    whole, passed = [], list(skipped)
    rows: dict[str, npt.NDArray[np.int64]] = {}
    for file in kept:
        sidecar = None if file.data_file_id is None else bound.sidecars.get((index.index_id, file.data_file_id))
        found = None if sidecar is None else _positions(files, keys, sidecar, conditions, tests)
        if found is None:
            whole.append(file)
        elif len(found):
            rows[file.path] = found
        else:
            passed.append(file)
    return LookUp(index, tuple(whole), rows, tuple(passed))


def _chosen(bound: BoundScan) -> tuple[Index, list[Comparison]] | None:
    """Return the index that leaves least to read, judged by its keys and the conditions on them."""
    scan, best, most = bound.scan, None, 0
    for index in bound.version.table.indexes:
        if not index.is_used or (index.form.predicate is not None and index.oid not in scan.implied):
            continue
        conditions = list(_conditions(bound, index))
        worth = _worth(index, conditions)
        if worth > most:
            best, most = (index, conditions), worth
    return best


def _conditions(bound: BoundScan, index: Index) -> Iterable[Comparison]:
    """Yield the conditions on the index's keys, as comparisons of its sidecars' columns."""
    for place, key in enumerate(index.form.keys, 1):
        for each in bound.scan.predicate:
            if key.attnum and each.attnum == key.attnum and each.operator != "is not null":
                yield Comparison(place, each.operator, each.values)
    for of in bound.scan.keys:
        if of.index == index.oid and of.operator != "is not null":
            yield Comparison(of.place, of.operator, of.values)


def _worth(index: Index, conditions: Sequence[Comparison]) -> int:
    """Return the worth of an index: 2 for each leading key with an equality, 1 for a following key with another
    comparison.

    A partial index is worth a little more.
    """
    worth = 0
    for place in range(1, len(index.form.keys) + 1):
        operators = {each.operator for each in conditions if each.attnum == place}
        if not operators:
            break
        if operators.isdisjoint(_EQUAL):
            worth += 2
            break
        worth += 4
    return worth + (index.form.predicate is not None) if worth else 0


class _Test:
    """A condition for Arrow: `filter` has its meaning; statistics can judge `coarse`. None for no condition."""

    def __init__(self, column: Column, condition: Comparison) -> None:
        self.coarse: pads.Expression | None = None
        self.filter: pads.Expression | None = None
        field_, kind = pc.field(column.name), arrow_type(column.form)
        if condition.operator == "is null":
            self.filter = self.coarse = field_.is_null()
            return
        try:
            if not all(comparable(column, value) for value in condition.values):
                return
            values = [pa.scalar(str(v) if pa.types.is_string(kind) else v, kind) for v in condition.values]
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
            return  # no value of the column's type
        self.filter, self.coarse = _filters(field_, condition.operator, values, kind)


def _filters(
    column: pads.Expression, operator: Operator, values: list[pa.Scalar], kind: pa.DataType
) -> tuple[pads.Expression | None, pads.Expression | None]:
    """Return `filter` and `coarse` of a `_Test`."""
    floating = pa.types.is_floating(kind)
    if operator == "in":
        listed = [column == value for value in values]
        if len(values) > _LISTED_MAX:
            ends = pc.min_max(pa.array(values, kind))
            listed = [(column >= ends["min"]) & (column <= ends["max"])]
        if floating and any(value.as_py() == 0 for value in values):
            values = [*values, pa.scalar(0.0, kind), pa.scalar(-0.0, kind)]  # equal, but not the same to a list
        return column.isin(pa.array(values, kind)), _any(listed)
    compare = _COMPARE.get(operator)
    if compare is None:
        return None, None
    compared = compare(column, values[0])
    if floating and operator in (">", ">="):  # NaN is greater than all, and in no statistics
        return compared | column.is_nan(), None
    return compared, compared


_COMPARE: Final[Mapping[Operator, Callable[[Any, Any], Any]]] = {
    "=": operators.eq, "<": operators.lt, "<=": operators.le, ">": operators.gt, ">=": operators.ge,
}  # fmt: skip


def _any(listed: Sequence[Any]) -> Any:
    if not listed:
        return pc.scalar(False)
    found = listed[0]
    for each in listed[1:]:
        found |= each
    return found


def _all(listed: Iterable[Any]) -> Any:
    found = None
    for each in listed:
        if each is not None:
            found = each if found is None else found & each
    return found


def _positions(
    files: LakeFiles, keys: Table, sidecar: Sidecar, conditions: Sequence[Comparison], tests: Sequence[_Test]
) -> npt.NDArray[np.int64] | None:
    """Return the positions of the rows that meet the conditions, ascending; None if the file is to be read whole."""
    kept, _ = prune([sidecar.file], keys, conditions)
    if not kept or not sidecar.file.record_count:
        return np.empty(0, np.int64)
    coarse, condition = _all(test.coarse for test in tests), _all(test.filter for test in tests)
    if condition is None:
        return None
    try:
        of = expected("", sidecar.file)
        with files.copied(of):
            fragment = _fragment(files, of)
            chosen = fragment if coarse is None else fragment.subset(filter=coarse)
            if sum(group.num_rows for group in chosen.row_groups) > max(FOUND_MAX, sidecar.file.record_count // 4):
                return None
            found = chosen.to_table(filter=condition, columns=[POSITION]).column(POSITION)
    except SluiceError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None  # the data file still has everything; `sluice check` reports the sidecar
        raise
    except (pa.ArrowException, OSError) as error:
        raise corrupt_file(sidecar.file.path, str(error).splitlines()[0]) from error
    if len(found) > FOUND_MAX:
        return None
    return np.sort(found.to_numpy())


@cached(LRUCache(_FRAGMENTS_MAX), key=lambda files, of: (files.data_path, of.path), lock=Lock())
def _fragment(files: LakeFiles, of: Expected) -> pads.ParquetFileFragment:
    """Open a sidecar with its footer. Sidecars never change."""
    return files.fragment(of)
