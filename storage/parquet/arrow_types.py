"""Lake forms as pyarrow and Spark types, with the field IDs that tie Parquet columns to DuckLake's.

A column's Parquet field ID is its DuckLake column ID; nested fields take the IDs that follow it, depth first. Checked
with DuckDB 1.5.5 and Spark 4.3: each of them, and pyarrow, reads these types identically whichever wrote them.

Some values of PostgreSQL exist in these types only by convention, the same as DuckDB's. `infinity` is the greatest
integer of the column's type (int32 days, int64 microseconds) and `-infinity` its negation; 24:00:00 is 86,400,000,000
µs. Spark carries all of them unchanged from Parquet to Arrow and to Parquet, and orders them rightly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from catalog.datatypes import LakeForm
from catalog.model import Column, Table

FIELD_ID: Final = b"PARQUET:field_id"
SPARK_FIELD_ID: Final = "parquet.field.id"

# The Arrow type is the physical one of the Parquet file; Spark's name is the one in its JSON schemas.
_SCALARS: Final[dict[str, tuple[pa.DataType, str]]] = {
    "boolean": (pa.bool_(), "boolean"),
    "int16": (pa.int16(), "short"),
    "int32": (pa.int32(), "integer"),
    "int64": (pa.int64(), "long"),
    "float32": (pa.float32(), "float"),
    "float64": (pa.float64(), "double"),
    "varchar": (pa.string(), "string"),
    "json": (pa.string(), "string"),
    "uuid": (pa.string(), "string"),
    "blob": (pa.binary(), "binary"),
    "date": (pa.date32(), "date"),
    "time": (pa.time64("us"), "time(6)"),
    "timestamp": (pa.timestamp("us"), "timestamp_ntz"),
    "timestamptz": (pa.timestamp("us", tz="UTC"), "timestamp"),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def arrow_type(form: LakeForm, column_id: int | None = None) -> pa.DataType:
    """Return the pyarrow type of a lake form; with `column_id`, nested fields carry the IDs that follow it, depth
    first."""
    if form.ducklake == "list":
        ((name, element),) = form.children
        return pa.list_(_nested_field(name, element, None if column_id is None else column_id + 1))
    if form.ducklake == "struct":
        return pa.struct([_nested_field(name, child, child_id) for name, child, child_id in _children(form, column_id)])
    decimal = _DECIMAL.fullmatch(form.ducklake)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _SCALARS[form.ducklake][0]


def arrow_field(name: str, column: Column) -> pa.Field:
    """Return a nullable field with the metadata `PARQUET:field_id`."""
    return _nested_field(name, column.form, column.column_id)


def arrow_schema(table: Table, columns: Sequence[Column] | None = None) -> pa.Schema:
    """Return the schema of the table's data files: columns under their own names, in the order of `table.columns`."""
    chosen = table.columns if columns is None else columns
    return pa.schema([arrow_field(column.name, column) for column in chosen])


def spark_field(name: str, column: Column) -> dict[str, Any]:
    """Return a nullable field of a Spark schema in JSON form (`StructType.fromJson`), with field IDs in its
    metadata."""
    return _spark_field(name, column.form, column.column_id)


def leaf_types(column: Column) -> Iterator[tuple[int, LakeForm]]:
    """Yield (field ID, form) of the column's leaves, which have statistics. A scalar is its own leaf."""
    yield from _leaves(column.form, column.column_id)


def has_list(form: LakeForm) -> bool:
    """Whether the form is or contains a list, whose elements Spark's Parquet writer cannot give field IDs."""
    return form.ducklake == "list" or any(has_list(child) for _, child in form.children)


def _children(form: LakeForm, column_id: int | None) -> Iterator[tuple[str, LakeForm, int | None]]:
    next_id = None if column_id is None else column_id + 1
    for name, child in form.children:
        yield name, child, next_id
        next_id = None if next_id is None else next_id + child.field_count


def _leaves(form: LakeForm, column_id: int) -> Iterator[tuple[int, LakeForm]]:
    if not form.children:
        yield column_id, form
    for _, child, child_id in _children(form, column_id):
        assert child_id is not None
        yield from _leaves(child, child_id)


def _nested_field(name: str, form: LakeForm, column_id: int | None) -> pa.Field:
    metadata = None if column_id is None else {FIELD_ID: str(column_id).encode()}
    return pa.field(name, arrow_type(form, column_id), metadata=metadata)


def _spark_field(name: str, form: LakeForm, column_id: int) -> dict[str, Any]:
    return {
        "name": name,
        "type": _spark_type(form, column_id),
        "nullable": True,
        "metadata": {SPARK_FIELD_ID: column_id},
    }


def _spark_type(form: LakeForm, column_id: int) -> str | dict[str, Any]:
    if form.ducklake == "list":
        ((_, element),) = form.children
        return {"type": "array", "elementType": _spark_type(element, column_id + 1), "containsNull": True}
    if form.ducklake == "struct":
        fields = [_spark_field(name, child, child_id or 0) for name, child, child_id in _children(form, column_id)]
        return {"type": "struct", "fields": fields}
    if _DECIMAL.fullmatch(form.ducklake):
        return form.ducklake
    return _SCALARS[form.ducklake][1]
