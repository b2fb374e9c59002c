"""Check that the lake's files match the catalog, and that its hot rows can be read.

Every file of a readable version must exist with its size, be readable, and have its rows and field IDs. Every delete
file must delete existing rows, each once. Every other file is an orphan: left by a killed statement, or, beside a
running gateway, still being written.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SluiceError
from catalog.model import DataFile, DeleteFile, Table, TableVersion
from storage.finding import Finding
from storage.parquet import layout
from storage.parquet.arrow_types import leaf_types
from storage.parquet.file_identity import Expected
from storage.parquet.files import LakeFiles
from storage.parquet.hot_rows import decode
from storage.parquet.positions import deleted_positions
from storage.parquet.statistics import leaf_field_ids

_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class _Published:
    """A file that the catalog names; `data_file` is the file itself, or the data file of a delete file."""

    path: str
    table: Table
    data_file: DataFile
    delete_file: DeleteFile | None = None

    @property
    def size_bytes(self) -> int:
        return self.data_file.size_bytes if self.delete_file is None else self.delete_file.size_bytes


def check_files(
    data_path: str,
    published: Iterable[TableVersion],
    sidecars: Mapping[str, int | None] | None = None,
    scheduled: Collection[str] = (),
) -> list[Finding]:
    """Compare the files of a lake with what is published (every version that is still readable). Blocking.

    `sidecars` are those of the indexes (path and size, None to ignore the size). `scheduled` are the files that are
    about to be removed: no version may have them.
    """
    files = LakeFiles(data_path)
    versions = list(published)
    named = _by_path(versions)
    known = sidecars or {}
    present = files.list()
    findings = [_orphan(path) for path in present.keys() - named.keys() - known.keys() - set(scheduled)]
    sizes = [_check_size(path, size, present.get(path)) for path, size in known.items() if size is not None]
    findings += [finding for finding in sizes if finding is not None]
    message = "a snapshot still has this file, but it is about to be removed"
    findings += [Finding("scheduled", path, message) for path in named.keys() & set(scheduled)]
    with ThreadPoolExecutor(_THREADS) as threads:
        for found in threads.map(lambda each: list(_check(files, each, present.get(each.path))), named.values()):
            findings.extend(found)
    inside = {_path(version.table, file.path): (version.table, file) for version in versions for file in version.files}
    for path, (table, file) in inside.items():
        if file.hot_rows is not None:
            findings += _check_hot_rows(path, file, file.hot_rows)
        if file.delete_file is not None and file.delete_file.positions is not None:
            findings += _check_positions(files, path, table, file, file.delete_file)
    return sorted(findings, key=lambda finding: (finding.path, finding.kind))


def _by_path(published: Iterable[TableVersion]) -> dict[str, _Published]:
    return {each.path: each for version in published for each in _named(version)}


def _named(version: TableVersion) -> Iterator[_Published]:
    table = version.table
    for file in version.files:
        if file.hot_rows is None:
            yield _Published(_path(table, file.path), table, file)
        stored = None if file.delete_file is None else file.delete_file.file
        if stored is not None:
            yield _Published(_path(table, stored.path), table, file, stored)


def _path(table: Table, name: str) -> str:
    return layout.join(table.path, name).lstrip("/")


def _orphan(path: str) -> Finding:
    born = layout.born_at(path)
    age = "" if born is None else f"; it was begun {max(time.time() - born, 0):.0f} s ago"
    return Finding("orphan", path, f"no version of any table has this file{age}")


def _check_size(path: str, expected: int, size: int | None) -> Finding | None:
    if size is None:
        return Finding("missing", path, "the catalog names this file, but it is not there")
    if size != expected:
        return Finding("size", path, f"{size} bytes, but {expected} by the catalog")
    return None


def _check(files: LakeFiles, published: _Published, size: int | None) -> Iterator[Finding]:
    path = published.path
    found = _check_size(path, published.size_bytes, size)
    if found is not None:
        yield found
    if size is None:
        return
    try:
        if published.delete_file is None:
            yield from _check_data(files, published, size)
        else:
            yield from _check_deletes(files, path, published.data_file, published.delete_file)
    except SluiceError as error:
        yield Finding("unreadable", path, error.message)


def _check_data(files: LakeFiles, published: _Published, size: int) -> Iterator[Finding]:
    footer, expected = files.footer(published.path), published.data_file.footer_size
    if size == published.size_bytes and expected and footer.serialized_size != expected:
        yield Finding(
            "size", published.path, f"{footer.serialized_size} bytes of footer, but {expected} by the catalog"
        )
    if footer.num_rows != published.data_file.record_count:
        count = published.data_file.record_count
        yield Finding("record count", published.path, f"{footer.num_rows} rows, but {count} by the catalog")
    ids = leaf_field_ids(footer.schema.to_arrow_schema())
    known = {field_id for column in published.table.columns for field_id, _ in leaf_types(column)}
    # The columns that a file was written with may all have been dropped since, or got another type.
    known.update(published.data_file.statistics)
    # The columns of a table that was dropped since are unknown.
    if None in ids or (known and not known.intersection(ids)):
        yield Finding(
            "field ids", published.path, f"the columns have the field IDs {ids}, the table has {sorted(known)}"
        )


def _check_hot_rows(path: str, file: DataFile, hot_rows: str) -> Iterator[Finding]:
    """Check rows that the catalog has itself."""
    try:
        rows, _ = decode(hot_rows)
    except (ValueError, LookupError, pa.ArrowException) as error:
        yield Finding("hot rows", path, f"the catalog's rows cannot be read: {error}")
        return
    if rows.num_rows != file.record_count:
        yield Finding("record count", path, f"{rows.num_rows} hot rows, but {file.record_count} by the catalog")


def _check_positions(
    files: LakeFiles, path: str, table: Table, file: DataFile, deletes: DeleteFile
) -> Iterator[Finding]:
    """Check deleted positions that the catalog has itself; none may be in the file of earlier ones too."""
    try:
        positions = deleted_positions(files, table.path, deletes)
    except SluiceError:
        return  # the file is damaged, and told of where files are checked
    if list(positions) != sorted({each for each in positions.tolist() if 0 <= each < file.record_count}):
        yield Finding("deletes", path, "the deleted positions that the catalog has are not ascending, each once")
    if len(positions) != deletes.delete_count:
        yield Finding("deletes", path, f"{len(positions)} positions, but {deletes.delete_count} by the catalog")


def _check_deletes(files: LakeFiles, path: str, data_file: DataFile, delete_file: DeleteFile) -> Iterator[Finding]:
    # Its state by now, which is compared here with what it should be.
    found = Expected(path, files.size(path), 0, files.footer(path).num_rows)
    positions = files.read_column(found, "pos")
    if len(positions) != delete_file.delete_count:
        yield Finding("record count", path, f"{len(positions)} rows, but {delete_file.delete_count} by the catalog")
    if len(positions) == 0:
        return
    values = positions.combine_chunks()
    if values.null_count or not _ascending(values):
        yield Finding("deletes", path, "the positions are not ascending, each once")
    extremes = pc.min_max(values).as_py()
    if extremes["min"] < 0 or extremes["max"] >= data_file.record_count:
        rows = data_file.record_count
        yield Finding(
            "deletes", path, f'positions up to {extremes["max"]} of "{data_file.path}", which has {rows} rows'
        )


def _ascending(values: pa.Array) -> bool:
    return len(values) < 2 or bool(pc.all(pc.less(values.slice(0, len(values) - 1), values.slice(1))).as_py())
