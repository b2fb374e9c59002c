"""Written rows exist once, complete, and as DuckDB reads them; a failure leaves none."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from catalog import datatypes
from catalog.errors import SluiceError
from catalog.model import PartitionColumn, SortColumn, Table, TableVersion
from storage.parquet import parquet_writer
from storage.parquet.parquet_writer import ROW_GROUP_ROWS
from storage.plan import RunnableDelete, RunnableInsert, RunnableUpdate
from storage.spark.engine import SparkEngine
from storage.spark.raise_error import raise_error_text
from storage.spark.write import WriteResult
from tests.storage.conftest import Reader
from tests.storage.lake import NUMERIC_10_2, Witness, query, rows, scan, table, write

Attach = Callable[[TableVersion], Witness]


def published(version: TableVersion, result: WriteResult) -> TableVersion:
    """The version after the result was published."""
    files = [
        dataclasses.replace(file, delete_file=result.delete_files.get(file.path, file.delete_file))
        for file in version.files
    ]
    return TableVersion(version.table, version.snapshot_id + 1, (*files, *result.data_files))


def parquet_files(lake_path: Path, of: Table) -> list[str]:
    folder = lake_path / of.path
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


async def test_a_small_insert(engine: SparkEngine, lake_path: Path, witness: Attach) -> None:
    of = table(a=datatypes.INT8, l=1009, iv=datatypes.INTERVAL)
    sql = "SELECT id, array('x', NULL), named_struct('months', 1, 'days', 2, 'microseconds', 3L) FROM range(3)"
    result = await engine.insert(RunnableInsert(query(sql), of), "i")
    assert result.row_count == 3
    assert result.returning is None
    assert parquet_files(lake_path, of) == [file.path for file in result.data_files]
    interval = {"months": 1, "days": 2, "microseconds": 3}
    duck = witness(TableVersion(of, 1, result.data_files))
    assert duck.rows("SELECT * FROM {table} ORDER BY a") == [(n, ["x", None], interval) for n in range(3)]


async def test_a_large_insert_is_written_by_sparks_tasks(
    engine: SparkEngine, lake_path: Path, reader: Reader, witness: Attach
) -> None:
    types: dict[str, int | tuple[int, int]] = {
        "A b": datatypes.INT8, "f": datatypes.FLOAT8, "d": NUMERIC_10_2, "iv": datatypes.INTERVAL, "t": 1083,
    }  # fmt: skip
    of = table(**types)
    sql = (
        "SELECT id, IF(id = 5, double('NaN'), id / 2), CAST(id % 1000 AS DECIMAL(10, 2)),"
        " named_struct('months', 1, 'days', 2, 'microseconds', id), TIME'12:34:56.789' FROM range(0, 300000, 1, 2)"
    )
    result = await engine.insert(RunnableInsert(query(sql), of), "i")
    assert len(result.data_files) == 2
    assert result.row_count == 300_000
    assert parquet_files(lake_path, of) == sorted(file.path for file in result.data_files)
    footer = pq.ParquetFile(lake_path / of.path / result.data_files[0].path)
    assert footer.metadata.created_by.startswith("parquet-mr")
    groups = [footer.metadata.row_group(number).num_rows for number in range(footer.metadata.num_row_groups)]
    assert groups == [ROW_GROUP_ROWS] * (150_000 // ROW_GROUP_ROWS) + [150_000 % ROW_GROUP_ROWS]
    first = result.data_files[0].statistics
    assert (first[1].minimum, first[1].maximum, first[1].null_count) == ("0", "149999", 0)
    assert (first[2].contains_nan, result.data_files[1].statistics[2].contains_nan) == (True, False)
    assert (first[3].minimum, first[3].maximum) == ("0.00", "999.00")
    assert first.keys() == {1, 2, 3, 5, 6, 7, 8}
    version = TableVersion(of, 1, result.data_files)
    assert await reader.column("SELECT sum(c1) FROM t", scan(version)) == [sum(range(300_000))]
    duck = witness(version)
    assert duck.rows('SELECT count(*), sum("A b"), sum(d), sum(iv.microseconds), min(t)::VARCHAR FROM {table}') == [
        (300_000, sum(range(300_000)), Decimal(sum(range(1000)) * 300), sum(range(300_000)), "12:34:56.789")
    ]
    assert math.isnan(duck.rows('SELECT f FROM {table} WHERE "A b" = 5')[0][0])


async def test_an_insert_of_nothing_makes_no_file(engine: SparkEngine, lake_path: Path) -> None:
    of = table(a=datatypes.INT8)
    result = await engine.insert(RunnableInsert(query("SELECT id FROM range(1000000) WHERE id < 0"), of), "i")
    assert (result.data_files, result.row_count) == ((), 0)
    assert parquet_files(lake_path, of) == []


async def test_returning_gives_back_what_was_stored(engine: SparkEngine, reader: Reader) -> None:
    of = table(a=datatypes.INT8, r=datatypes.FLOAT8, n=datatypes.TEXT)
    source = query("SELECT id, r, CAST(NULL AS STRING), id * 10, r FROM (SELECT id, rand() AS r FROM range(1000))")
    result = await engine.insert(RunnableInsert(source, of), "i")
    assert result.returning is not None
    returned = result.returning.read_all()
    version = TableVersion(of, 1, result.data_files)
    stored = await reader.table("SELECT c1 * 10, c2, c3 FROM t ORDER BY c1", scan(version))
    in_order = returned.take(pc.sort_indices(returned.column(0)))
    assert in_order.column(0).equals(stored.column(0))
    assert in_order.column(1).equals(stored.column(1))
    assert stored.column(2).null_count == 1000


async def test_delete_by_position(engine: SparkEngine, lake_path: Path, reader: Reader, witness: Attach) -> None:
    of = table(a=datatypes.INT4)
    version = write(lake_path, of, *(rows(of, *((n,) for n in range(start, start + 10))) for start in (0, 10, 20)))
    sql = "SELECT _file, _position, c1 FROM t WHERE c1 % 2 = 0 AND c1 < 20"
    result = await engine.delete(RunnableDelete(query(sql, scan(version, position=True)), version), "d")
    assert result.row_count == 10
    assert result.returning is not None
    assert sorted(result.returning.read_all().column(0).to_pylist()) == list(range(0, 20, 2))
    assert set(result.delete_files) == {version.files[0].path, version.files[1].path}
    after = published(version, result)
    assert after.row_count == 20
    again = "SELECT _file, _position FROM t WHERE c1 < 4 UNION ALL SELECT _file, _position FROM t WHERE c1 < 4"
    second = await engine.delete(RunnableDelete(query(again, scan(after, position=True)), after), "d")
    assert second.row_count == 2
    final = published(after, second)
    expected = [n for n in range(30) if n >= 4 and (n % 2 == 1 or n >= 20)]
    assert sorted(await reader.column("SELECT c1 FROM t", scan(final))) == expected  # type: ignore[type-var]
    assert [row[0] for row in witness(final).rows("SELECT a FROM {table} ORDER BY a")] == expected
    ((path, delete),) = second.delete_files.items()
    content = pq.read_table(lake_path / of.path / delete.path)
    assert content.column("pos").to_pylist() == [0, 1, 2, 3, 4, 6, 8]
    assert {each.rpartition("/")[2] for each in content.column("file_path").to_pylist()} == {path}


async def test_update_evaluates_each_row_once(
    engine: SparkEngine, lake_path: Path, reader: Reader, witness: Attach
) -> None:
    of = table(a=datatypes.INT4, u=datatypes.TEXT)
    version = write(lake_path, of, rows(of, *((n, "old") for n in range(10))), rows(of, (10, "old")))
    sql = "SELECT _file, _position, c1, u, u FROM (SELECT *, uuid() AS u FROM t WHERE c1 >= 8)"
    result = await engine.update(RunnableUpdate(query(sql, scan(version, position=True)), version), "u")
    assert result.row_count == 3
    assert result.returning is not None
    returned = result.returning.read_all().column(0).to_pylist()
    after = published(version, result)
    assert await reader.column("SELECT c2 FROM t WHERE c2 <> 'old' ORDER BY c2", scan(after)) == sorted(returned)
    assert await reader.column("SELECT c1 FROM t ORDER BY c1", scan(after)) == list(range(11))
    assert witness(after).rows("SELECT count(*), count(DISTINCT u) FROM {table}") == [(11, 4)]


async def test_of_several_new_rows_for_an_old_one_one_is_taken(
    engine: SparkEngine, lake_path: Path, reader: Reader
) -> None:
    of = table(a=datatypes.INT4)
    version = write(lake_path, of, rows(of, (1,), (2,)))
    sql = "SELECT _file, _position, CAST(c1 * 100 + id AS INT), id FROM t CROSS JOIN range(50)"
    result = await engine.update(RunnableUpdate(query(sql, scan(version, position=True)), version), "u")
    assert result.row_count == 2
    assert result.returning is not None
    assert result.returning.read_all().num_rows == 2
    stored: list[Any] = await reader.column("SELECT c1 FROM t ORDER BY c1", scan(published(version, result)))
    assert [value // 100 for value in stored] == [1, 2]


@pytest.mark.parametrize("size", [1_000, 1_000_000], ids=["written here", "written by Spark"])
async def test_a_failed_insert_leaves_nothing(engine: SparkEngine, lake_path: Path, size: int) -> None:
    of = table(a=datatypes.INT8)
    error = SluiceError(
        "23514", 'new row for relation "t" violates check constraint "it\'s"', detail="Failing row contains (1).",
        schema="public", table="t", constraint="it's",
    )  # fmt: skip
    text = raise_error_text(error).replace("\\", "\\\\").replace("'", "\\'")
    sql = f"SELECT IF(id = {size - 1}, raise_error('{text}'), id) FROM range({size})"
    with pytest.raises(SluiceError) as caught:
        await engine.insert(RunnableInsert(query(sql), of), "i")
    assert caught.value.fields == error.fields
    assert parquet_files(lake_path, of) == []


@pytest.mark.parametrize("width", [1, 2], ids=["written by Spark", "written here"])
async def test_a_cancelled_insert_leaves_nothing(engine: SparkEngine, lake_path: Path, width: int) -> None:
    of = table(a=datatypes.INT8)
    sql = f"SELECT id{', id' * (width - 1)} FROM range(100000000000)"
    task = asyncio.create_task(engine.insert(RunnableInsert(query(sql), of), "endless"))
    await asyncio.sleep(2)
    engine.cancel("endless")
    with pytest.raises(SluiceError) as caught:
        await task
    assert caught.value.sqlstate == "57014"
    assert parquet_files(lake_path, of) == []


async def test_an_abandoned_insert_leaves_nothing(engine: SparkEngine, lake_path: Path) -> None:
    of = table(a=datatypes.INT8)
    task = asyncio.create_task(engine.insert(RunnableInsert(query("SELECT id FROM range(10)"), of), "gone"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert parquet_files(lake_path, of) == []


async def test_a_result_that_is_not_published_can_be_discarded(engine: SparkEngine, lake_path: Path) -> None:
    of = table(a=datatypes.INT8)
    result = await engine.insert(RunnableInsert(query("SELECT id FROM range(10)"), of), "i")
    assert parquet_files(lake_path, of) != []
    await engine.discard(result, of.path)
    assert parquet_files(lake_path, of) == []


async def test_names_that_differ_in_case_alone(engine: SparkEngine) -> None:
    of = table(a=datatypes.INT8, b=datatypes.INT8)
    of = dataclasses.replace(of, columns=(of.columns[0], dataclasses.replace(of.columns[1], name="A")))
    result = await engine.insert(RunnableInsert(query("SELECT id, -id FROM range(1000000)"), of), "i")
    assert result.row_count == 1_000_000


async def test_a_large_insert_has_a_range_of_the_sort_key_in_each_file(engine: SparkEngine, lake_path: Path) -> None:
    plain = table(**{"a.b`": datatypes.INT8, "t": datatypes.TEXT})
    of = dataclasses.replace(plain, sort_key=(SortColumn(1, True, False), SortColumn(2, False, True)))
    sql = "SELECT IF(id = 7, NULL, id * 7919 % 300007), CAST(id AS STRING) FROM range(0, 300000, 1, 3)"
    result = await engine.insert(RunnableInsert(query(sql), of), "i")
    assert result.row_count == 300_000
    bounds = []
    for each in result.data_files:
        footer = pq.ParquetFile(lake_path / of.path / each.path)
        assert footer.metadata.created_by.startswith("parquet-mr")
        values = footer.read().column(0).to_pylist()
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=True)
        assert values[len(known) :] == [None] * (len(values) - len(known)), "NULLs come last"
        bounds.append((known[-1], known[0]))
    assert len(bounds) == 2
    assert all(low[1] < high[0] for low, high in itertools.pairwise(sorted(bounds)))


async def test_a_large_insert_has_few_files_of_each_partition(
    engine: SparkEngine, lake_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark sorts the rows, so that no partition has a file for each part that is divided at a time."""
    monkeypatch.setattr(parquet_writer, "SORT_BYTES", 2**20)
    plain = table(**{"a.b`": datatypes.TEXT, "t": datatypes.DATE, "n": datatypes.INT8})
    key = (PartitionColumn(2, "month"), PartitionColumn(1, "identity"), PartitionColumn(3, "bucket(2)"))
    of = dataclasses.replace(plain, partition_key=key)
    sql = (
        "SELECT IF(id % 3 = 0, NULL, concat('a', id % 3)), date_from_unix_date(CAST(id * 7919 % 90 AS INT)), id"
        " FROM range(0, 300000, 1, 3)"
    )
    result = await engine.insert(RunnableInsert(query(sql), of), "i")
    assert result.row_count == 300_000
    found = [file.partition.values for file in result.data_files if file.partition is not None]
    assert set(found) == set(itertools.product(range(3), (None, "a1", "a2"), range(2)))
    parts = sum(file.record_count for file in result.data_files) * 20 // 2**20
    assert parts >= 5
    assert len(found) == len(result.data_files) <= 18 + 2 * (parts + 2), "else each part has rows of all partitions"


async def test_an_update_tells_which_rows_its_divided_ones_replace(engine: SparkEngine, lake_path: Path) -> None:
    of = dataclasses.replace(table(a=datatypes.INT8), partition_key=(PartitionColumn(1, "bucket(5)"),))
    count = 2 * ROW_GROUP_ROWS
    version = write(lake_path, of, pa.table({"a": np.arange(count)}))
    assert len(version.files) == 5
    sql = f"SELECT _file, _position, c1 + {count} FROM t"
    update = RunnableUpdate(query(sql, scan(version, position=True)), version, sources_max=count)
    result = await engine.update(update, "u")
    assert len(result.data_files) == 5
    assert result.sources is not None
    old = {file.path: pq.read_table(lake_path / of.path / file.path).column(0).to_numpy() for file in version.files}
    new = np.concatenate(
        [pq.read_table(lake_path / of.path / each.path).column(0).to_numpy() for each in result.data_files]
    )
    pairs = zip(
        result.sources.column("file").cast(pa.string()).to_pylist(),
        result.sources.column("position").to_pylist(),
        strict=True,
    )
    assert [int(old[file][position]) + count for file, position in pairs] == new.tolist()


async def test_an_update_tells_which_rows_its_sorted_ones_replace(engine: SparkEngine, lake_path: Path) -> None:
    plain = table(a=datatypes.INT8)
    of = dataclasses.replace(plain, sort_key=(SortColumn(1, False, False),))
    count = 2 * ROW_GROUP_ROWS
    version = write(lake_path, of, pa.table({"a": np.arange(count)}))
    sql = f"SELECT _file, _position, (c1 * 7919) % {count + 1} FROM t"
    update = RunnableUpdate(query(sql, scan(version, position=True)), version, sources_max=count)
    result = await engine.update(update, "u")
    new = np.concatenate(
        [pq.read_table(lake_path / of.path / each.path).column(0).to_numpy() for each in result.data_files]
    )
    assert (np.diff(new) >= 0).all()
    assert result.sources is not None
    assert (result.sources.column("position").to_numpy() * 7919 % (count + 1) == new).all()
