"""Index fetch: read located rows by position, and hand them to Spark.

Only the row groups that hold any of them are read, without Spark; Spark sees a relation in memory. Blocking.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from py4j.java_gateway import JavaObject

from catalog.model import Column, DataFile, Table
from storage.parquet.arrow_types import arrow_type, spark_field
from storage.parquet.file_identity import expected
from storage.parquet.file_rows import read_positions
from storage.parquet.files import LakeFiles
from storage.parquet.positions import deleted_positions
from storage.plan import FILE_COLUMN, NUMBER_COLUMN, POSITION_COLUMN, column_name
from storage.spark.jvm import SparkJvm

# Spark reads larger numbers of rows, from the files.
LOCATED_MAX: Final = 20_000
_NANOSECONDS: Final = pa.time64("ns")


def may_be_local(columns: Sequence[Column]) -> bool:
    """Whether rows with these columns can be handed over.

    Rows without columns could not be counted.
    """
    return bool(columns)


def located_rows(
    data_path: str,
    table: Table,
    files: Sequence[DataFile],
    rows: Mapping[str, npt.NDArray[np.int64]],
    columns: Sequence[Column],
) -> Iterator[tuple[DataFile, npt.NDArray[np.int64], pa.Table]]:
    """Yield the live rows at these positions, file by file: their positions, and these columns in lake form, under the
    columns' names."""
    lake = LakeFiles(data_path)
    for file in files:
        positions = rows.get(file.path)
        if positions is None:
            continue
        if file.delete_file is not None:
            deleted = deleted_positions(lake, table.path, file.delete_file)
            positions = np.setdiff1d(positions, deleted, assume_unique=True)
        if len(positions):
            yield file, positions, read_positions(data_path, table, file, columns, positions)


def local_relation(
    jvm: SparkJvm,
    found: Iterator[tuple[DataFile, npt.NDArray[np.int64], pa.Table]],
    columns: Sequence[Column],
    *,
    needs_position: bool,
    numbers: Mapping[str, int] | None = None,
) -> JavaObject:
    """Return a DataFrame of located rows: `c<attnum>`, `_file` and `_position` if needed, and `_number` with the
    `numbers` of the files' first rows."""
    fields = [spark_field(column_name(column.attnum), column) for column in columns]
    types = [_handed(arrow_type(column.form)) for column in columns]
    names = [column_name(column.attnum) for column in columns]
    if needs_position:
        fields += [plain_field(FILE_COLUMN, "string"), plain_field(POSITION_COLUMN, "long")]
        types += [pa.string(), pa.int64()]
        names += [FILE_COLUMN, POSITION_COLUMN]
    if numbers is not None:
        fields.append(plain_field(NUMBER_COLUMN, "long"))
        types.append(pa.int64())
        names.append(NUMBER_COLUMN)
    schema = pa.schema(list(zip(names, types, strict=True)))
    tables = []
    for file, positions, table in found:
        arrays: list[Any] = list(in_nanoseconds(table).columns)
        if needs_position:
            arrays += [pa.array([file.path]).take(pa.array(np.zeros(len(positions), np.int32))), pa.array(positions)]
        if numbers is not None:
            arrays.append(pa.array(numbers[file.path] + positions))
        tables.append(pa.Table.from_arrays(arrays, schema=schema))
    return local_frame(jvm, [pa.concat_tables(tables)] if tables else [], fields)


def local_frame(jvm: SparkJvm, tables: Iterable[pa.Table], fields: Sequence[dict[str, Any]]) -> JavaObject:
    """Return a DataFrame of rows in memory, with Spark's fields."""
    messages = jvm.view.java.util.ArrayList()
    for table in tables:
        for batch in table.combine_chunks().to_batches():
            messages.append(batch.serialize().to_pybytes())
    described = json.dumps({"type": "struct", "fields": list(fields)})
    handed = jvm.view.scala.jdk.javaapi.CollectionConverters.asScala(messages.iterator())
    return jvm.view.PythonSQLUtils.toDataFrame(handed, described, jvm.session)


def plain_field(name: str, kind: str) -> dict[str, Any]:
    """Return a field that is no column of a table, as Spark describes it."""
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _handed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_handed(kind.value_type)))
    return _NANOSECONDS if pa.types.is_time64(kind) else kind


def in_nanoseconds(table: pa.Table) -> pa.Table:
    """Return the rows with times as Spark takes them from Arrow, 24:00 included."""
    for number, field in enumerate(table.schema):
        if pa.types.is_time64(field.type):
            table = table.set_column(number, field.name, _nanoseconds(table.column(number)))
        elif pa.types.is_list(field.type) and pa.types.is_time64(field.type.value_type):
            lists = [_lists_in_nanoseconds(each) for each in table.column(number).chunks]
            table = table.set_column(number, field.name, pa.chunked_array(lists, _handed(field.type)))
    return table


def _nanoseconds(times: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.multiply(times.cast(pa.int64()), 1000).cast(_NANOSECONDS)


def _lists_in_nanoseconds(lists: pa.ListArray) -> pa.Array:
    absent = np.append(lists.is_null().to_numpy(zero_copy_only=False), False)
    offsets = pa.array(lists.offsets.to_numpy(), pa.int32(), mask=absent)
    return pa.ListArray.from_arrays(offsets, _nanoseconds(lists.values)).cast(_handed(lists.type))


def row_groups(
    data_path: str, table: Table, files: Sequence[DataFile], rows: Mapping[str, npt.NDArray[np.int64]]
) -> tuple[int, int]:
    """Return how many row groups, of how many in these files, have the positions."""
    lake, opened, total = LakeFiles(data_path), 0, 0
    for file in files:
        if file.path in rows:
            with lake.parquet(expected(table.path, file)) as parquet:
                footer = parquet.metadata
            ends = np.cumsum([footer.row_group(number).num_rows for number in range(footer.num_row_groups)])
            opened += len(np.unique(np.searchsorted(ends, rows[file.path], side="right")))
            total += len(ends)
    return opened, total
