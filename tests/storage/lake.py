"""Tables without a catalog, and DuckDB's DuckLake over their files as the witness of their rows."""

from __future__ import annotations

import itertools
import sysconfig
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from catalog import datatypes
from catalog.model import Column, DataFile, DeleteFile, Table, TableVersion
from storage.parquet.arrow_types import arrow_schema
from storage.parquet.parquet_writer import ParquetWriter
from storage.plan import BoundScan, Comparison, RunnableQuery, Scan

_numbers = itertools.count(1)
NUMERIC_10_2 = (datatypes.NUMERIC, (10 << 16 | 2) + 4)


def table(**types: int | tuple[int, int]) -> Table:
    """A table with a column for each name: a type's OID, or OID and typmod."""
    number = next(_numbers)
    columns: list[Column] = []
    column_id = 1
    for name, given in types.items():
        oid, typmod = given if isinstance(given, tuple) else (given, -1)
        columns.append(Column(len(columns) + 1, column_id, name, oid, typmod, True))
        column_id += columns[-1].form.field_count
    return Table(number, number, "public", f"t{number}", f"public/t{number}/", tuple(columns))


def rows(of: Table, *values: tuple[Any, ...]) -> pa.Table:
    """Python values in lake form, row by row; an int stands for itself in dates, times and timestamps."""
    schema = arrow_schema(of)
    columns = zip(*values, strict=True)
    return pa.Table.from_arrays(
        [_column(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _column(values: list[Any], form: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(form) and all(value is None or isinstance(value, int) for value in values):
        return pa.array(values, pa.int32() if pa.types.is_date32(form) else pa.int64()).cast(form)
    return pa.array(values, form)


def write(data_path: Path, of: Table, *batches: pa.Table, snapshot_id: int = 1) -> TableVersion:
    """One data file for each Arrow table."""
    files: list[DataFile] = []
    for batch in batches:
        writer = ParquetWriter(str(data_path), of)
        writer.write(batch)
        files.extend(writer.finish())
    return TableVersion(of, snapshot_id, tuple(files))


def scan(version: TableVersion, *predicate: Comparison, name: str = "t", position: bool = False) -> BoundScan:
    attnums = tuple(column.attnum for column in version.table.columns)
    return BoundScan(Scan(name, version.table.oid, attnums, predicate, position), version)


def query(sql: str, *scans: BoundScan, time_zone: str = "UTC") -> RunnableQuery:
    return RunnableQuery(sql, scans, time_zone)


class Witness:
    """DuckDB, attached to a DuckLake whose metadata say what a table version says."""

    def __init__(self, data_path: Path, version: TableVersion) -> None:
        self.connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        site = Path(sysconfig.get_path("purelib"))
        (extension,) = site.glob("duckdb_extension_ducklake/**/ducklake.duckdb_extension")
        self.connection.execute(f"LOAD '{extension}'")
        self.connection.execute(f"ATTACH 'ducklake::memory:' AS lake (DATA_PATH '{data_path}/', META_TYPE 'duckdb')")
        self.connection.execute("SET timezone = 'UTC'")
        of = version.table
        columns = ", ".join(f'"{column.name}" {_duckdb_type(column.form)}' for column in of.columns)
        self.connection.execute(
            f'CREATE SCHEMA IF NOT EXISTS lake.public; CREATE TABLE lake.public."{of.name}" ({columns})'
        )
        self.name = f'lake.public."{of.name}"'
        self._publish(version)

    def rows(self, sql: str = "SELECT * FROM {table}") -> list[tuple[Any, ...]]:
        return self.connection.execute(sql.format(table=self.name)).fetchall()

    def arrow(self, sql: str) -> pa.Table:
        return self.connection.execute(sql.format(table=self.name)).fetch_arrow_table()

    def close(self) -> None:
        self.connection.close()

    def _publish(self, version: TableVersion) -> None:
        metadata = "__ducklake_metadata_lake.main"
        run = self.connection.execute
        ((table_id, path),) = run(f"SELECT table_id, path FROM {metadata}.ducklake_table").fetchall()
        run(f"UPDATE {metadata}.ducklake_table SET path = '{Path(version.table.path).name}/'")
        ids = run(f"SELECT column_id FROM {metadata}.ducklake_column ORDER BY column_id").fetchall()
        assert len(ids) == sum(column.form.field_count for column in version.table.columns), path
        run(
            f"INSERT INTO {metadata}.ducklake_snapshot"
            f" SELECT snapshot_id + 1, now(), schema_version, next_catalog_id, 100"
            f" FROM {metadata}.ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1"
        )
        ((snapshot_id,),) = run(f"SELECT max(snapshot_id) FROM {metadata}.ducklake_snapshot").fetchall()
        for number, file in enumerate(version.files):
            run(
                f"INSERT INTO {metadata}.ducklake_data_file (data_file_id, table_id, begin_snapshot, path,"
                f" path_is_relative, file_format, record_count, file_size_bytes, footer_size, row_id_start)"
                f" VALUES (?, ?, ?, ?, true, 'parquet', ?, ?, ?, ?)",
                [
                    number,
                    table_id,
                    snapshot_id,
                    file.path,
                    file.record_count,
                    file.size_bytes,
                    file.footer_size,
                    number * 10**9,
                ],
            )
            for column_id, statistics in file.statistics.items():
                run(
                    f"INSERT INTO {metadata}.ducklake_file_column_stats VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                    [
                        number,
                        table_id,
                        column_id,
                        statistics.size_bytes,
                        statistics.value_count,
                        statistics.null_count,
                        statistics.minimum,
                        statistics.maximum,
                        statistics.contains_nan,
                    ],
                )
            if file.delete_file is not None:
                delete: DeleteFile = file.delete_file
                run(
                    f"INSERT INTO {metadata}.ducklake_delete_file (delete_file_id, table_id, begin_snapshot,"
                    f" data_file_id, path, path_is_relative, format, delete_count, file_size_bytes, footer_size)"
                    f" VALUES (?, ?, ?, ?, ?, true, 'parquet', ?, ?, ?)",
                    [
                        1000 + number,
                        table_id,
                        snapshot_id,
                        number,
                        delete.path,
                        delete.delete_count,
                        delete.size_bytes,
                        delete.footer_size,
                    ],
                )


def _duckdb_type(form: datatypes.LakeForm) -> str:
    if form.ducklake == "list":
        return f"{_duckdb_type(form.children[0][1])}[]"
    if form.ducklake == "struct":
        return "STRUCT(" + ", ".join(f"{name} {_duckdb_type(child)}" for name, child in form.children) + ")"
    names = {"int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "float32": "FLOAT", "float64": "DOUBLE"}
    return names.get(form.ducklake, form.ducklake.upper())
