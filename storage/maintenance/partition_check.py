"""Check that the rows of files have the partition values that the catalog has of them, as far as bounds tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from catalog.model import Column, DataFile, PartitionValue, TableVersion
from storage.finding import Finding
from storage.parquet.bounds import TEXT_LENGTH_MAX, bound_form
from storage.parquet.partitions import partition_values


def check_partitions(published: Iterable[TableVersion]) -> list[Finding]:
    """Return the files of these versions whose bounds exclude their partition values."""
    found: dict[tuple[str, str], Finding] = {}
    for version in published:
        columns = {column.column_id: column for column in version.table.columns}
        for file in version.files:
            for message in _faults(columns, file):
                path = version.table.path + file.path
                found[path, message] = Finding("partition", path, message)
    return list(found.values())


def _faults(columns: dict[int, Column], file: DataFile) -> Iterator[str]:
    partition = file.partition
    if partition is None or partition.values is None:
        return
    for (column_id, transform), value in zip(partition.key, partition.values, strict=True):
        column = columns.get(column_id)
        if column is not None and not _agrees(column, transform, value, file):
            yield f'the values of "{column.name}" are not those of the partition {transform} = {value}'


def _agrees(column: Column, transform: str, value: PartitionValue, file: DataFile) -> bool:
    """Whether all of the file's values may have this partition value. A column that the file lacks has its default."""
    statistics = file.statistics.get(column.column_id)
    if statistics is None:
        return True
    if value is None:
        return statistics.value_count == 0
    if statistics.null_count:
        return False
    form = bound_form(column.form.ducklake)
    bounds = [bound for bound in (statistics.minimum, statistics.maximum) if bound is not None]
    if any(len(bound) >= TEXT_LENGTH_MAX for bound in bounds):
        return True  # they may be cut
    keys = [form.from_text(bound) for bound in bounds]
    return all(each == value for each in partition_values(transform, column.form, keys))
