"""Sidecars: the sorted keys of one data file's rows, each with the row's position in that file.

A sidecar is Parquet in the data files' own forms. It has the columns `k1` … `kn` and `position`, in row groups so small
that a lookup of a few keys reads little. It has all rows of the file, deleted ones too, or those that meet the index's
predicate; so it is true of every snapshot. Its order is Arrow's, which need not be PostgreSQL's: it only brings equal
and neighbouring keys together. Blocking: call it in a thread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catalog import datatypes
from catalog.datatypes import lake_form
from catalog.errors import SluiceError
from catalog.indexes import SIDECAR_ROWS_MIN, Index, IndexForm
from catalog.model import Column, DataFile, Sidecar, Table, TableVersion
from storage.finding import Finding
from storage.indexes.rough_order import rough_order
from storage.parquet import layout
from storage.parquet.arrow_types import FIELD_ID, arrow_field, arrow_type
from storage.parquet.file_identity import expected
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles
from storage.parquet.row_conditions import RowFilter, read_columns
from storage.parquet.statistics import column_statistics
from storage.plan import Condition

POSITION: Final = "position"
ROW_GROUP_ROWS: Final = 16_384
# Sorted keys are encoded by their differences: a dictionary of each row group takes twice the time and room.
_WRITE_OPTIONS: Final[dict[str, Any]] = {
    "compression": "zstd",
    "compression_level": 1,
    "store_schema": False,
    "store_decimal_as_integer": True,
    "use_dictionary": False,
}
# As many digits as an integer of Parquet has.
_INTEGER_DIGITS_MAX: Final = 18


def key_columns(form: IndexForm) -> tuple[Column, ...]:
    """Return the keys as columns of a table: numbered from 1, named `k1` ….

    0A000 for a type that the lake does not hold.
    """
    columns = tuple(Column(n, n, f"k{n}", key.type_oid, key.typmod, True) for n, key in enumerate(form.keys, 1))
    for column in columns:
        lake_form(column.type_oid, column.typmod)
    return columns


def key_table(table: Table, form: IndexForm) -> Table:
    """Return the table of the keys, for pruning by statistics."""
    return Table(table.oid, table.table_id, table.schema, table.name, table.path, key_columns(form))


def why_unused(form: IndexForm) -> str | None:
    """Return why an index of this form can have no sidecars; None if it can. Keys must differ in their bytes."""
    for key in form.keys:
        try:
            found = lake_form(key.type_oid, key.typmod)
        except SluiceError as error:
            return error.message
        if not key.plain:
            return "a key's collation takes different values for equal"
        if found.children or found.ducklake == "json":
            return "a key is of a type that is not looked up"
        if key.type_oid == datatypes.BPCHAR and not key.attnum:
            return "a key is a character(n) of no declared length"
        if key.type_oid == datatypes.NUMERIC and found.ducklake == "varchar":
            return "a key is a numeric of no declared precision"
    return None


def column_keys(
    data_path: str, table: Table, form: IndexForm, file: DataFile, conditions: Sequence[Condition] = ()
) -> pa.Table:
    """Return the keys of a data file's rows that meet the conditions, deleted ones too, and `position`, for an index
    over columns."""
    columns = [table.column(key.attnum) for key in form.keys]
    names = [column.name for column in key_columns(form)]
    schema = pa.schema([*(pa.field(n, arrow_type(c.form)) for n, c in zip(names, columns, strict=True)), _POSITION])
    needed = read_columns(table, columns, conditions)
    chosen, at = RowFilter(needed, conditions), [needed.index(column) for column in columns]
    places_at, batches = len(needed), []
    for first, batch in read_rows(LakeFiles(data_path), table, file, needed):
        places = pa.array(np.arange(first, first + batch.num_rows))
        rows = pa.RecordBatch.from_arrays([*batch.columns, places], [*map(str, range(places_at)), POSITION])
        met = chosen.of(rows).columns
        batches.append(pa.RecordBatch.from_arrays([*(met[place] for place in at), met[places_at]], schema=schema))
    return pa.Table.from_batches(batches, schema)


_POSITION: Final = pa.field(POSITION, pa.int64())


def write_sidecar(  # noqa: PLR0917
    data_path: str, table: Table, index: Index, file: DataFile, rows: pa.Table, since_snapshot: int = 0
) -> Sidecar:
    """Write and sync the sidecar of a published data file; `rows` are its keys, and `position`."""
    files = LakeFiles(data_path)
    columns = key_columns(index.form)
    folder = layout.join(table.path, layout.index_folder(index.index_id))
    path = layout.join(folder, layout.new_data_file()).lstrip("/")
    schema = pa.schema([
        *(arrow_field(column.name, column) for column in columns),
        _POSITION.with_metadata({FIELD_ID: str(len(columns) + 1).encode()}),
    ])  # fmt: skip
    # The sort is stable, so that equal keys stay in the order of positions. One key is sorted faster than several.
    rows = _roughly_sorted(_by_position(rows))
    keys = [_one(rows.column(column.name)) for column in columns]
    order = keys[0] if len(keys) == 1 else pa.table(keys, [column.name for column in columns])
    sort = [("" if len(keys) == 1 else column.name, "ascending") for column in columns]
    ordered = rows.take(pc.sort_indices(order, sort))
    ordered = pa.Table.from_arrays([_one(each) for each in ordered.columns], schema=schema)
    files.create_folder(folder)
    try:
        with files.output(path) as sink:
            encodings = {field.name: found for field in schema if (found := _encoding(field.type)) is not None}
            pq.write_table(ordered, sink, row_group_size=ROW_GROUP_ROWS, column_encoding=encodings, **_WRITE_OPTIONS)
        files.sync([path])
        footer = files.footer(path)
        statistics = column_statistics(footer, columns, _nan(ordered, columns))
        written = DataFile(path, ordered.num_rows, files.size(path), footer.serialized_size, statistics)
    except BaseException:
        files.remove([path])
        raise
    assert file.data_file_id is not None
    return Sidecar(index.index_id, file.data_file_id, written, since_snapshot)


def _encoding(kind: pa.DataType) -> str | None:
    """Return Parquet's encoding by differences for values of a type; None if there is none."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return "DELTA_BYTE_ARRAY"
    whole = pa.types.is_integer(kind) or pa.types.is_temporal(kind)
    whole = whole or (pa.types.is_decimal(kind) and kind.precision <= _INTEGER_DIGITS_MAX)
    return "DELTA_BINARY_PACKED" if whole else None


def _by_position(rows: pa.Table) -> pa.Table:
    """Return the rows in the order of their positions; Spark may have computed parts of a file in another one."""
    places = rows.column(POSITION).to_numpy()
    return rows if bool(np.all(places[1:] > places[:-1])) else rows.sort_by(POSITION)


def _roughly_sorted(rows: pa.Table) -> pa.Table:
    """Return the rows in a rough order of their first key, if that is a text."""
    first = _one(rows.column(0))
    if first.num_chunks != 1 or not len(first) or not pa.types.is_string(first.type):
        return rows
    return rows.set_column(0, rows.schema.field(0), first).take(pa.array(rough_order(first.chunk(0))))


def _one(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values of a small file in one chunk."""
    return column if column.nbytes >= math.pow(2, 31) else pa.chunked_array([column.combine_chunks()], column.type)


def _nan(rows: pa.Table, columns: tuple[Column, ...]) -> dict[int, bool]:
    return {
        column.column_id: bool(pc.any(pc.is_nan(rows.column(column.name))).as_py())
        for column in columns
        if pa.types.is_floating(rows.column(column.name).type)
    }


def check_sidecars(data_path: str, version: TableVersion, there: Mapping[tuple[int, int], Sidecar]) -> list[Finding]:
    """Return findings: indexes that lack a sidecar of a file, or have a wrong one."""
    found = []
    for index in version.table.indexes:
        for file in version.files if index.is_used and why_unused(index.form) is None else ():
            if file.data_file_id is None or file.record_count < SIDECAR_ROWS_MIN:
                continue
            sidecar = there.get((index.index_id, file.data_file_id))
            path = layout.join(version.table.path, file.path).lstrip("/")
            if sidecar is None:
                found.append(Finding("index", path, f'index "{index.name}" lacks a sidecar of this file'))
                continue
            try:
                if not index.form.is_computed and not _is_true(data_path, version.table, index, file, sidecar):
                    message = f'index "{index.name}" has other keys than "{path}"'
                    found.append(Finding("index", sidecar.file.path, message))
            except SluiceError as error:
                found.append(Finding("unreadable", sidecar.file.path, error.message))
    return found


def _is_true(data_path: str, table: Table, index: Index, file: DataFile, sidecar: Sidecar) -> bool:
    """Whether a sidecar has every row of its file, under its key."""
    keys = column_keys(data_path, table, index.form, file)
    with LakeFiles(data_path).parquet(expected("", sidecar.file)) as parquet:
        kept = parquet.read()
    kept = kept.cast(keys.schema).sort_by(POSITION)
    return bool(_spelled(kept).equals(_spelled(keys)))


def _spelled(rows: pa.Table) -> pa.Table:
    """Return floats as texts, so that NaN equals NaN."""
    kinds = [pa.string() if pa.types.is_floating(field.type) else field.type for field in rows.schema]
    return rows.cast(pa.schema(list(zip(rows.schema.names, kinds, strict=True))))
