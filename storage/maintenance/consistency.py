"""Check the lake's rows against NOT NULL, PRIMARY KEY, UNIQUE and FOREIGN KEY.

It reads the newest version of each table. CHECK is not checked: only PostgreSQL and Spark can evaluate it. Blocking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from catalog.constraints import ForeignKey
from catalog.model import Column, Table, TableVersion
from storage.finding import Finding
from storage.indexes.keys import LiveFile, bounds_of, deleted_of, distinct, duplicate, find, key_chunks, live_files
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles


def check_constraints(data_path: str, versions: Iterable[TableVersion]) -> list[Finding]:
    """Return the violations in these tables, all at one snapshot."""
    tables = {version.table.oid: version for version in versions}
    found = []
    for version in tables.values():
        found += list(_nulls(data_path, version))
        found += list(_duplicates(data_path, version))
        for foreign_key in version.table.foreign_keys:
            if foreign_key.public and foreign_key.parent in tables:
                found += list(_dangling(data_path, tables, foreign_key))
    return found


def _nulls(data_path: str, version: TableVersion) -> Iterator[Finding]:
    for column in version.table.columns:
        suspected = [
            each
            for each in live_files(version)
            if (statistics := each.file.statistics.get(column.column_id)) is None or statistics.null_count > 0
        ]
        if column.not_null and any(_has_null(data_path, version.table, column, each) for each in suspected):
            yield Finding("null", version.table.path, f'column "{column.name}" has NULLs, but is NOT NULL')


def _has_null(data_path: str, table: Table, column: Column, live: LiveFile) -> bool:
    """Whether a live row of the file has a NULL in the column."""
    files = LakeFiles(data_path)
    deleted = deleted_of(files, table, live)
    for first, batch in read_rows(files, table, live.file, [column]):
        nulls = np.flatnonzero(batch.column(0).is_null().to_numpy(zero_copy_only=False))
        if len(np.setdiff1d(first + nulls, deleted)):
            return True
    return False


def _duplicates(data_path: str, version: TableVersion) -> Iterator[Finding]:
    table, live = version.table, live_files(version)
    for key in table.keys:
        if not key.public:
            continue
        columns = [table.column(attnum) for attnum in key.attnums]
        chunks = key_chunks(data_path, table, live, columns, nulls_distinct=key.nulls_distinct)
        found = duplicate(data_path, table, columns, chunks, live, [], nulls_distinct=key.nulls_distinct)
        if found is not None:
            values = _listed(found.columns.to_pylist())
            yield Finding("duplicate key", table.path, f'{values} is there more than once, against "{key.name}"')


def _dangling(data_path: str, tables: Mapping[int, TableVersion], foreign_key: ForeignKey) -> Iterator[Finding]:
    child, parent = tables[foreign_key.child], tables[foreign_key.parent]
    columns = [child.table.column(attnum) for attnum in foreign_key.attnums]
    parents = [parent.table.column(attnum) for attnum in foreign_key.parent_attnums]
    for chunk in key_chunks(data_path, child.table, live_files(child), columns, nulls_distinct=True):
        values, places = distinct(chunk.keys)
        bounds = bounds_of(columns, parents, chunk.columns.columns)
        there = find(data_path, parent.table, parents, live_files(parent), values, bounds)
        missing = np.setdiff1d(np.arange(len(values)), there.wanted)
        if len(missing):
            row = chunk.columns.slice(int(places[missing[0]]), 1).to_pylist()
            message = f'{_listed(row)} refers to no row of "{parent.table.name}", against "{foreign_key.name}"'
            yield Finding("dangling reference", child.table.path, message)
            return


def _listed(rows: Sequence[Mapping[str, object]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in rows[0].items())
