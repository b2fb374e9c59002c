"""Keys in files: equality, and the places of rows with given keys."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import datatypes
from catalog.model import Column
from storage.indexes import keys
from storage.indexes.keys import LiveFile, bounds_of, distinct, duplicate, find, key_chunks, keys_of
from storage.parquet import file_rows
from storage.parquet.arrow_types import arrow_type
from storage.parquet.file_rows import read_positions
from storage.spark.write import replace_rows
from tests.storage.lake import NUMERIC_10_2, rows, table, write


def _column(type_oid: int, typmod: int = -1) -> Column:
    return Column(1, 1, "c", type_oid, typmod, True)


def _keys(type_oid: int, values: list[Any], typmod: int = -1) -> list[bytes | None]:
    column = _column(type_oid, typmod)
    found: list[bytes | None] = keys_of([column], [pa.array(values, arrow_type(column.form))]).to_pylist()
    return found


@pytest.mark.parametrize(
    ("type_oid", "equal"),
    [
        (datatypes.NUMERIC, ["1", "1.0", "1.000"]),
        (datatypes.NUMERIC, ["0", "0.00", "0.0000000000"]),
        (datatypes.NUMERIC, ["100", "100.0"]),
        (datatypes.BPCHAR, ["x", "x ", "x   "]),
        (datatypes.FLOAT8, [0.0, -0.0]),
        (datatypes.FLOAT4, [0.0, -0.0]),
        (datatypes.FLOAT8, [float("nan"), -float("nan")]),
    ],
)
def test_equal(type_oid: int, equal: list[Any]) -> None:
    assert len(set(_keys(type_oid, equal))) == 1


@pytest.mark.parametrize(
    ("type_oid", "values"),
    [
        (datatypes.NUMERIC, ["1", "10", "100", "0.1", "0.01", "NaN", "Infinity", "-Infinity", "-1", "0"]),
        (datatypes.TEXT, ["", " ", "x", "x ", "X"]),
        (datatypes.BYTEA, [b"", b"\0", b"\0\0"]),
        (datatypes.FLOAT8, [0.1, 0.1 + 2**-55, 1e300, float("inf"), float("nan")]),
        (datatypes.BOOL, [True, False]),
        (datatypes.INT8, [0, 1, -1, 2**63 - 1, -(2**63)]),
    ],
)
def test_different(type_oid: int, values: list[Any]) -> None:
    found = _keys(type_oid, [*values, None])
    assert len(set(found)) == len(values) + 1
    assert found[-1] is None


@given(st.integers(-(10**8) + 1, 10**8 - 1), st.integers(0, 4))
def test_decimals_and_integers_are_of_one_class(value: int, more: int) -> None:
    """A foreign key may refer from an integer to a decimal, and from one scale to another."""
    typmod = ((12 + more) << 16 | more) + 4
    assert _keys(datatypes.NUMERIC, [Decimal(value)], typmod) == _keys(datatypes.INT8, [value])
    tiny = Decimal(value).scaleb(-10)
    scaled = [_keys(datatypes.NUMERIC, [tiny], ((30 << 16) | scale) + 4) for scale in (10, 11, 19)]
    assert scaled[0] == scaled[1] == scaled[2]


def test_several_columns_do_not_run_together() -> None:
    columns = [Column(n, n, f"c{n}", datatypes.TEXT, -1, True) for n in (1, 2)]
    pairs = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("1:a", ""), ("1", ":a"), (None, ""), ("", None)]
    arrays = [pa.array([pair[place] for pair in pairs], pa.string()) for place in (0, 1)]
    found = keys_of(columns, arrays).to_pylist()
    assert found[-2:] == [None, None]
    assert len(set(found[:-2])) == len(pairs) - 2
    with_nulls = keys_of(columns, arrays, nulls_distinct=False).to_pylist()
    assert None not in with_nulls
    assert len(set(with_nulls)) == len(pairs)


def _live(version: Any) -> list[LiveFile]:
    return [LiveFile.of(file) for file in version.files]


@pytest.fixture(params=["small", "large"])
def _size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large files, what is read is another thing that is kept."""
    if request.param == "large":
        for reader in (keys, file_rows):
            monkeypatch.setattr(reader, "is_small", lambda _: False)


@pytest.mark.usefixtures("_size")
@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    """Deleted rows are not found, and files whose statistics exclude the keys are not opened."""
    monkeypatch.setattr(file_rows, "_BATCH_ROWS", batch)
    of = table(id=datatypes.INT4, name=datatypes.TEXT)
    version = write(
        tmp_path, of, rows(of, (1, "a"), (2, "b"), (2, "c")), rows(of, (2, "d"), (4, "e")), rows(of, (9, "f"))
    )
    written = replace_rows(str(tmp_path), version, {version.files[0].path: np.array([1])})
    [delete_file] = written.delete_files.values()
    live = [LiveFile(version.files[0], (delete_file,)), *_live(version)[1:]]
    (tmp_path / of.path / version.files[2].path).unlink()
    columns = [of.column(1)]
    values = pa.array([2, 4, 5], pa.int32())
    wanted = keys_of(columns, [values])
    found = find(str(tmp_path), of, columns, live, wanted, bounds_of(columns, columns, [values]))
    places = zip((found.files[n].file.path for n in found.file_numbers), found.positions, found.wanted, strict=True)
    first, second = version.files[0].path, version.files[1].path
    assert sorted(places) == sorted([(first, 2, 0), (second, 0, 0), (second, 1, 1)])


@pytest.mark.usefixtures("_size")
@pytest.mark.parametrize("chunk", [1, 2, 1000])
@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ([[3, 4], [5, None, None]], None),
        ([[3, 4], [5, 4]], 4),
        ([[3, 3]], 3),
        ([[7, 1, 2]], 1),
        ([[None]], None),
    ],
)
def test_duplicate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: list[list[int]], expected: int | None, chunk: int
) -> None:
    monkeypatch.setattr(keys, "_CHUNK_ROWS", chunk)
    of = table(id=datatypes.INT4)
    others = _live(write(tmp_path, of, rows(of, (1,), (2,))))
    mine = _live(write(tmp_path, of, *(rows(of, *((value,) for value in batch)) for batch in new)))
    columns = [of.column(1)]
    chunks = key_chunks(str(tmp_path), of, mine, columns, nulls_distinct=True)
    found = duplicate(str(tmp_path), of, columns, chunks, mine, others, nulls_distinct=True)
    assert (None if found is None else found.columns.column(0)[0].as_py()) == expected
    if found is not None and expected == 1:
        assert found.file is not None
        assert (found.file.path, found.position) == (others[0].file.path, 0)


def test_distinct() -> None:
    values, places = distinct(pa.array([b"x", b"y", b"x", b"z"]))
    assert values.to_pylist() == [b"x", b"y", b"z"]
    assert places.tolist() == [0, 1, 3]


def test_columns_that_a_file_lacks(tmp_path: Path) -> None:
    """They have their initial default, or NULL, in lake form."""
    of = table(id=datatypes.INT4)
    version = write(tmp_path, of, rows(of, (1,), (2,), (3,)))
    added = [
        Column(2, 90, "n", datatypes.NUMERIC, NUMERIC_10_2[1], True, "1.50"),
        Column(3, 91, "b", datatypes.BYTEA, -1, True, "\\x00ff"),
        Column(4, 92, "l", datatypes.BOOL, -1, True, "t"),
        Column(5, 93, "d", datatypes.DATE, -1, True, "2024-02-29"),
        Column(6, 94, "t", datatypes.TIMESTAMPTZ, -1, True, "2024-02-29 12:00:00+00"),
        Column(7, 95, "x", datatypes.TEXT, -1, True, None),
        Column(8, 96, "c", datatypes.TIME, -1, True, "23:59:59.5"),
        Column(9, 97, "e", datatypes.DATE, -1, True, "infinity"),
        Column(10, 98, "z", datatypes.TIMESTAMPTZ, -1, True, "0001-01-01 00:00:00+00 BC"),
    ]
    found = read_positions(str(tmp_path), of, version.files[0], [of.column(1), *added], np.array([0, 2]))
    assert found.column("id").to_pylist() == [1, 3]
    assert found.column("n").to_pylist() == [Decimal("1.50")] * 2
    assert found.column("b").to_pylist() == [b"\0\xff"] * 2
    assert found.column("l").to_pylist() == [True] * 2
    assert [str(value) for value in found.column("d").to_pylist()] == ["2024-02-29"] * 2
    assert [value.isoformat() for value in found.column("t").to_pylist()] == ["2024-02-29T12:00:00+00:00"] * 2
    assert found.column("x").to_pylist() == [None] * 2
    assert found.column("c").cast(pa.int64()).to_pylist() == [86_399_500_000] * 2
    assert found.column("e").cast(pa.int32()).to_pylist() == [2**31 - 1] * 2
    assert found.column("z").cast(pa.int64()).to_pylist() == [-62_167_219_200_000_000] * 2
