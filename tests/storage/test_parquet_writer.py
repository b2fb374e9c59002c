"""DuckDB reads the files that pyarrow writes, and a failure leaves none."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import datatypes
from catalog.errors import SluiceError
from catalog.model import TableVersion
from storage.parquet.parquet_writer import ROW_GROUP_ROWS, ParquetWriter
from tests.storage.lake import NUMERIC_10_2, Witness, rows, table


def test_duckdb_reads_every_type_as_it_was_written(tmp_path: Path) -> None:
    of = table(
        b=16, i2=21, i4=23, i8=20, f4=700, f8=701, d=NUMERIC_10_2, s=25, bl=17, dt=1082, ti=1083, ts=1114, tz=1184,
        u=2950, j=114, iv=1186, li=1007, n=1700,
    )  # fmt: skip
    interval = {"months": 1, "days": -2, "microseconds": 3}
    uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    written = rows(
        of,
        (True, -(2**15), -(2**31), -(2**63), 0.1, 5e-324, Decimal("-99999999.99"), "é\n", b"\0", -(2**31) + 1, 0,
         -(2**63) + 1, -1, uuid, "[1]", interval, [1, None], "NaN"),
        (False, 2**15 - 1, 2**31 - 1, 2**63 - 1, math.inf, -math.inf, Decimal("0.01"), "", b"", 2**31 - 1,
         86_400_000_000, 2**63 - 1, 1, None, None, None, [], "1e5"),
        (None,) * 18,
    )  # fmt: skip
    writer = ParquetWriter(str(tmp_path), of)
    writer.write(written)
    duck = Witness(tmp_path, TableVersion(of, 1, writer.finish()))
    texts = duck.rows("SELECT COLUMNS(*)::VARCHAR FROM {table}")
    duck.close()
    assert texts == [
        ("true", "-32768", "-2147483648", "-9223372036854775808", "0.1", "5e-324", "-99999999.99", "é\n", "\\x00",
         "-infinity", "00:00:00", "-infinity", "1969-12-31 23:59:59.999999+00", uuid, "[1]",
         "{'months': 1, 'days': -2, 'microseconds': 3}", "[1, NULL]", "NaN"),
        ("false", "32767", "2147483647", "9223372036854775807", "inf", "-inf", "0.01", "", "", "infinity", "24:00:00",
         "infinity", "1970-01-01 00:00:00.000001+00", None, None, None, "[]", "1e5"),
        (None,) * 18,
    ]  # fmt: skip


def test_rows_are_shared_out_among_row_groups_and_files(tmp_path: Path) -> None:
    of = table(a=datatypes.INT8)
    writer = ParquetWriter(str(tmp_path), of, file_bytes=1_000_000)
    for start in range(0, 1_000_000, 50_000):
        writer.write(pa.table({"a": pa.array(range(start, start + 50_000), pa.int64())}))
    files = writer.finish()
    assert len(files) > 1
    read = [pq.ParquetFile(tmp_path / of.path / file.path) for file in files]
    assert [each.metadata.num_rows for each in read] == [file.record_count for file in files]
    assert [each.metadata.row_group(0).num_rows for each in read] == [ROW_GROUP_ROWS] * len(files)
    assert pa.concat_tables([each.read() for each in read]).column("a").to_pylist() == list(range(1_000_000))
    assert [file.statistics[1].minimum for file in files] == ["0", "360448", "720896"]


def test_many_rows_at_once_become_several_row_groups(tmp_path: Path) -> None:
    of = table(a=datatypes.INT8)
    writer = ParquetWriter(str(tmp_path), of)
    writer.write(pa.table({"a": pa.array(range(2 * ROW_GROUP_ROWS + 7), pa.int64())}))
    writer.write(pa.table({"a": pa.array(range(5), pa.int64())}))
    (file,) = writer.finish()
    metadata = pq.ParquetFile(tmp_path / of.path / file.path).metadata
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert groups == [ROW_GROUP_ROWS, ROW_GROUP_ROWS, 12]
    assert file.record_count == sum(groups)


def test_the_catalog_is_told_the_size_of_file_and_footer(tmp_path: Path) -> None:
    of = table(a=datatypes.INT8)
    writer = ParquetWriter(str(tmp_path), of)
    writer.write(rows(of, (1,)))
    (file,) = writer.finish()
    content = (tmp_path / of.path / file.path).read_bytes()
    assert file.size_bytes == len(content)
    assert content[-4:] == b"PAR1"
    assert file.footer_size == int.from_bytes(content[-8:-4], "little")


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    of = table(a=datatypes.INT8)
    writer = ParquetWriter(str(tmp_path), of)
    writer.write(rows(of, (1,)).slice(0, 0))
    assert writer.finish() == ()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_abort_removes_what_was_written(tmp_path: Path) -> None:
    of = table(a=datatypes.INT8)
    writer = ParquetWriter(str(tmp_path), of, file_bytes=1)
    for _ in range(3):
        writer.write(pa.table({"a": pa.array(range(ROW_GROUP_ROWS), pa.int64())}))
    assert len(list(tmp_path.rglob("*.parquet"))) == 3
    writer.abort()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    writer = ParquetWriter(str(tmp_path), table(a=datatypes.INT8))
    with pytest.raises(SluiceError, match='column "a" came as int32, but is stored as int64') as caught:
        writer.write(pa.table({"a": pa.array([1], pa.int32())}))
    assert caught.value.sqlstate == "XX000"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if made.returncode != 0:
        pytest.skip("only root may make a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(small_disk: Path) -> None:
    of = table(a=datatypes.BYTEA)
    writer = ParquetWriter(str(small_disk), of)
    writer.write(rows(of, (os.urandom(2**20),)))
    with pytest.raises(SluiceError, match="No space left on device") as caught:
        writer.finish()
    assert caught.value.sqlstate == "53100"
    writer.abort()
    assert list(small_disk.rglob("*.parquet")) == []


def test_a_disk_that_is_full_before_the_first_byte(small_disk: Path) -> None:
    """Not even the beginning of a file has room."""
    of = table(a=datatypes.INT4)
    writer = ParquetWriter(str(small_disk), of)
    with (small_disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    writer.write(rows(of, (1,)))
    with pytest.raises(SluiceError, match="No space left on device") as caught:
        writer.finish()
    assert caught.value.sqlstate == "53100"
    writer.abort()
    assert list(small_disk.rglob("*.parquet")) == []
