"""Rows divided by a partition key: by what DuckDB divides them, in files of one partition, in bounded number."""

from __future__ import annotations

import dataclasses
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from catalog import datatypes
from catalog.model import DataFile, Partition, PartitionColumn, SortColumn, Table
from catalog.partitions import ducklake_text, partition_from_json, partition_to_json
from storage.parquet import parquet_writer
from storage.parquet.arrow_types import arrow_schema
from storage.parquet.bounds import DATE_INFINITY, TIMESTAMP_INFINITY
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles
from storage.parquet.parquet_writer import ParquetWriter
from storage.parquet.partitions import divided, only_partition
from tests.storage.lake import NUMERIC_10_2, rows, table

_TYPES: dict[str, tuple[int | tuple[int, int], str, list[str]]] = {
    "smallint": (datatypes.INT2, "SMALLINT", ["34", "-1", "0", "-32768"]),
    "integer": (datatypes.INT4, "INTEGER", ["34", "-1", "0", "2147483647"]),
    "bigint": (datatypes.INT8, "BIGINT", ["34", "-1", "9223372036854775807", "-9223372036854775808"]),
    "text": (datatypes.TEXT, "VARCHAR", ["iceberg", "", "a/b=c%", "Ünï 🙂", 'it\'s "quoted"', "x" * 200]),
    "uuid": (datatypes.UUID, "UUID", ["f79c3e09-677c-4bbd-a479-3f349cb785e7"]),
    "boolean": (datatypes.BOOL, "BOOLEAN", ["true", "false"]),
    "bytea": (datatypes.BYTEA, "BLOB", ["\\x00\\x01", "abc", "\\x5C\\x27\\x22", "", "\\x01\\x7F"]),
    "numeric": (NUMERIC_10_2, "DECIMAL(10,2)", ["14.20", "-0.05", "0.00", "99999999.99"]),
    "time": (datatypes.TIME, "TIME", ["22:31:08", "00:00:00", "10:00:00.000001"]),
    "date": (
        datatypes.DATE,
        "DATE",
        [
            "2017-11-16",
            "1969-12-31",
            "1970-01-01",
            "2024-02-29",
            "0044-03-15 (BC)",
            "9999-12-31",
            "infinity",
            "-infinity",
        ],
    ),
    "timestamp": (
        datatypes.TIMESTAMP,
        "TIMESTAMP",
        ["2017-11-16 22:31:08", "1969-12-31 23:59:59.999999", "0044-03-15 (BC) 01:00:00", "infinity", "-infinity"],
    ),
    "timestamptz": (
        datatypes.TIMESTAMPTZ,
        "TIMESTAMPTZ",
        ["2017-11-16 22:31:08+00", "2024-01-01 01:30:00+00", "1969-12-31 23:59:59.999999+00", "infinity"],
    ),
}
_UNITS = ("year", "month", "day", "hour")
_CASES = [
    *((kind, transform) for kind in _TYPES for transform in ("identity", "bucket(7)")),
    *((kind, unit) for kind in ("date", "timestamp", "timestamptz") for unit in _UNITS),
]
_NO_BUCKET = {"boolean", "numeric"}


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    (extension,) = Path(sysconfig.get_path("purelib")).glob("duckdb_extension_ducklake/**/ducklake.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    yield connection
    connection.close()


def keyed(of: Table, *key: PartitionColumn, sort: tuple[SortColumn, ...] = ()) -> Table:
    return dataclasses.replace(of, partition_key=key, sort_key=sort)


@pytest.mark.parametrize(("kind", "transform"), [each for each in _CASES if each != ("date", "hour")])
def test_values_are_those_of_duckdb(duck: duckdb.DuckDBPyConnection, tmp_path: Path, kind: str, transform: str) -> None:
    if kind in _NO_BUCKET and transform.startswith("bucket"):
        pytest.skip("it is refused: DuckDB's hash depends on how many digits the type has")
    oid, duckdb_type, texts = _TYPES[kind]
    called = "bucket(7, c)" if transform == "bucket(7)" else "c" if transform == "identity" else f"{transform}(c)"
    duck.execute(
        f"ATTACH 'ducklake::memory:' AS lake (DATA_PATH '{tmp_path}/', META_TYPE 'duckdb', DATA_INLINING_ROW_LIMIT 0)"
    )
    try:
        duck.execute(
            f"CREATE TABLE lake.t (n INTEGER, c {duckdb_type}); ALTER TABLE lake.t SET PARTITIONED BY ({called})"
        )
        for number, text in enumerate([*texts, None]):
            duck.execute(f"INSERT INTO lake.t VALUES (?, ?::{duckdb_type})", [number, text])
        given = duck.execute("SELECT c FROM lake.t ORDER BY n").to_arrow_table()
        known = duck.execute(
            "SELECT partition_value, transform FROM __ducklake_metadata_lake.ducklake_file_partition_value"
            " JOIN __ducklake_metadata_lake.ducklake_data_file d USING (data_file_id)"
            " JOIN __ducklake_metadata_lake.ducklake_partition_column p ON p.partition_id = d.partition_id"
            " ORDER BY data_file_id"
        ).fetchall()
    finally:
        duck.execute("DETACH lake")
    of = keyed(table(c=oid), PartitionColumn(1, transform))
    lake_form = pa.Table.from_arrays([_cast(given.column(0), arrow_schema(of).field(0).type)], schema=arrow_schema(of))
    found = []
    for number in range(lake_form.num_rows):
        partition = only_partition(lake_form.slice(number, 1), of)
        assert partition.values is not None
        assert partition_from_json(partition_to_json(partition)) == partition
        found.append((ducklake_text(transform, partition.values[0]), transform))
    assert found == known


def _cast(column: pa.ChunkedArray, form: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_binary(form) or pa.types.is_string(form):
        return column.cast(form)
    return column if column.type == form else column.cast(form)


def values_of(files: tuple[DataFile, ...]) -> list[Any]:
    return [None if file.partition is None else file.partition.values for file in files]


def contents(path: Path, of: Table, files: tuple[DataFile, ...]) -> list[dict[str, Any]]:
    lake = LakeFiles(str(path))
    columns = [column for column in of.columns if column.name != "at"]  # Python has no infinite dates
    return [row for file in files for _, batch in read_rows(lake, of, file, columns) for row in batch.to_pylist()]


def test_each_file_has_one_partition(tmp_path: Path) -> None:
    of = keyed(
        table(tenant=datatypes.TEXT, at=datatypes.DATE, n=datatypes.INT4),
        PartitionColumn(1, "identity"),
        PartitionColumn(2, "month"),
        sort=(SortColumn(3, True, False),),
    )
    given = [
        ("b", 0, 1), ("a", 31, 2), (None, 0, 3), ("a", 30, 4), ("b", 1, 5), ("a", None, 6), ("a", 365, 7), ("b", -1, 8),
        ("a", DATE_INFINITY, 9), ("b", 2, 10),
    ]  # fmt: skip
    writer = ParquetWriter(str(tmp_path), of, sorts=True, order_max=100)
    writer.write(rows(of, *given[:4]))
    writer.write(rows(of, *given[4:]))
    files = writer.finish()
    assert values_of(files) == [
        ("a", 0), ("a", 1), ("a", 12), ("a", "infinity"), ("a", None), ("b", -1), ("b", 0), (None, 0),
    ]  # fmt: skip
    assert all(file.partition == only_partition(rows(of, *chunk), of) for file, chunk in _chunks(files, given, writer))
    assert writer.order is not None
    assert [each["n"] for each in contents(tmp_path, of, files)] == [given[place][2] for place in writer.order]
    assert [each["n"] for each in contents(tmp_path, of, files) if each["tenant"] == "b"] == [8, 10, 5, 1]


def _chunks(files: tuple[DataFile, ...], given: list[tuple[Any, ...]], writer: ParquetWriter) -> Iterator[Any]:
    assert writer.order is not None
    first = 0
    for file in files:
        yield file, [given[place] for place in writer.order[first : first + file.record_count]]
        first += file.record_count


def test_few_rows_are_hot_and_have_no_partition(tmp_path: Path) -> None:
    of = keyed(table(n=datatypes.INT4), PartitionColumn(1, "identity"))
    writer = ParquetWriter(str(tmp_path), of, hot_rows=10)
    writer.write(rows(of, (1,), (2,)))
    [file] = writer.finish()
    assert file.hot_rows is not None
    assert file.partition is None
    assert writer.order is None


def test_too_many_partitions_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of partitions makes more files than allowed; rows of the large ones have files of their own."""
    monkeypatch.setattr(parquet_writer, "PARTITION_FILES", 3)
    of = keyed(table(k=datatypes.INT4, n=datatypes.INT4), PartitionColumn(1, "identity"))
    numbers = np.arange(50_000)
    keys = np.where(numbers % 2 == 0, 7, np.where(numbers % 5 == 0, 3, numbers))
    writer = ParquetWriter(str(tmp_path), of, order_max=10**6)
    given = pa.Table.from_arrays([pa.array(keys, pa.int32()), pa.array(numbers, pa.int32())], schema=arrow_schema(of))
    writer.write(given)
    files = writer.finish()
    assert values_of(files)[-1] is None
    assert set(values_of(files)) > {("7",), ("3",), None}
    assert len(files) <= 4
    found = contents(tmp_path, of, files)
    assert writer.order is not None
    assert [each["n"] for each in found] == numbers[writer.order].tolist()
    last = found[-files[-1].record_count :]
    assert [each["k"] for each in last] == sorted(each["k"] for each in last), (
        "bounds of its row groups tell them apart"
    )
    for file in files[:-1]:
        assert file.partition is not None
        statistics = file.statistics[of.columns[0].column_id]
        assert file.partition.values == (statistics.minimum,) == (statistics.maximum,)


def test_statements_have_few_files_of_wide_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "PARTITION_STATISTICS", 10)
    monkeypatch.setattr(parquet_writer, "SORT_BYTES", 100)
    of = keyed(table(k=datatypes.INT4, n=datatypes.INT4), PartitionColumn(1, "identity"))
    writer = ParquetWriter(str(tmp_path), of)
    for number in range(200):
        writer.write(rows(of, (number, number)))
    files = writer.finish()
    assert Counter(each is None for each in values_of(files)) == {False: 5, True: 1}
    assert sorted(each["n"] for each in contents(tmp_path, of, files)) == list(range(200))


def test_long_values_have_no_partition(tmp_path: Path) -> None:
    of = keyed(table(t=datatypes.TEXT), PartitionColumn(1, "identity"))
    writer = ParquetWriter(str(tmp_path), of)
    writer.write(rows(of, ("ä" * 512,), ("ä" * 513,), ("b",)))
    assert sorted(map(str, values_of(writer.finish()))) == sorted([str(("ä" * 512,)), str(("b",)), "None"])


def test_parts_continue_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that come in the order of their partitions make a file for each, whatever is divided at a time."""
    monkeypatch.setattr(parquet_writer, "SORT_BYTES", 4_000)
    of = keyed(table(k=datatypes.INT4), PartitionColumn(1, "identity"))
    writer = ParquetWriter(str(tmp_path), of)
    for first in range(0, 10_000, 100):
        writer.write(rows(of, *((number // 2_500,) for number in range(first, first + 100))))
    assert values_of(writer.finish()) == [("0",), ("1",), ("2",), ("3",)]


def test_rows_that_keep_their_order_have_a_partition_if_it_is_one(tmp_path: Path) -> None:
    of = keyed(table(at=datatypes.TIMESTAMP), PartitionColumn(1, "year"))
    for values, expected in (([0, 5], (0,)), ([0, -1], None), ([TIMESTAMP_INFINITY], ("infinity",)), ([None], (None,))):
        writer = ParquetWriter(str(tmp_path), of, divides=False)
        for value in values:
            writer.write(rows(of, (value,)))
        [file] = writer.finish()
        assert file.partition == Partition(of.divided_by, expected)


def test_the_order_is_stable() -> None:
    of = keyed(table(k=datatypes.INT4, n=datatypes.INT4), PartitionColumn(1, "bucket(2)"))
    found = divided(rows(of, *((n % 9, n) for n in range(1_000))), of, None, 9, sorts=False)
    assert len(found.parts) == 2
    first = found.parts[0][1]
    assert (np.diff(found.order[:first]) > 0).all()
    assert (np.diff(found.order[first:]) > 0).all()
