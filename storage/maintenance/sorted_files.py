"""Compaction of a table with a sort key: which files overlap in it needlessly, and how they are written in its order.

Files that were written one after the other may each have values of the whole range, so that a condition on the key
finds values in all of them. Such files are written anew as files that follow each other. As for small files, it takes
several of them: a row is written anew once for each time that so many have come. Spark sorts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.model import Column, DataFile, SortColumn, Table, TableVersion
from storage.parquet.bounds import bound_form
from storage.parquet.files import LakeFiles
from storage.parquet.positions import deleted_positions
from storage.plan import FILE_COLUMN, POSITION_COLUMN, BoundScan, RunnableInsert, RunnableQuery, Scan, column_name

# At most so many full files are written at a time, which bounds the cost of a merge that is given up.
SORTED_FILES_MAX: Final = 16
# Of so many rows it is known which ones they come from: 8 bytes of memory each.
ORDER_ROWS_MAX: Final = 50_000_000

_Interval = tuple[tuple[Any, ...], tuple[Any, ...]]


def spark_order(key: Sequence[SortColumn]) -> str:
    """Return the ORDER BY of a sort key, over the columns of a scan."""
    return ", ".join(
        f"{column_name(each.attnum)} {'DESC' if each.descending else 'ASC'} "
        f"NULLS {'FIRST' if each.nulls_first else 'LAST'}"
        for each in key
    )


def in_key_order(table: Table, files: Sequence[DataFile]) -> list[DataFile]:
    """Return the files by the least values that they have of the sort key; those of which none is known come first."""
    known = [(interval, file) for file in files if (interval := _interval(table, file)) is not None]
    known.sort(key=lambda each: each[0])
    found = {file.path for _, file in known}
    return [*(file for file in files if file.path not in found), *(file for _, file in known)]


def overlapping(table: Table, files: Sequence[DataFile], depth: int, bytes_max: float) -> list[tuple[DataFile, ...]]:
    """Return disjoint groups of `depth` files or more (two at least) that have a value of the key in common, where it
    is more than a border. A group of more than two has at most so many bytes. Pure."""
    left = [(interval, file) for file in files if (interval := _interval(table, file)) is not None]
    groups: list[tuple[DataFile, ...]] = []
    while len(deepest := _deepest(left)) >= max(depth, 2):
        group: list[DataFile] = []
        size = 0
        for _, file in deepest:
            if len(group) > 1 and size + file.size_bytes > bytes_max:
                break
            group.append(file)
            size += file.size_bytes
        groups.append(tuple(group))
        taken = {file.path for file in group}
        left = [each for each in left if each[1].path not in taken]
    return groups


def _deepest(files: Sequence[tuple[_Interval, DataFile]]) -> list[tuple[_Interval, DataFile]]:
    """Return the files that overlap where most of them do. Those of a single value do not count."""
    edges = [
        edge
        for number, ((low, high), _) in enumerate(files)
        if low < high
        for edge in ((low, 1, number), (high, 0, number))
    ]
    edges.sort(key=lambda edge: edge[:2])  # at one value, files end before others begin
    open_files: set[int] = set()
    found: set[int] = set()
    for _, begins, number in edges:
        if begins:
            open_files.add(number)
            if len(open_files) > len(found):
                found = set(open_files)
        else:
            open_files.discard(number)
    return [files[number] for number in sorted(found)]


def _interval(table: Table, file: DataFile) -> _Interval | None:
    """Return the least and the greatest value of the key that the file has, ignoring NULLs; None if they are unknown.

    If it has one value of the first columns, the next one counts too.
    """
    low: tuple[Any, ...] = ()
    high: tuple[Any, ...] = ()
    for each in table.sort_key:
        bounds = _bounds(table.column(each.attnum), file)
        if bounds is None:
            break
        low, high = (*low, bounds[0]), (*high, bounds[1])
        if bounds[0] != bounds[1]:
            break
    return (low, high) if low else None


def _bounds(column: Column, file: DataFile) -> tuple[Any, Any] | None:
    statistics = file.statistics.get(column.column_id)
    if statistics is None or statistics.minimum is None or statistics.maximum is None:
        return None
    read = bound_form(column.form.ducklake).from_text
    low, high = read(statistics.minimum), read(statistics.maximum)
    return (low.encode(), high.encode()) if isinstance(low, str) and isinstance(high, str) else (low, high)


def tells_order(files: Sequence[DataFile]) -> bool:
    """Whether it is told of the new rows of these files which ones they come from: where they are not too many."""
    return sum(file.live_count for file in files) <= ORDER_ROWS_MAX


def sorting(version: TableVersion, files: Sequence[DataFile], file_bytes: int) -> RunnableInsert:
    """Return the writing of the files' live rows in the order of the sort key.

    If it `tells_order`, it returns, for each new row, the file and the position from which it comes.
    """
    table = version.table
    columns = tuple(column.attnum for column in table.columns)
    told = tells_order(files)
    scan = BoundScan(Scan("kept", table.oid, columns, needs_position=told), replace(version, files=tuple(files)))
    places = (FILE_COLUMN, POSITION_COLUMN) if told else ()
    listed = ", ".join((*map(column_name, columns), *places))
    query = RunnableQuery(f"SELECT {listed} FROM kept ORDER BY {spark_order(table.sort_key)}", (scan,))
    return RunnableInsert(query, replace(table, sort_key=()), file_bytes=file_bytes, divided=False)


def source_order(
    data_path: str, table: Table, old: Sequence[DataFile], sources: pa.RecordBatchReader
) -> npt.NDArray[np.int64]:
    """Return, for each new row, its number among the live rows of the `old` files, which `sources` tells. Blocking."""
    files = LakeFiles(data_path)
    paths = [file.path for file in old]
    firsts = np.cumsum([0, *(file.live_count for file in old)])
    lost = [
        np.empty(0, np.int64) if file.delete_file is None else deleted_positions(files, table.path, file.delete_file)
        for file in old
    ]
    ordinals = {path: ordinal for ordinal, path in enumerate(paths)}
    parts = [np.empty(0, np.int64)]
    for batch in sources:
        encoded = batch.column(0).cast(pa.string()).dictionary_encode()
        numbers = np.array([ordinals[path] for path in encoded.dictionary.to_pylist()], np.int64)
        places = batch.column(1).to_numpy(zero_copy_only=False).astype(np.int64)
        of_file = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
        for ordinal in np.unique(of_file):
            chosen = of_file == ordinal
            found = places[chosen]
            places[chosen] = firsts[ordinal] + found - np.searchsorted(lost[ordinal], found)
        parts.append(places)
    return np.concatenate(parts)
