"""Writes of statements: new data files, and delete files.

Spark computes the rows of an INSERT, UPDATE or DELETE in one pass, so they are evaluated once. The kind of write
decides where files are written:

- A large INSERT … SELECT without RETURNING, into a table without arrays and without a partition key, is written by
  Spark's tasks, into a folder of the job's own, from which the files are moved under their final names.
- Everything else returns as Arrow batches and is written here. For a small statement this saves the 0.1 s of a Spark
  write. It gives list elements field IDs, which Spark's Parquet writer cannot do (DuckDB reads elements without one as
  NULL). Memory is bounded: a row group, and a byte per row of each file that loses rows.

A statement that fails or is cancelled removes what it wrote. A killed one leaves orphans, which `check` names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from py4j.java_gateway import JavaObject

from catalog.errors import SluiceError, SqlState
from catalog.model import Column, DataFile, DeleteFile, Table, TableVersion
from catalog.partitions import UNITS
from storage.parquet import layout
from storage.parquet.arrow_types import has_list, leaf_types, spark_field
from storage.parquet.files import LakeFiles
from storage.parquet.parquet_writer import FILE_BYTES, ROW_GROUP_BYTES, ROW_GROUP_ROWS, ParquetWriter
from storage.parquet.positions import INLINED_MAX, DeletedPositions
from storage.parquet.statistics import column_statistics
from storage.plan import RunnableDelete, RunnableInsert, RunnableQuery, RunnableUpdate
from storage.spark.jvm import SparkJvm
from storage.spark.results import ArrowRows
from storage.spark.statement import Statement
from storage.spool.spill import Spill

_FOOTER_READERS: Final = 8
# The most that Spark can be told; its estimate for a join of joins may be any number.
_TASKS_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Files that a statement wrote, complete and synced but not published.

    `data_files` are new; `delete_files` maps the path of an existing data file to the delete file that replaces its
    former one. Paths are relative to the table's folder. `row_count` is the number in the command tag. `returning`
    holds the RETURNING columns (None if the query asked for none), to be read once. `positions` are the rows that the
    statement itself deleted, by the path of their data file, ascending. `sources` says of each new row which one it
    replaces: `file` and `position`, in the order of the new files' rows. Only an UPDATE that was asked for them has it,
    up to the number of rows asked for. `order` is that of ParquetWriter, where the rows were sorted or divided.
    """

    data_files: tuple[DataFile, ...] = ()
    delete_files: Mapping[str, DeleteFile] = field(default_factory=dict)
    row_count: int = 0
    returning: pa.RecordBatchReader | None = None
    positions: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    sources: pa.Table | None = None
    order: npt.NDArray[np.int64] | None = None

    def in_order(self, sources: pa.Table | None) -> pa.Table | None:
        """Return a table with a row for each new row as it was given, in the order of the new files' rows."""
        if sources is None or self.order is None:
            return sources
        assert len(self.order) == sources.num_rows, "the writer has not noted where all rows stood"
        return sources.unify_dictionaries().take(pa.array(self.order))

    def paths(self, table_path: str) -> list[str]:
        """Return every file of the result, relative to the data path; hot rows have none."""
        names = [file.path for file in self.data_files if file.hot_rows is None]
        names += [path for file in self.delete_files.values() for path in file.new_paths]
        return [layout.join(table_path, name) for name in names]


class Work(Protocol):
    """What a statement's thread works with."""

    jvm: SparkJvm
    statement: Statement

    def frame(self, query: RunnableQuery) -> JavaObject:
        """Return the query, analysed."""

    def rows(self, frame: JavaObject) -> ArrowRows:
        """Return the rows of an analysed query."""


def insert(work: Work, data_path: str, command: RunnableInsert, spark_writes_from: int) -> WriteResult:
    """Run the INSERT; from `spark_writes_from` bytes on (Spark's estimate of the rows) Spark's tasks write."""
    frame = work.frame(command.source)
    width = len(command.table.columns)
    returns = len(frame.columns()) > width
    spark_can_write = _spark_can_write(command.table) and LakeFiles(data_path).spark_writes
    if not returns and (spark_can_write or command.table.partition_key):
        estimate = int(frame.queryExecution().optimizedPlan().stats().sizeInBytes())
        if estimate >= spark_writes_from:
            if not command.table.partition_key:
                return _insert_by_spark(work, data_path, command.table, frame, estimate)
            frame = _by_partition(work.jvm, frame, command.table)
    rows = work.rows(frame)
    returning = _Returning(rows.schema, width)
    writer = ParquetWriter(
        data_path,
        command.table,
        file_bytes=command.file_bytes or FILE_BYTES,
        syncs_later=True,
        hot_rows=command.hot_rows,
        sorts=True,
        divides=command.divided,
    )
    count = 0
    try:
        for batch in rows:
            writer.write(batch.select(range(width)))
            returning.write(batch)
            count += batch.num_rows
        work.statement.check()
        return WriteResult(writer.finish(), {}, count, returning.reader())
    except BaseException:
        writer.abort()
        raise


def delete(work: Work, data_path: str, command: RunnableDelete) -> WriteResult:
    """Run the DELETE."""
    rows = work.rows(work.frame(command.source))
    returning = _Returning(rows.schema, 2)
    positions = DeletedPositions(command.version)
    for batch in rows:
        fresh = positions.add(batch.column(0), batch.column(1))
        returning.write(_only(batch, fresh))
    work.statement.check()
    delete_files = positions.write(LakeFiles(data_path), INLINED_MAX if command.hot_rows else 0)
    return WriteResult((), delete_files, positions.count, returning.reader(), positions.marked())


def update(work: Work, data_path: str, command: RunnableUpdate) -> WriteResult:
    """Run the UPDATE."""
    rows = work.rows(work.frame(command.source))
    width = len(command.version.table.columns)
    returning = _Returning(rows.schema, 2 + width)
    positions = DeletedPositions(command.version)
    writer = ParquetWriter(
        data_path,
        command.version.table,
        syncs_later=True,
        hot_rows=command.hot_rows,
        sorts=True,
        order_max=command.sources_max,
    )
    sources: list[pa.RecordBatch] = []
    try:
        for batch in rows:
            fresh = _only(batch, positions.add(batch.column(0), batch.column(1)))
            if positions.count > command.sources_max:
                sources.clear()
            else:
                sources.append(
                    pa.RecordBatch.from_arrays(
                        [fresh.column(0).dictionary_encode(), fresh.column(1)], names=["file", "position"]
                    )
                )
            writer.write(fresh.select(range(2, 2 + width)))
            returning.write(fresh)
        work.statement.check()
        data_files = writer.finish()
        delete_files = positions.write(LakeFiles(data_path), INLINED_MAX if command.hot_rows else 0)
    except BaseException:
        writer.abort()
        raise
    paired = pa.Table.from_batches(sources) if sources else None
    if paired is not None and writer.order is not None:
        paired = paired.take(pa.array(writer.order))
    return WriteResult(data_files, delete_files, positions.count, returning.reader(), positions.marked(), paired)


def replace_rows(
    data_path: str,
    version: TableVersion,
    gone: Mapping[str, npt.NDArray[np.int64]],
    rows: Iterable[pa.RecordBatch | pa.Table] = (),
    hot_rows: int = 0,
) -> WriteResult:
    """Delete the rows at these positions, by the path of their data file, and write others. Without Spark. Up to
    `hot_rows` rows become hot rows; with 0, all that is written is files."""
    positions = DeletedPositions(version)
    writer = ParquetWriter(data_path, version.table, syncs_later=True, hot_rows=hot_rows, order_max=sys.maxsize)
    try:
        for path, places in gone.items():
            positions.mark(path, places)
        for batch in rows:
            writer.write(batch)
        data_files = writer.finish()
        delete_files = positions.write(LakeFiles(data_path), INLINED_MAX if hot_rows else 0)
    except BaseException:
        writer.abort()
        raise
    return WriteResult(data_files, delete_files, positions.count, None, positions.marked(), order=writer.order)


class _Returning:
    """The columns from number `start` on, kept for the client; nothing if there are none."""

    def __init__(self, schema: pa.Schema, start: int) -> None:
        self._columns = range(start, len(schema))
        self._spill = Spill(pa.schema([schema.field(index) for index in self._columns])) if self._columns else None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._spill is not None:
            self._spill.write(batch.select(self._columns))

    def reader(self) -> pa.RecordBatchReader | None:
        return None if self._spill is None else self._spill.reader()


def _only(batch: pa.RecordBatch, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.RecordBatch:
    return batch if mask.all() else batch.filter(pa.array(mask))


def _spark_can_write(table: Table) -> bool:
    """Whether Spark can write: no arrays and no partition key (see above), and no names that differ only in case, which
    Spark takes for the same."""
    if table.partition_key:
        return False
    names = {column.name.lower() for column in table.columns}
    return len(names) == len(table.columns) and not any(has_list(column.form) for column in table.columns)


def _insert_by_spark(work: Work, data_path: str, table: Table, frame: JavaObject, estimate: int) -> WriteResult:
    """Let Spark's tasks write. Their files are invisible under the job folder, whatever happens to the job."""
    files = LakeFiles(data_path)
    folder = layout.join(table.path, layout.new_job_folder())
    tasks = min(max(work.jvm.parallelism, -(-estimate // FILE_BYTES)), _TASKS_MAX)
    moved: list[str] = []
    try:
        (
            _in_tasks(work.jvm, _with_field_ids(work.jvm, frame, table.columns), table, tasks)
            .write()
            .option("parquet.block.size", str(ROW_GROUP_BYTES))
            .option("parquet.block.row.count.limit", str(ROW_GROUP_ROWS))
            .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            .parquet(files.full_path(folder))
        )
        work.statement.check()
        for source in sorted(path for path in files.made(folder) if path.endswith(".parquet")):
            name = layout.new_data_file()
            moved.append(layout.join(table.path, name))
            files.adopt(source, moved[-1])
        with ThreadPoolExecutor(_FOOTER_READERS) as readers:
            described = list(readers.map(lambda path: _described(files, path, table), moved))
        files.remove([path for path, file in zip(moved, described, strict=True) if file.record_count == 0])
        written = tuple(file for file in described if file.record_count > 0)
        files.sync_later([layout.join(table.path, file.path) for file in written])
    except BaseException:
        files.remove(moved)
        raise
    finally:
        files.remove_folder(folder)
    return WriteResult(written, {}, sum(file.record_count for file in written))


def _in_tasks(jvm: SparkJvm, frame: JavaObject, table: Table, tasks: int) -> JavaObject:
    """Return the frame in so many parts, or fewer; with a sort key, each has a range of it, in order."""
    if not table.sort_key:
        return frame.coalesce(tasks)
    names = {column.attnum: column.name for column in table.columns}
    key = jvm.view.PythonUtils.toSeq(
        [
            getattr(
                frame.col("`" + names[each.attnum].replace("`", "``") + "`"),
                f"{'desc' if each.descending else 'asc'}_nulls_{'first' if each.nulls_first else 'last'}",
            )()
            for each in table.sort_key
        ]
    )
    return frame.repartitionByRange(tasks, key).sortWithinPartitions(key)


def _by_partition(jvm: SparkJvm, frame: JavaObject, table: Table) -> JavaObject:
    """Return the frame in an order in which most rows of a partition follow each other, so that their files are large.
    Buckets have no order in Spark."""
    columns = [f"column_{index}" for index in range(len(table.columns))]
    places = {column.attnum: index for index, column in enumerate(table.columns)}
    named = frame.toDF(jvm.view.PythonUtils.toSeq(columns))
    values = [each.attnum for each in table.partition_key if each.transform == "identity"]
    times = [each.attnum for each in table.partition_key if each.transform in UNITS]
    order = [named.col(columns[places[attnum]]) for attnum in dict.fromkeys([*values, *times])]
    return named.sort(jvm.view.PythonUtils.toSeq(order)) if order else frame


def _with_field_ids(jvm: SparkJvm, frame: JavaObject, columns: tuple[Column, ...]) -> JavaObject:
    """Return the frame's columns under the table's names and types, with the field IDs in their metadata."""
    fields = [spark_field(column.name, column) for column in columns]
    schema = jvm.view.org.apache.spark.sql.types.DataType.fromJson(json.dumps({"type": "struct", "fields": fields}))
    names = [f"column_{index}" for index in range(len(columns))]
    functions, to_seq = jvm.view.functions, jvm.view.PythonUtils.toSeq
    chosen = [
        # `as` is a keyword of Python.
        getattr(functions.col(name).cast(target.dataType()), "as")(target.name(), target.metadata())
        for name, target in zip(names, schema.fields(), strict=True)
    ]
    return frame.toDF(to_seq(names)).select(to_seq(chosen))


def _described(files: LakeFiles, path: str, table: Table) -> DataFile:
    footer = files.footer(path)
    statistics = column_statistics(footer, table.columns)
    expected = {field_id for column in table.columns for field_id, _ in leaf_types(column)}
    if statistics.keys() != expected:
        raise SluiceError(SqlState.INTERNAL_ERROR, f'Spark wrote "{path}" without the field IDs it was given')
    return DataFile(
        path=path.rpartition("/")[2],
        record_count=footer.num_rows,
        size_bytes=files.size(path),
        footer_size=footer.serialized_size,
        statistics=statistics,
    )
