"""Rows divided by a table's partition key (`sluice.partition_by`), in lake form.

A row has a partition value for each column of the key. Those of `year`, `month`, `day` and `hour` are counted since
1970, in UTC, so that a file has rows of one month of one year. DuckLake's own texts of them (catalog/partitions.py) do
not tell the years apart. Infinities and NULLs are values of their own. `bucket(N)` is DuckLake's hash, modulo N. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.datatypes import LakeForm
from catalog.model import Partition, PartitionValue, Table
from catalog.partitions import UNITS
from storage.murmur3 import hashes_of_bytes, hashes_of_integers
from storage.parquet.bounds import DATE_INFINITY, TIMESTAMP_INFINITY, Key, bound_form
from storage.parquet.sort_order import sort_indices

# A longer value is told to the catalog nowhere: its rows have no file of their own.
TEXT_BYTES_MAX: Final = 1_024
INFINITY: Final = 2**63 - 1
_HOUR: Final = 3_600_000_000
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
_BUCKETS: Final = re.compile(r"bucket\((\d+)\)")
_TEMPORAL: Final = ("date", "time", "timestamp", "timestamptz")


@dataclass(frozen=True, slots=True)
class Divided:
    """Rows in the order of their partitions. `order` has the place of each among the rows as they came.

    The first rows are of these partitions, so many of each; the rest are of many others, of fewer rows each.
    """

    rows: pa.Table
    order: npt.NDArray[np.int64]
    parts: Sequence[tuple[Partition, int]]

    @property
    def placed(self) -> int:
        """The number of rows that have a partition of their own."""
        return sum(count for _, count in self.parts)


def divided(rows: pa.Table, table: Table, present: Partition | None, parts_max: int, *, sorts: bool) -> Divided:
    """Divide rows, whose columns are the table's. Blocking.

    At most `parts_max` partitions, those of most rows, get files of their own, beside the `present` one, which comes
    first. If it `sorts`, the rows of a partition are in the order of the sort key."""
    keys = [
        _values(rows.column(place).combine_chunks(), table.columns[place].form, each.transform)
        for place, each in zip(_places(table), table.partition_key, strict=True)
    ]
    order = _order(rows, table, keys, sorts=sorts)
    keys = [key.take(order) for key in keys]
    firsts = np.concatenate([[0], np.flatnonzero(_changes(keys)) + 1])
    counts = np.diff([*firsts, rows.num_rows])
    chosen = np.sort(np.argsort(-counts, kind="stable")[: parts_max + 1])
    key, values = table.divided_by, list(zip(*_told(keys, table, firsts[chosen]), strict=True))
    found = [
        (place, Partition(key, each))
        for place, each in zip(chosen.tolist(), values, strict=True)
        if not any(isinstance(value, str) and len(value.encode()) > TEXT_BYTES_MAX for value in each)
    ]
    found.sort(key=lambda each: each[1] != present)
    if len(found) > parts_max and not (found and found[0][1] == present):
        fewest = min(found, key=lambda each: counts[each[0]])
        found.remove(fewest)
    taken = [np.arange(firsts[place], firsts[place] + counts[place]) for place, _ in found]
    left = np.ones(rows.num_rows, np.bool_)
    for each in taken:
        left[each] = False
    places = order.to_numpy().astype(np.int64)[np.concatenate([*taken, np.flatnonzero(left)])]
    in_order = bool(np.all(places[1:] > places[:-1]))
    parts = [(partition, int(counts[place])) for place, partition in found]
    return Divided(rows if in_order else rows.take(pa.array(places)), places, parts)


def only_partition(rows: pa.Table, table: Table) -> Partition:
    """Return the partition of rows, whose columns are the table's; it is without values if they are of several."""
    found = divided(rows, table, None, 1, sorts=False)
    return found.parts[0][0] if found.placed == rows.num_rows else Partition(table.divided_by, None)


def partition_values(transform: str, form: LakeForm, values: Sequence[Key | None]) -> list[PartitionValue]:
    """Return the partition values of a column's values, which are keys of bounds (storage/parquet/bounds.py)."""
    kind = form.ducklake
    if kind == "boolean":
        values = [None if value is None else bool(value) for value in values]
    array = pa.array(values, pa.int64() if kind in _TEMPORAL else None)
    return _texts(_made(array, kind, transform), kind, transform)


def _places(table: Table) -> list[int]:
    places = {column.attnum: place for place, column in enumerate(table.columns)}
    return [places[each.attnum] for each in table.partition_key]


def _order(rows: pa.Table, table: Table, keys: Sequence[pa.Array], *, sorts: bool) -> pa.Array:
    """Return the order of the rows by their partitions. It is stable."""
    order = (
        sort_indices(rows, table) if sorts and table.sort_key else pa.array(np.arange(rows.num_rows, dtype=np.uint64))
    )
    if not _changes(keys).any():
        return order
    named = pa.table([key.take(order) for key in keys], names=[str(place) for place in range(len(keys))])
    by_partition = pc.sort_indices(named, options=pc.SortOptions([(name, "ascending") for name in named.column_names]))
    return order.take(by_partition)


def _changes(keys: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """For each row but the first: whether its partition is another than that of the row before."""
    changes = np.zeros(max(len(keys[0]) - 1, 0), np.bool_)
    for key in keys:
        before, after = key.slice(0, len(changes)), key.slice(1)
        other = pc.fill_null(pc.not_equal(before, after), False).to_numpy(zero_copy_only=False)
        absent = key.is_null().to_numpy(zero_copy_only=False)
        changes |= other | (absent[1:] != absent[:-1])
    return changes


def _told(keys: Sequence[pa.Array], table: Table, firsts: npt.NDArray[np.int64]) -> Iterator[list[PartitionValue]]:
    """Yield the partition values at these places, for each column of the key."""
    for key, place, each in zip(keys, _places(table), table.partition_key, strict=True):
        yield _texts(key.take(pa.array(firsts)), table.columns[place].form.ducklake, each.transform)


def _values(values: pa.Array | pa.ChunkedArray, form: LakeForm, transform: str) -> pa.Array:
    """Return the partition values of a column, as they are compared."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    if form.ducklake in _TEMPORAL:
        values = values.cast(pa.int32() if form.ducklake == "date" else pa.int64()).cast(pa.int64())
    return _made(values, form.ducklake, transform)


def _made(values: pa.Array, kind: str, transform: str) -> pa.Array:
    """Return what a transform makes of values; dates, times and timestamps are integers, as in bounds."""
    if transform == "identity":
        return values
    absent = values.is_null().to_numpy(zero_copy_only=False)
    if transform in UNITS:
        return pa.array(_units(values.fill_null(0).to_numpy(zero_copy_only=False), kind, transform), mask=absent)
    buckets = _BUCKETS.fullmatch(transform)
    assert buckets is not None, transform
    if pa.types.is_integer(values.type):
        hashes = hashes_of_integers(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
    else:
        encoded = values.dictionary_encode()
        distinct = encoded.dictionary.cast(pa.binary()).to_pylist() or [b""]
        places = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        hashes = hashes_of_bytes(distinct)[places]
    return pa.array(((hashes & _POSITIVE) % np.uint32(int(buckets[1]))).astype(np.int64), mask=absent)


def _units(values: npt.NDArray[np.int64], kind: str, transform: str) -> npt.NDArray[np.int64]:
    """Return the years, months, days or hours since 1970; infinities stay."""
    infinity = DATE_INFINITY if kind == "date" else TIMESTAMP_INFINITY
    hours = values * 24 if kind == "date" else values // _HOUR
    if transform == "hour":
        units = hours
    else:
        units = (hours // 24).astype("datetime64[D]").astype(f"datetime64[{UNITS[transform]}]").astype(np.int64)
    return np.where(values == infinity, INFINITY, np.where(values == -infinity, -INFINITY, units))


def _texts(values: pa.Array, kind: str, transform: str) -> list[PartitionValue]:
    """Return partition values as the catalog has them."""
    found = values.to_pylist()
    if transform == "identity":
        text = _identity(kind)
        return [None if value is None else text(value) for value in found]
    if transform in UNITS:
        return [{INFINITY: "infinity", -INFINITY: "-infinity"}.get(value, value) for value in found]
    return list(found)


def _identity(kind: str) -> Callable[[Any], str]:
    """Return what makes DuckDB's text of a value."""
    match kind:
        case "boolean":
            return lambda value: "true" if value else "false"
        case "varchar" | "uuid":
            return str
        case "blob":
            return _blob_text
        case _:
            to_text = bound_form(kind).to_text
            return lambda value: str(to_text(value, True))


def _blob_text(value: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte <= 126 and chr(byte) not in "\\'\"" else f"\\x{byte:02X}" for byte in value)
