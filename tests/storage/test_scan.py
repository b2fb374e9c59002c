"""Tables as Spark sees them: every type, every file, no deleted row."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from catalog import datatypes
from catalog.errors import SluiceError
from catalog.model import Column, DataFile, TableVersion
from storage.parquet import layout
from storage.parquet.files import LakeFiles
from storage.parquet.positions import DeletedPositions
from storage.parquet.small_files import is_small
from storage.plan import Comparison
from storage.spark.engine import SparkEngine
from tests.storage.conftest import Reader
from tests.storage.lake import NUMERIC_10_2, Witness, rows, scan, table, write

_INTERVAL = {"months": 1, "days": -2, "microseconds": 3}
_UUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"


@pytest.fixture(params=["read by Spark", "handed over"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are read in either way."""
    if request.param == "read by Spark":
        monkeypatch.setattr("storage.spark.scan._HANDED_BYTES_MAX", -1)


def delete_rows(lake_path: Path, version: TableVersion, inlined_max: int = 0, **positions: list[int]) -> TableVersion:
    """The version without the rows at `positions` of the files `f0`, `f1`, …"""
    deleted = DeletedPositions(version)
    for key, numbers in positions.items():
        path = version.files[int(key[1:])].path
        deleted.add(pa.array([path] * len(numbers)), pa.array(numbers, pa.int64()))
    delete_files = deleted.write(LakeFiles(str(lake_path)), inlined_max)
    files = tuple(
        dataclasses.replace(file, delete_file=delete_files.get(file.path, file.delete_file)) for file in version.files
    )
    return dataclasses.replace(version, files=files, snapshot_id=version.snapshot_id + 1)


async def test_every_type_reaches_arrow_as_it_was_written(reader: Reader, lake_path: Path) -> None:
    of = table(
        b=16, i2=21, i4=23, i8=20, f4=700, f8=701, d=NUMERIC_10_2, s=25, bl=17, dt=1082, ti=1083, ts=1114, tz=1184,
        u=2950, j=114, iv=1186, li=1007, liv=1187, n=1700,
    )  # fmt: skip
    written = rows(
        of,
        (True, -(2**15), -(2**31), -(2**63), 0.1, 5e-324, Decimal("-99999999.99"), "é\n", b"\0", -(2**31) + 1, 0,
         -(2**63) + 1, -1, _UUID, "[1]", _INTERVAL, [1, None], [_INTERVAL, None], "NaN"),
        (False, 2**15 - 1, 2**31 - 1, 2**63 - 1, math.inf, -math.inf, Decimal("0.01"), "", b"", 2**31 - 1,
         86_400_000_000, 2**63 - 1, 1, None, None, None, [], [], "1e5"),
        (None, None, None, None, math.nan, math.nan, None, "\U0010ffff", None, -800_000, None,
         -63_517_824_000_000_000, None, None, None, None, None, None, None),
        (None,) * 19,
    )  # fmt: skip
    version = write(lake_path, of, written)
    for zone in ("UTC", "America/New_York"):
        result = await reader.table("SELECT * FROM t", scan(version), time_zone=zone)
        for field, got, expected in zip(of.columns, result.columns, written.columns, strict=True):
            if pa.types.is_floating(expected.type):
                assert np.array_equal(got.to_numpy(), expected.to_numpy(), equal_nan=True), field.name
            elif pa.types.is_temporal(expected.type):
                raw = pa.int32() if pa.types.is_date32(expected.type) else pa.int64()
                unit = 1000 if pa.types.is_time64(got.type) and got.type.unit == "ns" else 1
                numbers = [value and value // unit for value in got.cast(raw).to_pylist()]
                assert numbers == expected.cast(raw).to_pylist(), field.name
            else:
                assert got.to_pylist() == expected.to_pylist(), field.name


async def test_infinities_and_24_hours_compare_and_sort(reader: Reader, lake_path: Path) -> None:
    of = table(dt=1082, ti=1083, ts=1114)
    low, high = (-(2**31) + 1, 0, -(2**63) + 1), (2**31 - 1, 86_400_000_000, 2**63 - 1)
    version = write(lake_path, of, rows(of, high, (0, 5, 0), low))
    for column, raw in (("c1", pa.int32()), ("c2", pa.int64()), ("c3", pa.int64())):
        result = await reader.table(f"SELECT {column} FROM t ORDER BY {column}", scan(version))
        values = result.column(0).cast(raw).to_pylist()
        assert values == sorted(values)
        assert len(values) == 3
    assert await reader.column(
        "SELECT count(*) FROM t WHERE c1 > DATE'9999-12-31' AND c2 > TIME'23:59:59'", scan(version)
    ) == [1]


async def test_names_do_not_matter_but_field_ids(reader: Reader, lake_path: Path) -> None:
    of = table(a=datatypes.INT4, b=datatypes.INT4)
    version = write(lake_path, of, rows(of, (1, 2)))
    a, b = of.columns
    renamed = dataclasses.replace(
        of, columns=(dataclasses.replace(b, name="a", attnum=1), dataclasses.replace(a, name="b", attnum=2))
    )
    result = await reader.table("SELECT c1, c2 FROM t", scan(dataclasses.replace(version, table=renamed)))
    assert [column.to_pylist() for column in result.columns] == [[2], [1]]


async def test_a_column_of_a_name_that_scans_use_is_no_other(reader: Reader, lake_path: Path) -> None:
    """Parts of a file are skipped by statistics of the column that is meant, not of one that is called like that."""
    of = table(id=23, c1=23, c2=23)
    version = write(lake_path, of, rows(of, (8, 5, 6), (9, 5, 7)))
    assert await reader.column("SELECT c1 FROM t WHERE c1 = 8", scan(version)) == [8]
    assert await reader.column("SELECT c1 FROM t WHERE c2 = 5 AND c3 > 6", scan(version)) == [9]


async def test_a_column_added_later_is_null_or_its_initial_default(reader: Reader, lake_path: Path) -> None:
    of = table(a=datatypes.INT4)
    old = write(lake_path, of, rows(of, (1,)))
    wide = dataclasses.replace(of, columns=(
        *of.columns,
        Column(2, 2, "b", datatypes.TEXT, -1, True),
        Column(3, 3, "c", datatypes.TEXT, -1, True, "it's \\ here"),
        Column(4, 4, "d", NUMERIC_10_2[0], NUMERIC_10_2[1], True, "1.50"),
        Column(5, 5, "e", datatypes.TIMESTAMPTZ, -1, True, "2026-01-01 00:00:00+00"),
        Column(6, 6, "f", datatypes.BYTEA, -1, True, "\\xaa00"),
        Column(7, 7, "g", datatypes.TIME, -1, True, "24:00:00"),
        Column(8, 8, "h", datatypes.DATE, -1, True, "-infinity"),
        Column(9, 9, "i", datatypes.TIMESTAMP, -1, True, "0044-03-15 12:00:00.5 BC"),
    ))  # fmt: skip
    new = write(lake_path, wide, rows(wide, (2, "x", *[None] * 7)))
    both = TableVersion(wide, 2, (*old.files, *new.files))
    result = await reader.table("SELECT * FROM t ORDER BY c1", scan(both), time_zone="Asia/Tokyo")
    columns = [column.to_pylist() for column in result.columns[:6]]
    assert columns[1:4] == [[None, "x"], ["it's \\ here", None], [Decimal("1.50"), None]]
    assert result.column(4).cast(pa.int64()).to_pylist() == [1_767_225_600_000_000, None]
    assert columns[5] == [b"\xaa\0", None]
    assert result.column(6).cast(pa.int64()).to_pylist() == [86_400_000_000_000, None]
    assert result.column(7).cast(pa.int32()).to_pylist() == [-(2**31 - 1), None]
    assert result.column(8).cast(pa.int64()).to_pylist() == [-63_517_780_799_500_000, None]


async def test_a_part_of_an_interval(reader: Reader, lake_path: Path) -> None:
    of = table(k=datatypes.INT4, iv=datatypes.INTERVAL)
    version = write(lake_path, of, rows(of, *((n, {"months": n, "days": -n, "microseconds": 0}) for n in range(5))))
    assert await reader.column("SELECT c2.days FROM t", scan(version)) == [0, -1, -2, -3, -4]
    assert await reader.column("SELECT c1 FROM t WHERE c2.months = 3", scan(version)) == [3]


@pytest.mark.turns
@pytest.mark.parametrize("inlined_max", [0, 2, 3, 100])
async def test_deleted_rows_are_left_out(
    reader: Reader,
    lake_path: Path,
    witness: Callable[[TableVersion], Witness],
    inlined_max: int,
) -> None:
    """Their positions are in files, in the catalog, or in both."""
    of = table(a=datatypes.INT4)
    version = write(lake_path, of, *(rows(of, *((n,) for n in range(start, start + 5))) for start in (0, 10, 20)))
    without = delete_rows(lake_path, version, inlined_max, f0=[0, 4], f2=[2])
    expected = [1, 2, 3, 10, 11, 12, 13, 14, 20, 21, 23, 24]
    assert sorted(await reader.column("SELECT c1 FROM t", scan(without))) == expected  # type: ignore[type-var]
    if not inlined_max:
        assert [row[0] for row in witness(without).rows("SELECT a FROM {table} ORDER BY a")] == expected
    more = delete_rows(lake_path, without, inlined_max, f0=[1, 2, 3])
    assert more.files[0].delete_file is not None
    assert more.files[0].delete_file.delete_count == 5
    assert sorted(await reader.column("SELECT c1 FROM t", scan(more))) == expected[3:]  # type: ignore[type-var]
    if not inlined_max:
        assert [row[0] for row in witness(more).rows("SELECT a FROM {table} ORDER BY a")] == expected[3:]
    assert len(await reader.column("SELECT c1 FROM t", scan(version))) == 15  # the older version is as it was


async def test_positions_name_rows(reader: Reader, lake_path: Path) -> None:
    of = table(a=datatypes.INT4)
    version = write(lake_path, of, rows(of, (7,), (8,), (9,)), rows(of, (10,)))
    version = delete_rows(lake_path, version, f0=[1])
    result = await reader.table("SELECT _file, _position, c1 FROM t ORDER BY c1", scan(version, position=True))
    first, second = (file.path for file in version.files)
    assert [tuple(row.values()) for row in result.to_pylist()] == [(first, 0, 7), (first, 2, 9), (second, 0, 10)]


@pytest.mark.parametrize("position", [False, True])
async def test_numbers_are_rows_own(reader: Reader, lake_path: Path, position: bool) -> None:
    of = table(a=datatypes.INT4)
    version = write(lake_path, of, rows(of, (7,), (8,), (9,)), rows(of, (10,), (11,)), rows(of, (12,)), rows(of, (13,)))
    later, earlier, *own = version.files  # the files of the transaction itself have no numbers yet
    files = (dataclasses.replace(later, row_id_start=40), dataclasses.replace(earlier, row_id_start=3), *own)
    version = delete_rows(lake_path, dataclasses.replace(version, files=files), f0=[1])
    plain = scan(version, position=position)
    numbered = dataclasses.replace(plain, scan=dataclasses.replace(plain.scan, needs_number=True))
    result = await reader.table("SELECT * FROM t ORDER BY c1", numbered)
    assert result["_number"].to_pylist() == [40, 42, 3, 4, 2**46, 2**46 + 1]
    assert result.schema.names == ["c1", *(["_file", "_position"] if position else []), "_number"]


async def test_small_files_beside_a_large_one(reader: Reader, lake_path: Path) -> None:
    of = table(a=datatypes.INT4, ti=datatypes.TIME)
    large = pa.table({"a": np.arange(5000, dtype=np.int32), "ti": pa.array([0] * 5000, pa.time64("us"))})
    small = [rows(of, (number, 86_400_000_000), (number, None)) for number in range(5000, 5010)]
    version = delete_rows(lake_path, write(lake_path, of, large, *small), f0=[7], f1=[0, 1], f2=[1])
    bound = scan(version, position=True)
    numbered = dataclasses.replace(bound, scan=dataclasses.replace(bound.scan, needs_number=True))
    for each in (bound, numbered):
        result = await reader.table("SELECT * FROM t ORDER BY c1, _position", each)
        expected = [n for n in range(5000) if n != 7] + [5001] + [n for n in range(5002, 5010) for _ in range(2)]
        assert result["c1"].to_pylist() == expected
        assert result["_position"].to_pylist()[4998:5004] == [4999, 0, 0, 1, 0, 1]
        assert result["_file"].to_pylist()[4999] == version.files[2].path
        assert result["c2"].cast(pa.int64()).to_pylist()[5000:5002] == [86_400_000_000_000, None]
        assert result["c2"].null_count == 8


async def test_files_all_of_whose_rows_are_deleted_are_not_read(reader: Reader, lake_path: Path) -> None:
    of = table(a=datatypes.INT4)
    version = delete_rows(lake_path, write(lake_path, of, rows(of, (1,), (2,)), rows(of, (3,))), f0=[0, 1])
    (lake_path / of.path / version.files[0].path).unlink()
    assert await reader.column("SELECT c1 FROM t", scan(version)) == [3]


@pytest.mark.parametrize("position", [False, True])
async def test_a_table_without_files_is_empty(reader: Reader, position: bool) -> None:
    of = table(a=datatypes.INT4, iv=datatypes.INTERVAL)
    result = await reader.table("SELECT * FROM t", scan(TableVersion(of, 1, ()), position=position))
    assert result.num_rows == 0
    assert result.schema.names == ["c1", "c2", *(["_file", "_position"] if position else [])]


async def test_files_that_cannot_matter_are_not_read(reader: Reader, lake_path: Path) -> None:
    of = table(a=datatypes.INT4)
    version = write(lake_path, of, rows(of, (1,)), rows(of, (2,)))
    (lake_path / of.path / version.files[0].path).unlink()
    assert await reader.column("SELECT c1 FROM t WHERE c1 > 1", scan(version, Comparison(1, ">", (1,)))) == [2]


async def test_one_query_may_scan_a_table_twice(reader: Reader, lake_path: Path) -> None:
    of = table(a=datatypes.INT4)
    version = write(lake_path, of, rows(of, (1,), (2,)))
    sql = "WITH q AS (SELECT c1 FROM `a table`) SELECT count(*) FROM q JOIN u ON q.c1 < u.c1"
    assert await reader.column(sql, scan(version, name="a table"), scan(version, name="u")) == [1]


async def test_views_of_a_version_are_kept_and_bounded(engine: SparkEngine, reader: Reader, lake_path: Path) -> None:
    await reader.column("SELECT 1")
    views = engine._started().views
    of = table(a=datatypes.INT4)
    version = write(lake_path, of, rows(of, (1,)), rows(of, (2,)))
    await reader.column("SELECT c1 FROM t", scan(version))
    known = len(views._views)
    await reader.column("SELECT max(c1) FROM t", scan(dataclasses.replace(version, snapshot_id=9)))
    assert len(views._views) == known
    before, views._views_max = views._views_max, 2
    try:
        for number in range(4):
            other = table(a=datatypes.INT4)
            assert await reader.column("SELECT c1 FROM t", scan(write(lake_path, other, rows(other, (number,))))) == [
                number
            ]
        assert len(views._views) == 2
        assert await reader.column("SELECT count(*) FROM t", scan(version)) == [2]
    finally:
        views._views_max = before


@pytest.mark.turns
@pytest.mark.parametrize(
    ("damage", "sqlstate", "message"),
    [
        (lambda path: path.unlink(), "58030", "No such file or directory"),
        (lambda path: path.write_bytes(b"PAR1 this is not Parquet PAR1"), "XX001", "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "XX001", "cannot be read"),
        (lambda path: path.write_bytes(b"PAR1" + bytes(200) + path.read_bytes()[204:]), "XX001", "cannot be read"),
    ],
    ids=["missing", "not parquet", "cut off", "overwritten"],
)
async def test_a_damaged_file_is_named(
    reader: Reader, lake_path: Path, damage: Callable[[Path], object], sqlstate: str, message: str
) -> None:
    of = table(a=datatypes.TEXT)
    # A small file, but too many bytes for its writer to keep the rows.
    version = write(lake_path, of, rows(of, *((str(n) * 40,) for n in range(999))))
    file: DataFile = version.files[0]
    assert is_small(file)
    damage(lake_path / of.path / file.path)
    with pytest.raises(SluiceError) as caught:
        await reader.column("SELECT c1 FROM t", scan(version))
    assert caught.value.sqlstate == sqlstate, (caught.value.message, caught.value.fields)
    assert message in caught.value.message
    assert layout.join(of.path, file.path) in caught.value.message
