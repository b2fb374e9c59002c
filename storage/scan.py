"""Lake tables as relations of Spark: which files, which columns, which rows of them are deleted.

A table version never changes, so the relation made of it (a global temporary view, which every session sees) is kept
for the next query; the least recently used go. What a view is keyed by is all that it is made of: the table's columns
and the files, each with its delete file.

A file that lacks a column (it was added later) gives the column's initial default. Deleted rows are left out by an
anti-join of the files that have any with the positions in their delete files; all other files are read as they are.
Files are told apart by their names alone, so that a lake may be moved; all of a table's are in its own folder.

Columns are read by their IDs, but Spark looks for the statistics by which it skips parts of a file by name: so a name
that it reads by must not be that of another column in the file. It is longer than any name in PostgreSQL.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from py4j.java_gateway import JavaObject

from catalog.errors import unsupported
from catalog.indexes import SIDECAR_ROWS_MIN
from catalog.model import Column, DataFile, Table
from storage import layout
from storage.arrow_types import spark_field
from storage.jvm import SparkJvm
from storage.located import LOCATED_MAX, local_relation, located_rows, may_be_local
from storage.lookup import LookUp, look_up
from storage.plan import FILE_COLUMN, POSITION_COLUMN, BoundScan, column_name

VIEWS_MAX: Final = 256
# So many small files are read beside located rows, in place of by a job of Spark's.
_SMALL_FILES_MAX: Final = 64
_NAME_BYTES_MAX: Final = 63  # of PostgreSQL (NAMEDATALEN)

# (table, columns, files with their delete files, whether positions are shown)
_Key = tuple[Any, ...]


class ScanViews:
    """The views of one JVM. `name_of` may be called by any thread that is bound to a statement."""

    def __init__(self, jvm: SparkJvm, data_path: str, views_max: int = VIEWS_MAX) -> None:
        self._jvm = jvm
        self._data_path = data_path
        self._views_max = views_max
        self._lock = threading.Lock()
        self._views: OrderedDict[_Key, str] = OrderedDict()
        self._in_use: dict[str, int] = {}
        self._dropped: set[str] = set()
        self._numbers = itertools.count(1)

    def acquire(self, bound: BoundScan) -> str:
        """The name of the scan's view, made where it is missing. It stays until it is released as often."""
        scan, version = bound.scan, bound.version
        found = look_up(self._data_path, bound)
        files = found.whole
        if found.rows:
            if found.row_count <= LOCATED_MAX and may_be_local(version.table.columns):
                return self._located(bound, found)
            skipped = {file.path for file in found.skipped}
            files = tuple(file for file in version.files if file.path not in skipped)
        key = (
            version.table.oid,
            version.table.columns,
            version.table.path,
            tuple((file.path, file.delete_file.path if file.delete_file else None) for file in files),
            scan.needs_position,
        )
        with self._lock:
            name = self._views.get(key)
            if name is not None:
                self._views.move_to_end(key)
                self._in_use[name] = self._in_use.get(name, 0) + 1
                return name
        name = f"scan_{next(self._numbers)}"
        relation = _Relation(self._jvm, self._data_path, version.table, scan.needs_position)
        relation.of(files).createGlobalTempView(name)
        with self._lock:
            self._in_use[name] = 1
            twin = self._views.pop(key, None)
            self._views[key] = name
            evicted = [] if twin is None else [twin]
            while len(self._views) > self._views_max:
                evicted.append(self._views.popitem(last=False)[1])
            self._dropped.update(evicted)
        self._drop_unused()
        return name

    def _located(self, bound: BoundScan, found: LookUp) -> str:
        """A view over the rows that an index has found, and what has to be read beside; nobody else will want it."""
        scan, table = bound.scan, bound.version.table
        columns = [column for column in table.columns if column.attnum in scan.attnums] or list(table.columns[:1])
        small = [file for file in found.whole if file.record_count < SIDECAR_ROWS_MIN][:_SMALL_FILES_MAX]
        if found.row_count + sum(file.record_count for file in small) > LOCATED_MAX:
            small = []
        taken = {file.path for file in small}
        whole = [file for file in found.whole if file.path not in taken]
        wanted = {**found.rows, **{file.path: np.arange(file.record_count) for file in small}}
        rows = located_rows(self._data_path, table, bound.version.files, wanted, columns)
        frame = local_relation(self._jvm, rows, columns, needs_position=scan.needs_position)
        if whole:
            relation = _Relation(self._jvm, self._data_path, table, scan.needs_position)
            names = [column_name(column.attnum) for column in columns]
            names += [FILE_COLUMN, POSITION_COLUMN] if scan.needs_position else []
            frame = frame.unionAll(relation.of(whole).selectExpr(_seq(self._jvm, names)))
        name = f"scan_{next(self._numbers)}"
        frame.createGlobalTempView(name)
        with self._lock:
            self._in_use[name] = 1
            self._dropped.add(name)
        return name

    def release(self, name: str) -> None:
        """The statement that acquired the view has been analysed."""
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


class _Relation:
    """Builds one DataFrame over files of a table."""

    def __init__(self, jvm: SparkJvm, data_path: str, table: Table, needs_position: bool) -> None:
        self._jvm = jvm
        self._folder = layout.join(data_path, table.path)
        self._table = table
        self._needs_position = needs_position

    def of(self, files: Sequence[DataFile]) -> JavaObject:
        """The rows of the files that are not deleted, under the names `c<attnum>`."""
        parts = [self._part(group, missing) for missing, group in self._groups(files)]
        if not parts:
            return self._empty()
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.unionAll(part)
        return frame

    def _groups(self, files: Sequence[DataFile]) -> list[tuple[tuple[Column, ...], list[DataFile]]]:
        """Files that can be read alike: lacking the same columns, and with or without deleted rows."""
        groups: dict[tuple[tuple[Column, ...], bool], list[DataFile]] = {}
        for file in files:
            groups.setdefault((self._missing(file), file.delete_file is not None), []).append(file)
        return [(missing, group) for (missing, _), group in groups.items()]

    def _missing(self, file: DataFile) -> tuple[Column, ...]:
        """The columns with an initial default that the file was written without."""
        return tuple(
            column
            for column in self._table.columns
            if column.initial_default is not None
            and not any(field_id in file.statistics for field_id in _field_ids(column))
        )

    def _part(self, files: list[DataFile], missing: tuple[Column, ...]) -> JavaObject:
        fields = [spark_field(_read_name(column), column) for column in self._table.columns]
        frame = self._read(fields, [file.path for file in files])
        has_deletes = files[0].delete_file is not None
        columns = [_expression(column, missing) for column in self._table.columns]
        if self._needs_position or has_deletes:
            columns.append(f"_metadata.file_name AS {FILE_COLUMN}")
            columns.append(f"_metadata.row_index AS {POSITION_COLUMN}")
        frame = frame.selectExpr(_seq(self._jvm, columns))
        if has_deletes:
            frame = self._without_deleted(frame, files)
        return frame

    def _without_deleted(self, frame: JavaObject, files: list[DataFile]) -> JavaObject:
        fields = [
            {"name": "file_path", "type": "string", "nullable": True, "metadata": {}},
            {"name": "pos", "type": "long", "nullable": True, "metadata": {}},
        ]
        deleted = self._read(fields, [file.delete_file.path for file in files if file.delete_file]).selectExpr(
            _seq(self._jvm, ["substring_index(file_path, '/', -1) AS deleted_file", "pos AS deleted_position"])
        )
        functions = self._jvm.view.functions
        condition = functions.expr(f"{FILE_COLUMN} = deleted_file AND {POSITION_COLUMN} = deleted_position")
        joined = frame.join(functions.broadcast(deleted), condition, "left_anti")
        if self._needs_position:
            return joined
        return joined.drop(FILE_COLUMN).drop(POSITION_COLUMN)

    def _read(self, fields: list[dict[str, Any]], paths: list[str]) -> JavaObject:
        schema = self._jvm.view.org.apache.spark.sql.types.DataType.fromJson(
            json.dumps({"type": "struct", "fields": fields})
        )
        urls = [layout.join(self._folder, path) for path in paths]
        return self._jvm.session.read().schema(schema).parquet(_seq(self._jvm, urls))

    def _empty(self) -> JavaObject:
        fields = [spark_field(column_name(column.attnum), column) for column in self._table.columns]
        if self._needs_position:
            fields.append({"name": FILE_COLUMN, "type": "string", "nullable": True, "metadata": {}})
            fields.append({"name": POSITION_COLUMN, "type": "long", "nullable": True, "metadata": {}})
        schema = self._jvm.view.org.apache.spark.sql.types.DataType.fromJson(
            json.dumps({"type": "struct", "fields": fields})
        )
        return self._jvm.session.createDataFrame(self._jvm.view.java.util.ArrayList(), schema)


def _expression(column: Column, missing: tuple[Column, ...]) -> str:
    name = column_name(column.attnum)
    if column not in missing:
        return f"{_read_name(column)} AS {name}"
    if column.form.children:
        raise unsupported(f'an initial default of column "{column.name}", which is an array or an interval')
    text = str(column.initial_default).replace("\\", "\\\\").replace("'", "\\'")
    if column.form.spark == "BINARY":
        digits = str(column.initial_default).removeprefix("\\x")
        return f"unhex('{digits}') AS {name}"
    # Below Spark SQL's `TIMESTAMP` is a local one (storage.jvm); in a form's name, it is a moment.
    kind = "TIMESTAMP_LTZ" if column.form.spark == "TIMESTAMP" else column.form.spark
    return f"CAST('{text}' AS {kind}) AS {name}"


def _read_name(column: Column) -> str:
    return column_name(column.attnum).ljust(_NAME_BYTES_MAX + 1, "_")


def _field_ids(column: Column) -> range:
    return range(column.column_id, column.column_id + column.form.field_count)


def _seq(jvm: SparkJvm, values: Sequence[str]) -> JavaObject:
    return jvm.view.PythonUtils.toSeq(list(values))
