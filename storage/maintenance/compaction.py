"""Compaction: choose data files and write them anew as fewer and larger ones, without deleted rows and dropped columns.

A file is due if it is small and there are others of about its size, if many of its rows are deleted, or if dropped
columns take much of it. New files have the live rows of the old ones, in order. Sizes form tiers, so that a row is
rewritten once for each tier that its file grows through, however small new files are. A table with a sort key has due
files of one more kind (storage/maintenance/sorted_files.py). In one with a partition key, files of a partition are
merged with each other alone, and files without one are divided.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from catalog.model import Column, DataFile, Partition, Table, TableVersion
from storage.maintenance.sorted_files import ORDER_ROWS_MAX, SORTED_FILES_MAX, in_key_order, overlapping
from storage.parquet.arrow_types import leaf_types
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles
from storage.parquet.parquet_writer import FILE_BYTES, ParquetWriter
from storage.parquet.positions import deleted_positions

# The smallest tier has files below this size; each next tier is so many times as large.
_FIRST_TIER_BYTES: Final = 64 * 2**10
_TIER_FACTOR: Final = 8
# At most so many files are merged at a time, which bounds the cost of a merge that is given up.
GROUP_FILES_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules. `min_files` small files of a tier are due, those below `small_bytes`, with all of lower tiers.

    So is a file with the share `waste` of deleted rows or dropped columns. With `all_files`, every file is; with
    `hot_rows`, all hot rows are, be they few. New files become about `file_bytes` large.
    """

    min_files: int
    small_bytes: int
    waste: float
    all_files: bool = False
    hot_rows: bool = False
    file_bytes: int = FILE_BYTES


def due(version: TableVersion, policy: Policy) -> list[tuple[DataFile, ...]]:
    """Return groups of files to be written anew, each to become one file or a few. Pure.

    Files of different partitions are in different groups. A group of files that are to be divided becomes a file for
    each partition."""
    key = version.table.divided_by
    if not key:
        return _due(version, policy)
    of_partitions: dict[Partition, list[DataFile]] = {}
    others: list[DataFile] = []
    for file in version.files:
        partition = file.partition
        if partition is None or is_to_be_divided(version.table, file):
            others.append(file)
        else:
            of_partitions.setdefault(partition, []).append(file)
    groups = _due_to_be_divided(replace(version, files=tuple(others)), policy)
    for files in of_partitions.values():
        groups += _due(replace(version, files=tuple(files)), policy)
    return groups


def is_to_be_divided(table: Table, file: DataFile) -> bool:
    """Whether the table has a partition key, and the file has no partition by it."""
    key = table.divided_by
    return bool(key) and (file.partition is None or file.partition.key != key or file.partition.values is None)


def _due_to_be_divided(version: TableVersion, policy: Policy) -> list[tuple[DataFile, ...]]:
    """The same of files that have no partition. They have hot rows, or rows of small partitions; or they are from
    before the key, and then all of them are due."""
    known = _known(version.table)
    key = version.table.divided_by
    before = {
        file.path
        for file in version.files
        if file.hot_rows is None and (file.partition is None or file.partition.key != key)
    }
    files = [file for file in version.files if _can_be_read(version.table, file, known)]
    wasted, merged_ones, _ = _chosen([file for file in files if file.path not in before], known, policy)
    chosen = before | wasted | merged_ones
    return _groups(
        [file for file in files if policy.all_files or file.path in chosen], known, SORTED_FILES_MAX * policy.file_bytes
    )


def _known(table: Table) -> frozenset[int]:
    return frozenset(field_id for column in table.columns for field_id, _ in leaf_types(column))


def _chosen(
    files: Sequence[DataFile], known: frozenset[int], policy: Policy
) -> tuple[set[str], set[str], list[DataFile]]:
    """Return the paths of files with much waste, those of small files to be merged, and all small files."""
    wasted = {file.path for file in files if _waste(file, known) >= policy.waste}
    small = [file for file in files if _live_bytes(file, known) < policy.small_bytes]
    tiers = {file.path: _tier(_live_bytes(file, known)) for file in small}
    full = [tier for tier, count in Counter(tiers.values()).items() if count >= max(policy.min_files, 2)]
    merged_ones = {path for path, tier in tiers.items() if full and tier <= max(full)}
    if policy.hot_rows:
        merged_ones.update(file.path for file in files if file.hot_rows is not None)
    return wasted, merged_ones, small


def _due(version: TableVersion, policy: Policy) -> list[tuple[DataFile, ...]]:
    known = _known(version.table)
    files = [file for file in version.files if _can_be_read(version.table, file, known)]
    by_key = bool(version.table.sort_key)
    if policy.all_files:
        return [tuple(files)] if by_key and files else _groups(files, known, policy.file_bytes)
    wasted, merged_ones, small = _chosen(files, known, policy)
    chosen = [file for file in files if file.path in wasted or file.path in merged_ones]
    if not by_key:
        return _groups(chosen, known, policy.file_bytes)
    large = [file for file in files if file.path not in merged_ones and file.path not in wasted and file not in small]
    return [
        *_groups(in_key_order(version.table, chosen), known, SORTED_FILES_MAX * policy.file_bytes),
        *overlapping(version.table, large, policy.min_files, SORTED_FILES_MAX * policy.file_bytes),
    ]


def _groups(files: Iterable[DataFile], known: frozenset[int], bytes_max: float) -> list[tuple[DataFile, ...]]:
    groups: list[tuple[DataFile, ...]] = []
    group: list[DataFile] = []
    size = 0.0
    for file in files:
        live = _live_bytes(file, known)
        if group and (size + live > bytes_max or len(group) == GROUP_FILES_MAX):
            groups.append(tuple(group))
            group, size = [], 0.0
        group.append(file)
        size += live
    return [*groups, tuple(group)] if group else groups


def _can_be_read(table: Table, file: DataFile, known: frozenset[int]) -> bool:
    """Whether the file has a column of the table, and the defaults of missing columns are known. Else it is left
    alone."""
    if not known.intersection(file.statistics):
        return False
    return not any(_lacks(column, file) and column.form.children for column in table.columns)


def _lacks(column: Column, file: DataFile) -> bool:
    return column.initial_default is not None and not any(
        field_id in file.statistics for field_id, _ in leaf_types(column)
    )


def _deleted_share(file: DataFile) -> float:
    return (file.record_count - file.live_count) / max(file.record_count, 1)


def _dropped_share(file: DataFile, known: frozenset[int]) -> float:
    """Return the share of a file's bytes in dropped columns."""
    total = sum(each.size_bytes for each in file.statistics.values())
    dropped = sum(each.size_bytes for field_id, each in file.statistics.items() if field_id not in known)
    return dropped / total if total else 0.0


def _live_bytes(file: DataFile, known: frozenset[int]) -> float:
    return file.size_bytes * (1.0 - _deleted_share(file)) * (1.0 - _dropped_share(file, known))


def _waste(file: DataFile, known: frozenset[int]) -> float:
    return max(_deleted_share(file), _dropped_share(file, known))


def _tier(size: float) -> int:
    return 0 if size < _FIRST_TIER_BYTES else 1 + int(math.log(size / _FIRST_TIER_BYTES, _TIER_FACTOR))


def merged(
    data_path: str,
    table: Table,
    old: Sequence[DataFile],
    stopped: Callable[[], bool],
    file_bytes: int = FILE_BYTES,
) -> tuple[DataFile, ...]:
    """Write the live rows of these files anew, in order; return no file if there are none. Blocking.

    57014, checked between batches, once `stopped` says so; nothing is left then.
    """
    writer = ParquetWriter(data_path, table, file_bytes=file_bytes, divides=False)
    return _copied(data_path, table, old, stopped, writer)


def divided_anew(
    data_path: str,
    table: Table,
    old: Sequence[DataFile],
    stopped: Callable[[], bool],
    file_bytes: int = FILE_BYTES,
) -> tuple[tuple[DataFile, ...], npt.NDArray[np.int64] | None]:
    """The same, where each partition has files of its own. The number of each new row among the old live ones is
    returned, too; None if they are too many to tell (`tells_order`). Blocking."""
    writer = ParquetWriter(data_path, table, file_bytes=file_bytes, sorts=True, order_max=ORDER_ROWS_MAX)
    files = _copied(data_path, table, old, stopped, writer)
    order = writer.order
    told = order is not None and len(order) == sum(file.record_count for file in files)
    return files, order if told else None


def _copied(
    data_path: str, table: Table, old: Sequence[DataFile], stopped: Callable[[], bool], writer: ParquetWriter
) -> tuple[DataFile, ...]:
    files = LakeFiles(data_path)
    try:
        for file in old:
            alive = np.ones(file.record_count, np.bool_)
            if file.delete_file is not None:
                alive[deleted_positions(files, table.path, file.delete_file)] = False
            if not alive.any():
                continue
            for first, batch in read_rows(files, table, file, table.columns):
                if stopped():
                    raise SluiceError(SqlState.QUERY_CANCELED, "canceling statement due to user request")
                mask = alive[first : first + batch.num_rows]
                writer.write(batch if mask.all() else batch.filter(pa.array(mask)))
        return writer.finish()
    except BaseException:
        writer.abort()
        raise
