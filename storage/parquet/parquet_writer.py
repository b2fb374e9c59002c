"""Write Parquet files without Spark: rows of literal INSERTs, of COPY, and rows that Spark returns.

Row groups are small enough for Spark to divide one file among tasks. A file ends at a size that is worth a task. Files
are complete when `finish` returns; they have no effect until the catalog names them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catalog.errors import SluiceError, SqlState
from catalog.model import DataFile, Partition, Table
from storage.parquet import layout
from storage.parquet.arrow_types import FIELD_ID, arrow_schema
from storage.parquet.compression import compression
from storage.parquet.file_errors import file_error
from storage.parquet.files import LakeFiles
from storage.parquet.hot_rows import HOT_BYTES_MAX, HOT_ROWS_MAX, hot_file, may_be_hot
from storage.parquet.partitions import divided, only_partition
from storage.parquet.small_files import can_keep, small_files
from storage.parquet.sort_order import sort_indices
from storage.parquet.statistics import column_statistics

_logger: Final = logging.getLogger(__name__)
# To find one row by its key, half a row group of each column is decoded.
ROW_GROUP_ROWS: Final = 32_768
ROW_GROUP_BYTES: Final = 32 * 2**20
# So many hot rows are made faster than a thread begins.
_ROWS_AT_ONCE: Final = 16
FILE_BYTES: Final = 256 * 2**20
# So many bytes of rows are sorted or divided at a time, and become a file, or one for each partition.
SORT_BYTES: Final = 64 * 2**20
# A statement makes so many files of partitions, and one more for each so many bytes of rows.
PARTITION_FILES: Final = 1_000
PARTITION_FILE_BYTES: Final = 2**20
# All of its files of partitions together have so many statistics of columns, which COMMIT publishes in one value.
PARTITION_STATISTICS: Final = 1_000_000

_WRITE_OPTIONS: Final[dict[str, Any]] = {
    "store_schema": False,
    "store_decimal_as_integer": True,
}


class ParquetWriter:
    """Writes the rows of one statement to new files of a table. Memory is bounded by one row group.

    If it `sorts`, each file of a table with a sort key is in its order, unless its rows are few; memory is then bounded
    by three times SORT_BYTES. Of the first `order_max` rows it is known where they stood before (`order`).

    If it `divides`, each file of a table with a partition key has rows of one partition. Where there are too many
    partitions, the rows of small ones are in files of their own, which have none. Memory is bounded likewise, and two
    files are open at most. Otherwise a file has a partition if all its rows happen to be of one.

    Up to `hot_rows` rows become hot rows, without a file (`storage.parquet.hot_rows`). `write` takes batches whose
    columns are the table's, in order, in lake form (`storage.parquet.arrow_types.arrow_schema`). `finish` syncs and
    returns the files; `abort` removes them. With `syncs_later` the syncs have only begun then, and COMMIT waits for
    them. Blocking: call it in a thread. A full disk is 53100.
    """

    def __init__(
        self,
        data_path: str,
        table: Table,
        *,
        file_bytes: int = FILE_BYTES,
        syncs_later: bool = False,
        hot_rows: int = 0,
        sorts: bool = False,
        divides: bool = True,
        order_max: int = 0,
    ) -> None:
        self._sorts = sorts and bool(table.sort_key)
        self._divides = divides and bool(table.partition_key)
        self._order_max = order_max
        self._orders: list[npt.NDArray[np.int64]] = []
        self._mixed_orders: list[npt.NDArray[np.int64]] = []
        self._sorted_rows = 0
        self._files = LakeFiles(data_path)
        self._table = table
        self._schema = arrow_schema(table)
        self._file_bytes = file_bytes
        self._syncs_later = syncs_later
        self._hot_rows = min(hot_rows, HOT_ROWS_MAX) if hot_rows and may_be_hot(table) else 0
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._open: _OpenFile | None = None
        self._mixed: _OpenFile | None = None  # has rows of several partitions
        self._written: list[DataFile] = []
        self._written_mixed: list[DataFile] = []
        self._parts_begun = 0
        self._divided_bytes = 0
        self._paths: list[str] = []

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows. Values must be in lake form: a column of another type than its form's is an XX000."""
        if batch.num_rows == 0:
            return
        rows = self._in_lake_form(batch)
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        self._pending_bytes += rows.nbytes
        if self._sorts or self._divides:
            if self._pending_bytes >= SORT_BYTES:
                self._write_in_order()
            return
        while self._pending_rows >= ROW_GROUP_ROWS:
            self._write_row_group(ROW_GROUP_ROWS)
        if self._pending_bytes >= ROW_GROUP_BYTES:
            self._write_row_group()

    def finish(self) -> tuple[DataFile, ...]:
        """Write the rest, sync, and return the files; none if there were no rows. On failure, `abort`."""
        if self._makes_hot_rows:
            return (self._hot_file(),)
        many = self._pending_rows > ROW_GROUP_ROWS or self._pending_bytes > ROW_GROUP_BYTES
        if self._divides or (self._sorts and (many or self._written)):
            self._write_in_order()
        self._write_row_group()
        self._close_file()
        self._close_mixed()
        (self._files.sync_later if self._syncs_later else self._files.sync)(self._paths)
        return (*self._written, *self._written_mixed)

    @property
    def order(self) -> npt.NDArray[np.int64] | None:
        """For each row of the files, its number among the rows as they were given; fewer than all if they are more than
        `order_max`. None if the rows stand as they were given."""
        if not self._sorted_rows:
            return None
        return np.concatenate([np.empty(0, np.int64), *self._orders, *self._mixed_orders])

    @property
    def makes_no_file(self) -> bool:
        """Whether `finish`, called now, makes hot rows of a few, which takes no time."""
        return self._makes_hot_rows and self._pending_rows <= _ROWS_AT_ONCE

    @property
    def _makes_hot_rows(self) -> bool:
        return not self._paths and 0 < self._pending_rows <= self._hot_rows and self._pending_bytes <= HOT_BYTES_MAX

    def _hot_file(self) -> DataFile:
        rows = pa.concat_tables(self._pending)
        made = hot_file(layout.new_data_file(), self._table.columns, rows)
        if can_keep(rows):
            small_files.keep(self._files, self._table.path, made, rows)
        return made

    def abort(self) -> None:
        """Remove everything written so far."""
        for each in (self._open, self._mixed):
            if each is not None:
                each.discard()
        self._open = self._mixed = None
        self._pending.clear()
        self._written.clear()
        self._written_mixed.clear()
        paths, self._paths = self._paths, []
        try:
            self._files.remove(paths)
        except SluiceError as error:  # what made it abort is told to the client
            _logger.warning("%s", error.message)

    def _in_lake_form(self, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        if batch.num_columns != len(self._schema):
            raise SluiceError(
                SqlState.INTERNAL_ERROR, f"{batch.num_columns} columns were given for {len(self._schema)} of a table"
            )
        columns = []
        for column, field in zip(batch.columns, self._schema, strict=True):
            if column.type == field.type:
                columns.append(column)
            elif _same_shape(column.type, field.type):
                columns.append(column.cast(field.type))
            else:
                raise SluiceError(
                    SqlState.INTERNAL_ERROR,
                    f'column "{field.name}" came as {column.type}, but is stored as {field.type}',
                )
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _write_row_group(self, rows_max: int | None = None) -> None:
        """Write the pending rows, or the first of them; the others stay."""
        if not self._pending:
            return
        pending = pa.concat_tables(self._pending)
        rows, left = pending.slice(0, rows_max), pending.slice(rows_max or pending.num_rows)
        self._pending = [left] if left.num_rows else []
        self._pending_rows, self._pending_bytes = left.num_rows, left.nbytes
        if self._open is None:
            self._open = self._begin(rows)
        if self._table.partition_key:
            self._open.note_partition(only_partition(rows, self._table))
        self._open.write(rows)
        if self._open.size >= self._file_bytes:
            self._close_file()

    def _begin(self, rows: pa.Table) -> _OpenFile:
        """Begin a file, of which these are the first rows."""
        name = layout.new_data_file()
        self._files.create_folder(self._table.path)
        self._paths.append(layout.join(self._table.path, name).lstrip("/"))
        return _OpenFile(self._files, self._paths[-1], self._schema, rows.nbytes)

    def _write_in_order(self) -> None:
        """Write the pending rows as a file in the order of the sort key, or as files of their partitions."""
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        if self._divides:
            self._write_divided(rows)
        else:
            self._write_sorted(rows)

    def _write_divided(self, rows: pa.Table) -> None:
        self._divided_bytes += rows.nbytes
        allowed = min(
            PARTITION_FILES + self._divided_bytes // PARTITION_FILE_BYTES,
            PARTITION_STATISTICS // max(len(self._schema), 1),
        )
        present = None if self._open is None else self._open.partition
        found = divided(rows, self._table, present, max(allowed - self._parts_begun, 0), sorts=self._sorts)
        group = max(1, min(ROW_GROUP_ROWS, rows.num_rows * ROW_GROUP_BYTES // max(rows.nbytes, 1)))
        self._tell_order(found.order, found.placed)
        del rows
        first = 0
        for partition, count in found.parts:
            if self._open is None or self._open.partition != partition:
                self._close_file()
                self._parts_begun += 1
            for start in range(first, first + count, group):
                part = found.rows.slice(start, min(group, first + count - start))
                if self._open is None:
                    self._open = self._begin(part)
                    self._open.note_partition(partition)
                self._open.write(part)
                if self._open.size >= self._file_bytes:
                    self._close_file()
            first += count
        for start in range(first, found.rows.num_rows, group):
            part = found.rows.slice(start, group)
            if self._mixed is None:
                self._mixed = self._begin(part)
                self._mixed.note_partition(Partition(self._table.divided_by, None))
            self._mixed.write(part)
            if self._mixed.size >= self._file_bytes:
                self._close_mixed()
        if self._sorts:
            self._close_file()
            self._close_mixed()

    def _tell_order(self, places: npt.NDArray[np.int64], placed: int) -> None:
        """Note the order of rows; those from number `placed` on go to a mixed file."""
        if self._sorted_rows + len(places) <= self._order_max:
            self._orders.append(places[:placed] + self._sorted_rows)
            self._mixed_orders.append(places[placed:] + self._sorted_rows)
        else:
            self._order_max = 0
            self._orders, self._mixed_orders = [], []
        self._sorted_rows += len(places)

    def _write_sorted(self, rows: pa.Table) -> None:
        places = sort_indices(rows, self._table)
        if self._sorted_rows + rows.num_rows <= self._order_max:
            self._orders.append(places.to_numpy().astype(np.int64) + self._sorted_rows)
        else:
            self._order_max = 0  # what follows is not told either
        self._sorted_rows += rows.num_rows
        group = max(1, min(ROW_GROUP_ROWS, rows.num_rows * ROW_GROUP_BYTES // max(rows.nbytes, 1)))
        self._pending = [rows.take(places)]
        del rows
        while self._pending:
            self._write_row_group(group)
        self._close_file()

    def _close_file(self) -> None:
        if self._open is not None:
            written = self._open.close(self._table)
            if self._open.rows is not None:
                small_files.keep(self._files, self._table.path, written, self._open.rows)
            self._written.append(written)
            self._open = None

    def _close_mixed(self) -> None:
        if self._mixed is not None:
            self._written_mixed.append(self._mixed.close(self._table))
            self._mixed = None


class _OpenFile:
    """One Parquet file being written, and its float leaves that have a NaN so far.

    `size_bytes` is the size of its first row group; `rows` are all its rows, or None if they are many. `partition` is
    that of the rows so far, None if nobody has told it.
    """

    def __init__(self, files: LakeFiles, path: str, schema: pa.Schema, size_bytes: int) -> None:
        self._files = files
        self._path = path
        self._sink = files.open_output(path)
        try:
            # This writes the first bytes.
            self._writer = pq.ParquetWriter(self._sink, schema, **_WRITE_OPTIONS, **compression(size_bytes))
        except OSError as error:
            _close_anyhow(self._sink)
            raise file_error(error, path) from error
        self._nan: dict[int, bool] = {}
        self._rows = 0
        self.rows: pa.Table | None = None
        self.partition: Partition | None = None

    def note_partition(self, partition: Partition) -> None:
        """Rows of this partition are written next."""
        same = self.partition is None or self.partition == partition
        self.partition = partition if same else replace(partition, values=None)

    @property
    def size(self) -> int:
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        for field_id, values in _float_leaves(rows):
            self._nan[field_id] = self._nan.get(field_id, False) or bool(pc.any(pc.is_nan(values)).as_py())
        try:
            self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))
        except OSError as error:
            raise file_error(error, self._path) from error
        self.rows = rows if self._rows == 0 and can_keep(rows) else None
        self._rows += rows.num_rows

    def close(self, table: Table) -> DataFile:
        try:
            self._writer.close()
            size = self.size
            self._sink.close()
        except OSError as error:
            raise file_error(error, self._path) from error
        metadata = self._files.footer(self._path)
        return DataFile(
            path=self._path.rpartition("/")[2],
            record_count=self._rows,
            size_bytes=size,
            footer_size=metadata.serialized_size,
            statistics=column_statistics(metadata, table.columns, self._nan),
            partition=self.partition,
        )

    def discard(self) -> None:
        """Close; the file need not be complete."""
        _close_anyhow(self._writer, self._sink)


def _close_anyhow(*files: pq.ParquetWriter | pa.NativeFile) -> None:
    for each in files:
        try:
            each.close()
        except (OSError, pa.ArrowException):
            continue


def _float_leaves(rows: pa.Table) -> Iterator[tuple[int, pa.ChunkedArray]]:
    """Yield (field ID, values) of every float leaf."""
    for field, column in zip(rows.schema, rows.columns, strict=True):
        yield from _float_leaves_of(field, column)


def _float_leaves_of(field: pa.Field, column: pa.ChunkedArray) -> Iterator[tuple[int, pa.ChunkedArray]]:
    if pa.types.is_floating(field.type):
        yield int(field.metadata[FIELD_ID]), column
    elif pa.types.is_list(field.type):
        yield from _float_leaves_of(field.type.value_field, pc.list_flatten(column))
    elif pa.types.is_struct(field.type):
        for index in range(field.type.num_fields):
            yield from _float_leaves_of(field.type.field(index), pc.struct_field(column, [index]))


def _same_shape(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types differ only in what does not change a value.

    That is: names and metadata of nested fields, time zone labels, the width of offsets, a time's unit. A column of
    NULLs alone may have any type.
    """
    if pa.types.is_null(given):
        return True
    if pa.types.is_list(wanted):
        lists = pa.types.is_list(given) or pa.types.is_large_list(given)
        return bool(lists and _same_shape(given.value_type, wanted.value_type))
    if pa.types.is_struct(wanted):
        return (
            pa.types.is_struct(given)
            and [given.field(i).name for i in range(given.num_fields)]
            == [wanted.field(i).name for i in range(wanted.num_fields)]
            and all(_same_shape(given.field(i).type, wanted.field(i).type) for i in range(wanted.num_fields))
        )
    if pa.types.is_timestamp(wanted):
        return bool(
            pa.types.is_timestamp(given) and given.unit == wanted.unit and (given.tz is None) == (wanted.tz is None)
        )
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(given) or pa.types.is_large_string(given))
    if pa.types.is_binary(wanted):
        return bool(pa.types.is_binary(given) or pa.types.is_large_binary(given))
    if pa.types.is_time64(wanted):
        return bool(pa.types.is_time64(given))
    return bool(given == wanted)
