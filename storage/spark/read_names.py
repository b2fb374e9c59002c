"""Read names: the names under which a scan reads the columns of a file.

Spark finds columns by field ID, and skips row groups by statistics that it finds by name. Both must be of one column.
So a column is read under the very name that it has in the file, if the file's footer has been read here. Else it is
read under a long name, longer than any name in PostgreSQL, so that no file has it: nothing is skipped by it.

A column keeps its long name where statistics could leave out a row that a condition is true for:

- Its type does not order as the statistics do. Those of floats leave out NaN, which is the greatest number here. For
  Java there is no 24:00. Lists and structs have no order of their own there. By timestamps without time zone Spark 4.3
  skips nothing.
- The file has it in another type. A constant of the column's type may not fit into that of the file.
- Spark could take its name for another: names that differ in case alone, names with dots, and those of Spark's own.
- The file is of another writer than Sluice's two, Arrow and Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

import pyarrow as pa

from catalog.model import Column, DataFile, Table
from storage.parquet.arrow_types import FIELD_ID, arrow_type
from storage.parquet.file_identity import Expected, expected
from storage.parquet.files import LakeFiles
from storage.parquet.parquet_writer import ROW_GROUP_BYTES, ROW_GROUP_ROWS
from storage.parquet.read_cache import KeptReads
from storage.plan import column_name

# The read names of a table's columns, in their order.
ReadNames: TypeAlias = tuple[str, ...]
# The name and the type, by field ID, of the columns of a file that have names of their own for Spark.
_Named: TypeAlias = Mapping[int, tuple[str, pa.DataType]]

_NAME_BYTES_MAX: Final = 63  # of PostgreSQL (NAMEDATALEN)
_WRITERS: Final = ("parquet-cpp-arrow ", "parquet-mr ")
# Lake forms whose order, equality included, is that of Parquet's statistics; see above.
_ORDERED_FORMS: Final = frozenset({
    "boolean", "int16", "int32", "int64", "varchar", "json", "uuid", "blob", "date", "timestamptz",
})  # fmt: skip
# Spark's names for the file and the number of a row begin like these.
_SPARK_NAMES: Final = ("_metadata", "_tmp_metadata")
# In Spark's names of columns: of nested ones, and around parts of names.
_SEPARATORS: Final = ".`"
# So many different read names a scan has at most. Files with others are read under long names.
_NAMINGS_MAX: Final = 8
# Row groups are cut by bytes in memory, which are packed in a file: one of more bytes may have several.
_LARGE_BYTES: Final = ROW_GROUP_BYTES // 16
_FOOTER_READERS: Final = 8
_KEPT_BYTES_MAX: Final = 32 * 2**20
# A name with its type takes about so many bytes in memory.
_NAMED_BYTES: Final = 300


def _long_name(column: Column) -> str:
    """Return the name that no file has."""
    return column_name(column.attnum).ljust(_NAME_BYTES_MAX + 1, "_")


def read_names(
    lake: LakeFiles, table: Table, files: Sequence[DataFile], check: Callable[[], None]
) -> dict[str, ReadNames]:
    """Return the read names of each file, by its path: at most so many different ones, and long ones.

    The footers of files that may have several row groups are read. `check` is called before each, and raises to end it.
    Errors as `LakeFiles.parquet`. Blocking.
    """

    def own(file: DataFile) -> ReadNames:
        check()
        of = expected(table.path, file)
        return _own_names(table, _footers.get(lake, of, lambda: _read(lake, of)))

    large = [file for file in files if file.record_count > ROW_GROUP_ROWS or file.size_bytes > _LARGE_BYTES]
    if len(large) > 1:
        with ThreadPoolExecutor(_FOOTER_READERS) as readers:
            found = list(readers.map(own, large))
    else:
        found = list(map(own, large))
    plain = tuple(map(_long_name, table.columns))
    kept = {names for names, _ in Counter(each for each in found if each != plain).most_common(_NAMINGS_MAX)}
    return {file.path: plain for file in files} | {
        file.path: names for file, names in zip(large, found, strict=True) if names in kept
    }


def _own_names(table: Table, named: _Named) -> ReadNames:
    """Return the read names of the table's columns in a file that has these."""
    names = []
    for column in table.columns:
        name, kind = named.get(column.column_id, ("", None))
        is_same = _is_ordered(column.form.ducklake) and kind == arrow_type(column.form)
        names.append(name if is_same else _long_name(column))
    return tuple(names)


def _is_ordered(form: str) -> bool:
    return form in _ORDERED_FORMS or form.startswith("decimal(")


def _read(lake: LakeFiles, of: Expected) -> _Named:
    with lake.parquet(of) as parquet:
        writer, schema = parquet.metadata.created_by, parquet.schema_arrow
    if not writer.startswith(_WRITERS):
        return {}
    ids = Counter(map(_field_id, schema))
    folded = Counter(key for field in schema for key in _folded(field.name))
    return {
        field_id: (field.name, field.type)
        for field in schema
        if (field_id := _field_id(field)) is not None and ids[field_id] == 1 and _is_plain(field.name, folded)
    }


def _field_id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def _is_plain(name: str, folded: Mapping[str, int]) -> bool:
    """Whether Spark takes it for the name of this column alone. `folded` counts those of all columns of the file."""
    return (
        name != ""
        and not set(name) & set(_SEPARATORS)
        and not name.lower().startswith(_SPARK_NAMES)
        and all(folded[key] == 1 for key in _folded(name))
    )


def _folded(name: str) -> set[str]:
    """Return the forms by which Spark compares names: in lower case, and letter by letter (equalsIgnoreCase)."""
    letters = (letter.upper() if len(letter.upper()) == 1 else letter for letter in name)
    return {name.lower(), "".join(each.lower() if len(each.lower()) == 1 else each for each in letters)}


def _size(named: _Named) -> int:
    return _NAMED_BYTES * (1 + len(named))


_footers: Final = KeptReads[_Named](_KEPT_BYTES_MAX, _size)
