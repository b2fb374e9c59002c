"""Rows as files store them: which rows, in which order, and how much memory they take at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.errors import SluiceError
from catalog.model import Column, DataFile, TableVersion
from storage.parquet.bounded_file import BATCH_BYTES
from storage.parquet.files import LakeFiles
from storage.parquet.positions import DeletedPositions
from storage.parquet.stored_rows import BATCH_ROWS_MAX, StoredRows
from storage.parquet.table_rows import live_rows
from storage.plan import Comparison, RunnableStored, StoredPart
from tests.storage.lake import rows, table, write

_MANY = 150_000


def _without(data_path: Path, version: TableVersion, number: int, *positions: int) -> TableVersion:
    """The version without rows of one of its files."""
    deleted = DeletedPositions(version)
    file = version.files[number]
    deleted.mark(file.path, pa.array(positions, pa.int64()).to_numpy())
    found = deleted.write(LakeFiles(str(data_path)))
    files = [replace(each, delete_file=found.get(each.path, each.delete_file)) for each in version.files]
    return replace(version, files=tuple(files))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TableVersion]:
    """Three files: one large, one of few rows, one that has lost all of its rows; the large one has lost some."""
    lake_path = tmp_path_factory.mktemp("lake")
    of = table(i=23, t=25, n=1700)
    large = rows(of, *((n, f"text {n % 7}" if n % 5 else None, str(n / 8)) for n in range(_MANY)))
    few = rows(of, (-1, "few", None), (-2, None, "1.50"))
    gone = rows(of, (-3, "gone", None))
    version = write(lake_path, of, large, few, gone)
    version = _without(lake_path, version, 0, 0, 1, 70_000, _MANY - 1)
    return lake_path, _without(lake_path, version, 2, 0)


def _read(lake_path: Path, version: TableVersion, *places: int, offset: int = 0, limit: int | None = None) -> pa.Table:
    columns = [version.table.columns[place] for place in places]
    found = StoredRows(str(lake_path), replace(_every(version, *columns), offset=offset, limit=limit))
    return pa.Table.from_batches(found, found.schema)


def _every(version: TableVersion, *columns: Column) -> RunnableStored:
    """All rows, with these columns or all."""
    return RunnableStored(version.table, columns or version.table.columns, tuple(map(StoredPart, version.files)))


def test_all_live_rows_in_order(many: tuple[Path, TableVersion]) -> None:
    lake_path, version = many
    wanted = pa.Table.from_batches(live_rows(str(lake_path), version))
    found = _read(lake_path, version, 2, 0, 1, 0)
    assert found.num_rows == _MANY - 4 + 2
    for place, name in enumerate(("n", "i", "t", "i")):
        assert found.column(place).combine_chunks() == wanted.column(name).combine_chunks()


@pytest.mark.parametrize("offset", [0, 1, 69_999, _MANY - 5, _MANY - 4, _MANY - 3, _MANY])
@pytest.mark.parametrize("limit", [0, 1, 3, 100_000, None])
def test_offset_and_limit_count_live_rows(many: tuple[Path, TableVersion], offset: int, limit: int | None) -> None:
    lake_path, version = many
    every = _read(lake_path, version, 0)
    found = _read(lake_path, version, 0, offset=offset, limit=limit)
    assert found.column(0).to_pylist() == every.slice(offset, limit).column(0).to_pylist()


def test_conditions_choose_rows_before_they_are_counted(many: tuple[Path, TableVersion]) -> None:
    lake_path, version = many
    texts = Comparison(2, "=", ("text 3",)), Comparison(1, ">", (70_000,))
    stored = replace(_every(version, version.table.columns[0]), conditions=texts, offset=1, limit=70)
    batches = list(StoredRows(str(lake_path), stored))
    found = pa.Table.from_batches(batches).column(0).to_pylist()
    assert found == [n for n in range(70_001, _MANY - 1) if n % 7 == 3 and n % 5][1:71]
    assert not batches[0].num_rows  # so that a reader can be cancelled
    none = replace(stored, conditions=(Comparison(2, "=", ("none",)),), offset=0, limit=None)
    assert sum(batch.num_rows for batch in StoredRows(str(lake_path), none)) == 0


def test_positions_and_given_rows(many: tuple[Path, TableVersion]) -> None:
    lake_path, version = many
    large, few, gone = version.files
    parts = (
        StoredPart(large, np.array([1, 2, 70_000, 140_000])),
        StoredPart(few, np.array([1])),
        StoredPart(gone, np.array([0])),
    )
    stored = replace(_every(version, version.table.columns[0]), parts=parts)
    assert pa.Table.from_batches(StoredRows(str(lake_path), stored)).column(0).to_pylist() == [2, 140_000, -2]
    nulls = replace(stored, conditions=(Comparison(2, "is null"),))
    assert pa.Table.from_batches(StoredRows(str(lake_path), nulls)).column(0).to_pylist() == [140_000, -2]
    given = rows(version.table, (5, "a", None), (6, None, None), (7, "b", None))
    handed = replace(stored, parts=(), rows=given, conditions=(Comparison(2, "is not null"),), offset=1)
    assert pa.Table.from_batches(StoredRows(str(lake_path), handed)).column(0).to_pylist() == [7]


def test_counts(many: tuple[Path, TableVersion]) -> None:
    lake_path, version = many
    counted = replace(_every(version, version.table.columns[0]), columns=(), counts=2)

    def counts(stored: RunnableStored) -> list[list[int]]:
        batches = list(StoredRows(str(lake_path), stored))
        assert all(not batch.num_rows for batch in batches[:-1])
        return [column.to_pylist() for column in batches[-1].columns]

    assert counts(counted) == [[_MANY - 4 + 2]] * 2
    chosen = Comparison(2, "=", ("text 3",)), Comparison(1, ">", (70_000,))
    expected = len([n for n in range(70_001, _MANY - 1) if n % 7 == 3 and n % 5])
    assert counts(replace(counted, conditions=chosen)) == [[expected]] * 2
    assert counts(replace(counted, parts=())) == [[0]] * 2
    given = rows(version.table, (5, "a", None), (6, None, None), (7, "b", None))
    handed = replace(counted, parts=(), rows=given, conditions=(Comparison(2, "is not null"),), counts=1)
    assert counts(handed) == [[2]]
    # Without conditions no file is read.
    files = replace(version.files[0], path="gone.parquet"), *version.files[1:]
    assert counts(replace(counted, parts=tuple(map(StoredPart, files)))) == [[_MANY - 4 + 2]] * 2


def test_columns_that_files_lack(many: tuple[Path, TableVersion]) -> None:
    lake_path, version = many
    added = (
        Column(4, 14, "k", 23, -1, True, initial_default="5"),
        Column(5, 15, "w", 25, -1, True),
    )
    later = replace(version, table=replace(version.table, columns=(*version.table.columns, *added)))
    found = _read(lake_path, later, 4, 3, 0)
    assert set(found.column(0).to_pylist()) == {None}
    assert set(found.column(1).to_pylist()) == {5}
    assert found.column(2) == _read(lake_path, version, 0).column(0)
    only_new = _read(lake_path, later, 3, limit=_MANY)
    assert only_new.num_rows == _MANY - 2


def test_a_refusal_comes_before_the_first_row(many: tuple[Path, TableVersion]) -> None:
    lake_path, version = many
    beyond = Column(4, 14, "k", 1114, -1, True, initial_default="294276-12-31 23:59:59.999999")
    later = replace(version, table=replace(version.table, columns=(*version.table.columns, beyond)))
    with pytest.raises(SluiceError, match="initial default"):
        _read(lake_path, later, 0, 3)


def _foreign(lake_path: Path, version: TableVersion, found: pa.Table) -> TableVersion:
    """The version with one file that another program wrote, in one row group."""
    path = f"{version.table.path}other.parquet"
    (lake_path / path).parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema(
        [
            pa.field(column.name, found.schema.field(place).type, metadata={"PARQUET:field_id": str(column.column_id)})
            for place, column in enumerate(version.table.columns)
        ]
    )
    # Beyond this limit pyarrow gives dictionaries up, but only after each thousand rows.
    pq.write_table(found.cast(schema), lake_path / path, row_group_size=1 << 21, compression="zstd")
    size = (lake_path / path).stat().st_size
    return replace(version, files=(DataFile("other.parquet", found.num_rows, size, 0),))


@pytest.mark.parametrize("wide", [1_000_000, 5_000])
def test_values_that_a_dictionary_repeats_do_not_fill_memory(lake_path: Path, wide: int) -> None:
    """The rows would take gigabytes, the file takes kilobytes."""
    count = 10_000_000_000 // wide
    of = table(i=23, t=25, b=17)
    words = pa.array(["a" * wide, "b" * wide, "short"])
    chosen = pa.array([0, 2, None, 2, 1], pa.int32()).take(pa.array([n % 5 for n in range(count)]))
    repeated = pa.DictionaryArray.from_arrays(chosen, words)
    found = pa.table({"i": pa.array(range(count), pa.int32()), "t": repeated, "b": repeated.cast(
        pa.dictionary(pa.int32(), pa.binary()))})  # fmt: skip
    version = _foreign(lake_path, write(lake_path, of), found)
    assert version.files[0].size_bytes < 10_000_000
    del found
    before, read = pa.total_allocated_bytes(), 0
    for batch in StoredRows(str(lake_path), _every(version)):
        assert batch.num_rows == 1 or batch.nbytes <= 2 * BATCH_BYTES
        assert pa.total_allocated_bytes() - before < 100 * 2**20
        wanted = [("a" * wide, "short", None, "short", "b" * wide)[n % 5] for n in range(read, read + batch.num_rows)]
        assert batch.column(1).to_pylist() == wanted
        read += batch.num_rows
        if read > 40:
            return
    pytest.fail("the rows ended early")


def test_batches_are_bounded(many: tuple[Path, TableVersion], lake_path: Path) -> None:
    folder, version = many
    sizes = [batch.num_rows for batch in StoredRows(str(folder), _every(version))]
    assert max(sizes) <= BATCH_ROWS_MAX
    of = table(t=25)
    plain = write(lake_path, of, rows(of, *((str(n) * 2_000,) for n in range(6_000))))
    for batch in StoredRows(str(lake_path), _every(plain)):
        assert batch.nbytes <= 2 * BATCH_BYTES
