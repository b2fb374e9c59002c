"""Hot rows: the few rows of a small write, which the catalog has in place of a Parquet file.

They are JSON: for each column, by its ID, the type in which it was written (DuckLake's name) and its values. Integers
and booleans are JSON's own; days, times of day and timestamps are the integers of their lake form; floats and decimals
are texts of all their digits; bytes are hexadecimal. An element of a list or a field of a struct is as a column's
value. `pg_sluice.hot_value` (catalog/sql/hot_rows.sql) reads the same for DuckDB.

Whole columns are converted at a time. Blocking, but for no longer than their few rows take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.datatypes import INTERVAL_FORM, LakeForm
from catalog.model import Column, ColumnStatistics, DataFile, Table
from storage.parquet.arrow_types import arrow_type, leaf_types
from storage.parquet.bounds import bound_form

# A statement that writes more bytes, or more rows than the session's setting, writes a Parquet file.
HOT_BYTES_MAX: Final = 64 * 1024
# Statements of more rows cannot be set to write hot rows: such files may have sidecars.
HOT_ROWS_MAX: Final = 2_000
_BYTES_OF_A_FILE: Final = 16 * 1024
_FLOATS: Final = ("float32", "float64")
_COUNTED: Final = {"date": pa.int32(), "time": pa.int64(), "timestamp": pa.int64(), "timestamptz": pa.int64()}
_LIST: Final = re.compile(r"list\((.*)\)")
_INTERVAL: Final = "interval"
_COLUMNS_MAX: Final = 200
# DuckLake's own columns in its tables of hot rows.
_RESERVED: Final = frozenset({
    "row_id", "begin_snapshot", "end_snapshot", "_ducklake_internal_snapshot_id", "_ducklake_internal_row_id",
})  # fmt: skip


def encode(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> str:
    """Return rows in lake form as hot rows."""
    return json.dumps(
        {
            str(column.column_id): {"type": _type_name(column.form), "values": _plain(array, column.form).to_pylist()}
            for column, array in zip(columns, arrays, strict=True)
        },
        separators=(",", ":"),
    )


def decode(text: str) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Return hot rows in the lake form in which they were written, and the names of their columns by ID."""
    arrays, names = [], {}
    for column_id, stored in json.loads(text).items():
        form = _form(stored["type"])
        arrays.append(_lake(pa.array(stored["values"], _plain_type(form)), form))
        names[int(column_id)] = column_id
    return pa.RecordBatch.from_arrays(arrays, names=list(names.values())), names


def statistics(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> dict[int, ColumnStatistics]:
    """Return the statistics of rows in lake form, as `storage.parquet.statistics` has those of a file."""
    found = {}
    for column, array in zip(columns, arrays, strict=True):
        for (field_id, form), (values, absent) in zip(leaf_types(column), _leaves(array), strict=True):
            found[field_id] = _leaf_statistics(form, values, absent)
    return found


def _leaf_statistics(form: LakeForm, values: pa.Array, absent: int) -> ColumnStatistics:
    """Return a leaf's statistics; `absent` are the lists without elements, which count as nulls."""
    present = values.drop_null()
    contains_nan = None
    if form.ducklake in _FLOATS:
        numbers = present.filter(pc.invert(pc.is_nan(present)))
        present, contains_nan = numbers, len(numbers) < len(present)
    minimum = maximum = None
    if len(present):
        bounds = bound_form(form.ducklake)
        ends = pc.min_max(_comparable(present))
        minimum, maximum = bounds.to_text(ends["min"].as_py(), False), bounds.to_text(ends["max"].as_py(), True)
    return ColumnStatistics(
        value_count=len(values) - values.null_count,
        null_count=values.null_count + absent,
        size_bytes=values.nbytes,
        minimum=minimum,
        maximum=maximum,
        contains_nan=contains_nan,
    )


def _comparable(values: pa.Array) -> pa.Array:
    """Return values whose Python objects are keys of `storage.parquet.bounds`."""
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int8())
    if pa.types.is_date(values.type):
        return values.cast(pa.int32())
    if pa.types.is_time(values.type) or pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    return values


def _leaves(array: pa.Array) -> Iterator[tuple[pa.Array, int]]:
    """Yield the values of each leaf, and how many lists above them have no element."""
    if pa.types.is_list(array.type):
        empty = int(pc.sum(pc.equal(pc.fill_null(pc.list_value_length(array), 0), 0)).as_py() or 0)
        for values, absent in _leaves(pc.list_flatten(array)):
            yield values, absent + empty
    elif pa.types.is_struct(array.type):
        for index in range(array.type.num_fields):
            yield from _leaves(pc.struct_field(array, [index]))
    else:
        yield array, 0


def _type_name(form: LakeForm) -> str:
    if form.ducklake == "list":
        return f"list({_type_name(form.children[0][1])})"
    return _INTERVAL if form == INTERVAL_FORM else form.ducklake


def _form(name: str) -> LakeForm:
    """Return the form by its name; Spark's type does not matter."""
    if listed := _LIST.fullmatch(name):
        return LakeForm("list", "", (("element", _form(listed[1])),))
    return INTERVAL_FORM if name == _INTERVAL else LakeForm(name, "")


def _plain_type(form: LakeForm) -> pa.DataType:
    """Return the type of a form's values in JSON."""
    if form.ducklake == "list":
        return pa.list_(_plain_type(form.children[0][1]))
    if form.children or form.ducklake in ("boolean", "int16", "int32", "int64"):
        return arrow_type(form)
    return _COUNTED.get(form.ducklake, pa.string())


def _plain(array: pa.Array, form: LakeForm) -> pa.Array:
    """Return values in lake form as JSON has them."""
    if form.ducklake == "list":
        values = _plain(array.values, form.children[0][1])
        return pa.ListArray.from_arrays(_offsets(array), values)
    if form.ducklake == "blob":
        return _hexadecimal(array)
    if form.ducklake in _FLOATS:
        array = array.cast(pa.float64())
    return array.cast(_plain_type(form))


def _lake(array: pa.Array, form: LakeForm) -> pa.Array:
    """Return JSON's values in lake form."""
    if form.ducklake == "list":
        values = _lake(array.values, form.children[0][1])
        return pa.ListArray.from_arrays(_offsets(array), values).cast(arrow_type(form))
    if form.ducklake == "blob":
        return pa.array([None if each is None else bytes.fromhex(each) for each in array.to_pylist()], pa.binary())
    if form.ducklake in _FLOATS:
        return array.cast(pa.float64()).cast(arrow_type(form))
    return array.cast(arrow_type(form))


def _offsets(array: pa.ListArray) -> pa.Array:
    """Return the offsets of lists into all of their array's values; NULL for a list that is NULL."""
    offsets = array.offsets.to_numpy()
    absent = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
    return pa.array(offsets, pa.int32(), mask=absent)


def _hexadecimal(array: pa.Array) -> pa.Array:
    return pa.array([None if each is None else each.hex() for each in array.to_pylist()], pa.string())


def hot_file(path: str, columns: Sequence[Column], rows: pa.Table) -> DataFile:
    """Return a data file of these rows, whose columns are the given ones in lake form."""
    arrays: list[Any] = [column.combine_chunks() for column in rows.columns]
    text = encode(columns, arrays)
    return DataFile(path, rows.num_rows, len(text), 0, statistics(columns, arrays), hot_rows=text)


def hot_weight(file: DataFile) -> int:
    """Return how many new files the hot rows count for when compaction decides whether to begin: 0 for a real file."""
    return 0 if file.hot_rows is None else 1 + len(file.hot_rows) // _BYTES_OF_A_FILE


def may_be_hot(table: Table) -> bool:
    """Whether DuckLake has a place for hot rows of the table (pg_sluice.publish_inlined)."""
    named = not any(column.name.lower() in _RESERVED for column in table.columns)
    return named and 0 < len(table.columns) <= _COLUMNS_MAX
