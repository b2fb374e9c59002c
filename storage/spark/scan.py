"""Scans of lake tables as relations of Spark: files, columns and deleted rows.

A table version never changes, so its relation (a global temporary view, which every session sees) is kept for the next
query, which checks that its files still have their sizes. The least recently used are dropped. The key of a view is all
that it is made of: the table's columns and the files, each with its delete file.

A file that lacks a later column gives the column's initial default. Deleted rows are left out by an anti-join of the
files that have any with the positions in their delete files; all other files are read as they are. Files are told apart
by their names alone, so that a lake may be moved; all of a table's are in its own folder.

Small files are read and kept here (`storage/parquet/small_files.py`), and Spark gets their rows, also beside large
files. This takes Spark a quarter of the processor time for few files, and a small part of it for many.

Columns are read by their IDs, but Spark looks up the statistics by which it skips row groups by name. So files are read
together if they have the same columns under the same names (`storage/spark/read_names.py`).
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from py4j.java_gateway import JavaObject

from catalog.indexes import SIDECAR_ROWS_MIN
from catalog.model import Column, DataFile, DeleteFile, Table
from storage.indexes.lookup import LookUp, look_up
from storage.parquet.arrow_types import spark_field
from storage.parquet.file_identity import Expected, expected, expected_all
from storage.parquet.files import LakeFiles
from storage.parquet.initial_default import initial_default
from storage.parquet.row_numbers import first_numbers
from storage.parquet.small_files import is_small, small_files
from storage.plan import FILE_COLUMN, NUMBER_COLUMN, POSITION_COLUMN, BoundScan, Scan, column_name
from storage.spark.index_fetch import (
    LOCATED_MAX,
    in_nanoseconds,
    local_frame,
    local_relation,
    located_rows,
    may_be_local,
    plain_field,
)
from storage.spark.jvm import SparkJvm
from storage.spark.read_names import ReadNames, read_names

VIEWS_MAX: Final = 256
# So many small files are read beside located rows, in place of a job of Spark's.
_SMALL_FILES_MAX: Final = 64
# So many bytes of small files are read here and handed over, and stay in the JVM's memory as a view.
_HANDED_FILES_MAX: Final = 2_000
_HANDED_BYTES_MAX: Final = 4 * 2**20
# Unpacked, they have at most so many.
_UNPACKED_BYTES_MAX: Final = 64 * 2**20
# Beside large files Spark reads fewer small ones along with them.
_HANDED_FILES_MIN: Final = 8
# The limit of all views for rows that were handed over, in bytes of their files.
_VIEWS_BYTES_MAX: Final = 64 * 2**20

# (table, columns, files with their delete files, whether positions are shown, the numbers of first rows if shown)
_Key = tuple[Any, ...]
_DELETED: Final = [plain_field("deleted_file", "string"), plain_field("deleted_position", "long")]
_NUMBERED: Final = [plain_field("numbered_file", "string"), plain_field("first_number", "long")]


class View(NamedTuple):
    """A relation of Spark's by its `name`.

    `row_count` is the number of handed rows, None if it reads files, too; `handed_bytes` are those of their files.
    """

    name: str
    row_count: int | None
    handed_bytes: int = 0


class ScanViews:
    """The views of one JVM. Any thread that is bound to a statement may call `acquire`."""

    def __init__(self, jvm: SparkJvm, data_path: str, views_max: int = VIEWS_MAX) -> None:
        self._jvm = jvm
        self._data_path = data_path
        self._views_max = views_max
        self._lock = threading.Lock()
        self._views: OrderedDict[_Key, View] = OrderedDict()
        self._in_use: dict[str, int] = {}
        self._dropped: set[str] = set()
        self._numbers = itertools.count(1)

    def acquire(self, bound: BoundScan, held: ExitStack, check: Callable[[], None]) -> View:
        """Return the scan's view, created if missing. It stays until it is released as often.

        Its files are in `held`, so that they stay until the query has run. `check` raises if the query is cancelled.
        """
        scan, version = bound.scan, bound.version
        reading = _Reading(LakeFiles(self._data_path), held, check)
        if bound.rows is not None:
            return self._given(bound, bound.rows)
        found = look_up(self._data_path, bound)
        files = found.whole
        if found.rows:
            if found.row_count <= LOCATED_MAX and may_be_local(version.table.columns):
                return self._located(bound, found, reading)
            skipped = {file.path for file in found.skipped}
            files = tuple(file for file in version.files if file.path not in skipped)
        numbers = _numbers(bound)
        key = (
            version.table.oid,
            version.table.columns,
            version.table.path,
            tuple((file.path, file.delete_file.path if file.delete_file else None) for file in files),
            scan.needs_position,
            tuple(numbers[file.path] for file in files) if numbers is not None else None,
        )
        with self._lock:
            view = self._views.get(key)
            if view is not None:
                self._views.move_to_end(key)
                self._in_use[view.name] = self._in_use.get(view.name, 0) + 1
        if view is not None:
            try:
                reading.hold(list(expected_all(version.table.path, files)))
            except BaseException:
                self.release(view.name)
                raise
            return view
        name = f"scan_{next(self._numbers)}"
        handed, read = _divided(reading.files, version.table, files)
        relation = _Relation(self._jvm, bound, reading)
        frame = relation.of(read) if read or not handed else self._local(bound, handed)
        if read and handed:
            frame = frame.unionAll(self._local(bound, handed))
        frame.createGlobalTempView(name)
        row_count = None if read else sum(file.record_count for file in handed)
        view = View(name, row_count, sum(file.size_bytes for file in handed))
        with self._lock:
            self._in_use[name] = 1
            twin = self._views.pop(key, None)
            self._views[key] = view
            evicted = [] if twin is None else [twin]
            while len(self._views) > self._views_max or (len(self._views) > 1 and self._bytes() > _VIEWS_BYTES_MAX):
                evicted.append(self._views.popitem(last=False)[1])
            self._dropped.update(each.name for each in evicted)
        self._drop_unused()
        return view

    def _bytes(self) -> int:
        return sum(view.handed_bytes for view in self._views.values())

    def _local(self, bound: BoundScan, files: Sequence[DataFile]) -> JavaObject:
        """Return all rows of a few small files."""
        table = bound.version.table
        wanted = {file.path: np.arange(file.record_count) for file in files}
        rows = located_rows(self._data_path, table, files, wanted, table.columns)
        needs_position, numbers = bound.scan.needs_position, _numbers(bound)
        if may_be_local(table.columns):
            return local_relation(self._jvm, rows, table.columns, needs_position=needs_position, numbers=numbers)
        frame = local_relation(self._jvm, rows, table.columns, needs_position=True, numbers=numbers)
        return frame.selectExpr(_seq(self._jvm, _shown(bound.scan)))

    def _located(self, bound: BoundScan, found: LookUp, reading: _Reading) -> View:
        """Return a view over the rows that an index has found and the files to be read beside; it is not shared."""
        scan, table = bound.scan, bound.version.table
        columns = [column for column in table.columns if column.attnum in scan.attnums] or list(table.columns[:1])
        hot = [file for file in found.whole if file.hot_rows is not None]
        others = [file for file in found.whole if file.hot_rows is None]
        small = hot + [file for file in others if file.record_count < SIDECAR_ROWS_MIN][:_SMALL_FILES_MAX]
        count = found.row_count + sum(file.record_count for file in small)
        if count > LOCATED_MAX:
            small = hot
            count = found.row_count + sum(file.record_count for file in small)
        taken = {file.path for file in small}
        whole = [file for file in found.whole if file.path not in taken]
        wanted = {**found.rows, **{file.path: np.arange(file.record_count) for file in small}}
        rows = located_rows(self._data_path, table, bound.version.files, wanted, columns)
        frame = local_relation(self._jvm, rows, columns, needs_position=scan.needs_position, numbers=_numbers(bound))
        if whole:
            relation = _Relation(self._jvm, bound, reading)
            names = [*(column_name(column.attnum) for column in columns), *_shown(scan)]
            frame = frame.unionAll(relation.of(whole).selectExpr(_seq(self._jvm, names)))
        return self._unshared(frame, None if whole else count)

    def _given(self, bound: BoundScan, rows: pa.Table) -> View:
        """Return a view over rows of a table outside of the lake; it is not shared."""
        fields = [spark_field(column_name(column.attnum), column) for column in bound.version.table.columns]
        return self._unshared(local_frame(self._jvm, [in_nanoseconds(rows)], fields), rows.num_rows)

    def _unshared(self, frame: JavaObject, row_count: int | None) -> View:
        name = f"scan_{next(self._numbers)}"
        frame.createGlobalTempView(name)
        with self._lock:
            self._in_use[name] = 1
            self._dropped.add(name)
        return View(name, row_count)

    def release(self, name: str) -> None:
        """Release the view: the statement that acquired it has been analysed."""
        with self._lock:
            self._in_use[name] -= 1
        self._drop_unused()

    def _drop_unused(self) -> None:
        with self._lock:
            unused = [name for name in self._dropped if not self._in_use.get(name)]
            self._dropped.difference_update(unused)
            for name in unused:
                self._in_use.pop(name, None)
        for name in unused:
            self._jvm.session.catalog().dropGlobalTempView(name)


class _Reading(NamedTuple):
    """The files of a query, which are `held` until it has run; `check` raises if it is cancelled."""

    files: LakeFiles
    held: ExitStack
    check: Callable[[], None]

    def hold(self, files: Sequence[Expected], *, is_first: bool = False) -> None:
        """Keep these, and compare them with the catalog. Errors as `LakeFiles.held`."""
        self.held.enter_context(self.files.held(files, is_first=is_first, check=self.check))


class _Relation:
    """Builds one DataFrame over files of a table."""

    def __init__(self, jvm: SparkJvm, bound: BoundScan, reading: _Reading) -> None:
        self._jvm = jvm
        self._table = bound.version.table
        self._reading = reading
        self._numbers = _numbers(bound)
        self._shown = _shown(bound.scan)

    def of(self, files: Sequence[DataFile]) -> JavaObject:
        """Return the live rows of the files, under the names `c<attnum>`."""
        parts = [self._part(group, missing, names) for missing, names, group in self._groups(files)]
        if not parts:
            return self._empty()
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.unionAll(part)
        return frame if self._numbers is None else self._numbered(frame, self._numbers)

    def _numbered(self, frame: JavaObject, numbers: Mapping[str, int]) -> JavaObject:
        """Add `_number`, and drop the columns that it is made of unless they are shown too."""
        table = pa.table({"numbered_file": list(numbers), "first_number": pa.array(numbers.values(), pa.int64())})
        first = self._jvm.view.functions.broadcast(local_frame(self._jvm, [table], _NUMBERED))
        joined = frame.join(first, self._jvm.view.functions.expr(f"{FILE_COLUMN} = numbered_file"))
        columns = [column_name(column.attnum) for column in self._table.columns]
        columns += [
            f"first_number + {POSITION_COLUMN} AS {NUMBER_COLUMN}" if name == NUMBER_COLUMN else name
            for name in self._shown
        ]
        return joined.selectExpr(_seq(self._jvm, columns))

    def _groups(self, files: Sequence[DataFile]) -> list[tuple[tuple[Column, ...], ReadNames, list[DataFile]]]:
        """Group files that can be read alike: lacking the same columns, under the same names, and with or without
        deleted rows."""
        names = read_names(self._reading.files, self._table, files, self._reading.check)
        groups: dict[tuple[tuple[Column, ...], ReadNames, bool], list[DataFile]] = {}
        for file in files:
            key = self._missing(file), names[file.path], file.delete_file is not None
            groups.setdefault(key, []).append(file)
        return [(missing, group_names, group) for (missing, group_names, _), group in groups.items()]

    def _missing(self, file: DataFile) -> tuple[Column, ...]:
        """Return the columns with an initial default that the file was written without."""
        return tuple(
            column
            for column in self._table.columns
            if column.initial_default is not None
            and not any(field_id in file.statistics for field_id in _field_ids(column))
        )

    def _part(self, files: list[DataFile], missing: tuple[Column, ...], names: ReadNames) -> JavaObject:
        there = [each for each in zip(self._table.columns, names, strict=True) if each[0] not in missing]
        frame = self._read([spark_field(name, column) for column, name in there], files)
        has_deletes = files[0].delete_file is not None
        columns = [f"`{name}` AS {column_name(column.attnum)}" for column, name in there]
        if self._shown or has_deletes:
            columns.append(f"_metadata.file_name AS {FILE_COLUMN}")
            columns.append(f"_metadata.row_index AS {POSITION_COLUMN}")
        frame = frame.selectExpr(_seq(self._jvm, columns))
        if missing:
            frame = self._with_initial_defaults(frame, missing, columns[len(there) :])
        if has_deletes:
            frame = self._without_deleted(frame, files)
        return frame

    def _with_initial_defaults(
        self, frame: JavaObject, missing: tuple[Column, ...], shown: Sequence[str]
    ) -> JavaObject:
        """Add the columns that the files lack: the same values beside every row.

        Spark has no constant for some of them (24:00).
        """
        names = [column_name(column.attnum) for column in missing]
        values = pa.table([pa.repeat(initial_default(column), 1) for column in missing], names)
        fields = [spark_field(column_name(column.attnum), column) for column in missing]
        given = local_frame(self._jvm, [in_nanoseconds(values)], fields)
        ordered = [column_name(column.attnum) for column in self._table.columns]
        ordered += [each.rpartition(" ")[2] for each in shown]
        return frame.crossJoin(self._jvm.view.functions.broadcast(given)).selectExpr(_seq(self._jvm, ordered))

    def _without_deleted(self, frame: JavaObject, files: list[DataFile]) -> JavaObject:
        fields = [
            {"name": "file_path", "type": "string", "nullable": True, "metadata": {}},
            {"name": "pos", "type": "long", "nullable": True, "metadata": {}},
        ]
        inlined, stored = self._inlined(files), [each.delete_file.file for each in files if each.delete_file]
        deleted = local_frame(self._jvm, [inlined], _DELETED) if inlined.num_rows else None
        read = [each for each in stored if each is not None]
        if read:
            columns = ["substring_index(file_path, '/', -1) AS deleted_file", "pos AS deleted_position"]
            in_files = self._read(fields, read).selectExpr(_seq(self._jvm, columns))
            deleted = in_files if deleted is None else in_files.unionAll(deleted)
        assert deleted is not None, "the files have deleted rows"
        functions = self._jvm.view.functions
        condition = functions.expr(f"{FILE_COLUMN} = deleted_file AND {POSITION_COLUMN} = deleted_position")
        joined = frame.join(functions.broadcast(deleted), condition, "left_anti")
        if self._shown:
            return joined
        return joined.drop(FILE_COLUMN).drop(POSITION_COLUMN)

    def _inlined(self, files: Sequence[DataFile]) -> pa.Table:
        """Return the deleted rows that the catalog has itself, by their files' names."""
        found = {each.path: np.array(each.delete_file.positions or (), np.int64) for each in files if each.delete_file}
        numbers = np.repeat(np.arange(len(found)), list(map(len, found.values())))
        names = pa.array(list(found), pa.string()).take(pa.array(numbers))
        return pa.table({"deleted_file": names, "deleted_position": np.concatenate([*found.values()])})

    def _read(self, fields: list[dict[str, Any]], files: Sequence[DataFile | DeleteFile]) -> JavaObject:
        """Return files as Spark reads them. Spark skips a file that has become empty, so files are checked before."""
        known = [expected(self._table.path, file) for file in files]
        self._reading.hold(known, is_first=True)
        schema = self._jvm.view.org.apache.spark.sql.types.DataType.fromJson(
            json.dumps({"type": "struct", "fields": fields})
        )
        urls = [self._reading.files.spark_path(of.path) for of in known]
        return self._jvm.session.read().schema(schema).parquet(_seq(self._jvm, urls))

    def _empty(self) -> JavaObject:
        fields = [spark_field(column_name(column.attnum), column) for column in self._table.columns]
        fields += [plain_field(name, "string" if name == FILE_COLUMN else "long") for name in self._shown]
        schema = self._jvm.view.org.apache.spark.sql.types.DataType.fromJson(
            json.dumps({"type": "struct", "fields": fields})
        )
        return self._jvm.session.createDataFrame(self._jvm.view.java.util.ArrayList(), schema)


def _divided(lake: LakeFiles, table: Table, files: Sequence[DataFile]) -> tuple[Sequence[DataFile], Sequence[DataFile]]:
    """Return (files whose rows are handed to Spark, because opening them would cost it more; the others).

    Hot rows are handed, however many they are.
    """
    hot = [file for file in files if file.hot_rows is not None]
    cold = [file for file in files if file.hot_rows is None]
    small = [file for file in files if is_small(file)]
    if (
        not may_be_local(table.columns)
        or len(small) < min(len(files), _HANDED_FILES_MIN)
        or len(small) > _HANDED_FILES_MAX
        or sum(file.record_count for file in small) > LOCATED_MAX
        or sum(file.size_bytes for file in small) > _HANDED_BYTES_MAX
    ):
        return hot, cold
    left = _UNPACKED_BYTES_MAX
    for file in small:
        found = small_files.read(lake, table.path, file)
        left -= left + 1 if found is None else found.rows.nbytes
        if left < 0:
            return hot, cold
    return small, [file for file in files if not is_small(file)]


def _numbers(bound: BoundScan) -> Mapping[str, int] | None:
    """Return the numbers of the files' first rows, if the scan shows rows' numbers."""
    return first_numbers(bound.version.files) if bound.scan.needs_number else None


def _shown(scan: Scan) -> list[str]:
    """Return what the scan shows beside the table's columns."""
    return [FILE_COLUMN, POSITION_COLUMN] * scan.needs_position + [NUMBER_COLUMN] * scan.needs_number


def _field_ids(column: Column) -> range:
    return range(column.column_id, column.column_id + column.form.field_count)


def _seq(jvm: SparkJvm, values: Sequence[str]) -> JavaObject:
    return jvm.view.PythonUtils.toSeq(list(values))
