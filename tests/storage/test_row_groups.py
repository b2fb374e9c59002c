"""Row groups in which no row can matter are not read, and no others are skipped."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from catalog import datatypes
from catalog.errors import SluiceError
from catalog.model import Column, DataFile, Table, TableVersion
from storage.parquet.files import LakeFiles
from storage.plan import RunnableInsert, RunnableQuery
from storage.spark.engine import SparkEngine
from storage.spark.read_names import ReadNames, read_names
from tests.storage.conftest import Reader
from tests.storage.lake import NUMERIC_10_2, query, rows, scan, table, write
from tests.storage.test_scan import delete_rows

_GROUP: int = 4
_DAY = 86_400_000_000
# Days and microseconds that calendars disagree on, that Java's older classes cannot hold, and those of an endless time.
_DAYS = [-(2**31) + 1, -800_000, -141_437, -141_432, -141_430, -141_428, -141_427, -1, 0, 1, 20_000, 2**31 - 1]
_TIMES = [-(2**63) + 1, -_DAY * 141_431, -_DAY * 141_428 - 1, -1, 0, 1, 1_700_000_000_123_456, 2**63 - 1]
_VALUES: dict[Any, list[Any]] = {
    datatypes.BOOL: [False, True],
    datatypes.INT2: [-(2**15), -1, 0, 1, 2**15 - 1],
    datatypes.INT4: [-(2**31), -1, 0, 1, 2**31 - 1],
    datatypes.INT8: [-(2**63), -(2**31) - 1, 0, 2**31, 2**32 + 5, 2**63 - 1],
    datatypes.FLOAT4: [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan],
    datatypes.FLOAT8: [-math.inf, -5e-324, -0.0, 0.0, 5e-324, math.inf, math.nan],
    NUMERIC_10_2: [Decimal(f"{n}") for n in ("-99999999.99", "-0.01", "0.00", "0.01", "42949672.96", "99999999.99")],
    (datatypes.NUMERIC, (6 << 16 | 2) + 4): [Decimal(n) for n in ("-9999.99", "-0.01", "0.00", "9999.99")],
    (datatypes.NUMERIC, (38 << 16 | 2) + 4): [Decimal(n) for n in ("-1e35", "-0.01", "0.00", "184467440737095516.16")],
    datatypes.NUMERIC: ["-1", "0", "0.0", "1e5", "NaN", "Infinity"],
    datatypes.TEXT: ["", "A", "a", "a\x01b", "ab", "z", "é", "\uffff", "\U0010ffff", "z" * 6000],
    datatypes.BPCHAR: ["a  ", "a", "b"],
    datatypes.UUID: ["00000000-0000-0000-0000-000000000000", "7fffffff-0000-0000-0000-000000000000", "f" * 8],
    datatypes.JSON: ["[1]", "{}"],
    datatypes.BYTEA: [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff" * 5000],
    datatypes.DATE: _DAYS,
    datatypes.TIME: [0, 1, 43_200_000_000, 86_400_000_000],
    datatypes.TIMESTAMP: _TIMES,
    datatypes.TIMESTAMPTZ: _TIMES,
    20_000: ["later", "before"],  # an enumeration's labels
    datatypes.INTERVAL: [{"months": n, "days": -n, "microseconds": n} for n in (-1, 0, 1)],
    1007: [[], [1], [None]],
}


_COMPARED = {kind: values for kind, values in _VALUES.items() if kind not in (datatypes.INTERVAL, 1007, datatypes.TIME)}
_oids = itertools.count(100_000)
Switch = Callable[[bool], None]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups have few rows, and Spark reads every file."""
    for module in ("storage.parquet.parquet_writer", "storage.spark.read_names", "storage.spark.write"):
        monkeypatch.setattr(f"{module}.ROW_GROUP_ROWS", _GROUP)
    monkeypatch.setattr("storage.spark.scan._HANDED_BYTES_MAX", -1)


@pytest.fixture
def skipping(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switch it on or off. A table gets a view of its own by `other`."""

    def switch(on: bool) -> None:
        monkeypatch.setattr("storage.spark.read_names._NAMINGS_MAX", 8 if on else 0)

    return switch


def other(version: TableVersion) -> TableVersion:
    """The same rows, without a view."""
    return dataclasses.replace(version, table=dataclasses.replace(version.table, oid=next(_oids)))


def literal(kind: Any, value: Any) -> str:
    """The value as Spark SQL."""
    oid = kind[0] if isinstance(kind, tuple) else kind
    if oid == datatypes.DATE:
        return f"date_from_unix_date({value})"
    if oid == datatypes.TIMESTAMPTZ:
        return f"timestamp_micros({value}L)" if value > -(2**63) else "timestamp_micros(-9223372036854775807L - 1)"
    if oid == datatypes.TIMESTAMP:
        return f"cast(timestamp_micros({value}L) AS TIMESTAMP_NTZ)"
    if oid == datatypes.TIME:
        return f"cast('00:00:00' AS TIME(6)) + make_dt_interval(0, 0, 0, {value / 1e6})"
    if oid in (datatypes.FLOAT4, datatypes.FLOAT8):
        return f"cast('{value!r}' AS {'FLOAT' if oid == datatypes.FLOAT4 else 'DOUBLE'})"
    if oid == datatypes.INT8:
        return f"cast('{value}' AS BIGINT)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, Decimal):
        return f"cast('{value}' AS {of_kind(kind).columns[1].form.spark})"
    return str(value).lower()


def of_kind(kind: Any) -> Table:
    return table(k=datatypes.INT4, v=kind)


def conditions(kind: Any, values: list[Any]) -> Iterator[str]:
    """Conditions on c2, of every kind that Spark hands to Parquet."""
    given = [literal(kind, value) for value in values]
    for each, operators in zip(given, itertools.cycle(["= < >=", "= <= >", "<> < >=", "<=> <= >"])):
        for operator in operators.split():
            yield f"c2 {operator} {each}"
    yield "c2 IS NULL"
    yield "c2 IS NOT NULL"
    yield f"c2 IN ({given[0]}, {given[-1]})"
    yield f"c2 NOT IN ({given[0]}, {given[-1]})"
    yield f"c2 IN ({', '.join(given)}, {given[0]})"
    yield f"NOT (c2 = {given[0]} OR c2 > {given[-1]})"
    yield f"c2 > {given[0]} AND c2 < {given[-1]} OR c2 IS NULL"
    if isinstance(values[0], str):
        for text in ("a", "z", "\uffff"):
            yield f"startswith(c2, '{text}')"
            yield f"NOT startswith(c2, '{text}')"
            yield f"endswith(c2, '{text}')"
            yield f"contains(c2, '{text}')"


@pytest.mark.turns
@pytest.mark.parametrize("kind", list(_COMPARED), ids=str)
async def test_every_type_gives_the_same_rows(
    reader: Reader, engine: SparkEngine, lake_path: Path, skipping: Switch, kind: Any
) -> None:
    """Groups of one value each, and groups of all of them, in both orders, in files of both writers."""
    values = _COMPARED[kind]
    of = of_kind(kind)
    apart = [value for value in values for _ in range(_GROUP)] + [None] * _GROUP
    here = write(lake_path, of, rows(of, *enumerate([*apart, *values, *reversed(values)])))
    again = query("SELECT c1 + 1000, c2 FROM t ORDER BY c1", scan(here))
    version = TableVersion(of, 2, (*here.files, *await by_spark(engine, of, again)))
    asked = [f"SELECT '{n}' AS n, c1 FROM t WHERE {each}" for n, each in enumerate(conditions(kind, values))]
    sql = " UNION ALL ".join(asked)
    answers = []
    for on in (True, False):
        skipping(on)
        found = await reader.table(sql, scan(other(version)))
        answers.append(sorted(zip(found["n"].to_pylist(), found["c1"].to_pylist(), strict=True)))
    assert answers[0] == answers[1]
    assert answers[0]


async def by_spark(engine: SparkEngine, of: Table, source: RunnableQuery) -> tuple[DataFile, ...]:
    """The rows as files that tasks of Spark's have written."""
    before = engine._settings
    engine._settings = dataclasses.replace(before, spark_writes_from=0)
    try:
        result = await engine.insert(RunnableInsert(source, of), "written")
    finally:
        engine._settings = before
    return result.data_files


def spoil(lake_path: Path, version: TableVersion, *kept: int) -> TableVersion:
    """Overwrite all row groups of the first file but these. Its size and its footer stay."""
    path = lake_path / version.table.path / version.files[0].path
    footer = pq.read_metadata(path)
    content = bytearray(path.read_bytes())
    for number in set(range(footer.num_row_groups)) - set(kept):
        for place in range(footer.num_columns):
            chunk = footer.row_group(number).column(place)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(content)
    return version


_SKIPPED = {
    datatypes.INT2: ("c2 = 2", "c2 >= 2 AND c2 < 3"),
    datatypes.INT4: ("c2 = 2", "c2 IN (2)", "c2 > 1 AND c2 <= 2"),
    datatypes.INT8: ("c2 = 2", "c2 > 1 AND c2 <= 2"),
    NUMERIC_10_2: ("c2 = 2", "c2 > 1.5 AND c2 < 2.5"),
    datatypes.TEXT: ("c2 = '2'", "startswith(c2, '2')", "c2 > '1' AND c2 < '3'"),
    datatypes.UUID: ("c2 = '2'",),
    datatypes.BYTEA: ("c2 = X'32'",),
    datatypes.DATE: ("c2 = DATE'1970-01-03'", "c2 BETWEEN DATE'1970-01-03' AND DATE'1970-01-03'"),
    datatypes.TIMESTAMPTZ: ("c2 = TIMESTAMP_LTZ'1970-01-01 00:00:00.000002'", "c2 IS NULL OR c2 = timestamp_micros(2)"),
}


@pytest.mark.turns
@pytest.mark.parametrize("kind", list(_SKIPPED), ids=str)
async def test_row_groups_that_cannot_matter_are_not_read(reader: Reader, lake_path: Path, kind: Any) -> None:
    of = of_kind(kind)
    values = [n for n in range(5) for _ in range(_GROUP)]
    if kind in (datatypes.TEXT, datatypes.UUID, datatypes.BYTEA):
        values = [str(n) if kind != datatypes.BYTEA else str(n).encode() for n in values]  # type: ignore[misc]
    version = spoil(lake_path, write(lake_path, of, rows(of, *enumerate(values))), 2)
    for each in _SKIPPED[kind]:
        found = await reader.table(f"SELECT c1, _position FROM t WHERE {each}", scan(version, position=True))
        assert found["c1"].to_pylist() == found["_position"].to_pylist() == [8, 9, 10, 11]


async def test_files_with_the_same_names_are_one_relation(lake_path: Path) -> None:
    of = table(k=datatypes.INT4, v=datatypes.TEXT)
    content = rows(of, *((n, "x") for n in range(9)))
    version = write(lake_path, of, content, content, rows(of, (1, "x")))
    (plain,) = {names_in(lake_path, version)[version.files[2].path]}
    assert list(names_in(lake_path, version).values()) == [("k", "v"), ("k", "v"), plain]
    assert [len(name) for name in plain] == [64, 64]


def names_in(lake_path: Path, version: TableVersion) -> dict[str, ReadNames]:
    return read_names(LakeFiles(str(lake_path)), version.table, version.files, lambda: None)


def renamed(of: Table, *names: str) -> Table:
    columns = tuple(dataclasses.replace(each, name=name) for each, name in zip(of.columns, names, strict=True))
    return dataclasses.replace(of, columns=columns)


_DOTLESS = "\u0131"  # of the letters that become "i" where case is ignored
_STRANGE = (
    "A", "c1", "c2", "_metadata", "_Metadata", "file_name", "row_index", "_file", "a.b", "a`b", '"q"', "a b", " ",
    "it's", "=;,{}()\n\t", "select", "Straße", _DOTLESS, "K", "é" * 31, "\U0001f600", "x" * 63, "c1" + "_" * 61, "\\",
)  # fmt: skip


@pytest.mark.turns
@pytest.mark.parametrize("name", _STRANGE)
async def test_a_column_may_have_any_name(reader: Reader, lake_path: Path, name: str) -> None:
    of = renamed(
        table(a=datatypes.INT4, b=datatypes.INT4, c=datatypes.INT4), "other", name, "c1" if name == "c2" else "c2"
    )
    version = write(lake_path, of, rows(of, *((n, n // _GROUP, 9 - n // _GROUP) for n in range(20))))
    version = delete_rows(lake_path, version, 0, f0=[9])
    result = await reader.table("SELECT c1, c3, _position FROM t WHERE c2 = 2", scan(version, position=True))
    assert [column.to_pylist() for column in result.columns] == [[8, 10, 11], [7] * 3, [8, 10, 11]]
    assert await reader.column("SELECT c2 FROM t WHERE c3 = 9 AND c1 > 1", scan(version)) == [0, 0]
    if name in ("c1", "Straße", '"q"', "a b", "K", "\U0001f600", "x" * 63):
        assert names_in(lake_path, version)[version.files[0].path][1] == name


@pytest.mark.turns
@pytest.mark.parametrize(
    "names",
    [("a", "A"), (_DOTLESS, "i"), ("K", "k"), ("ß", "ẞ"), ("ς", "Σ"), ("İ", "i̇"), ("iv.months", "x"), ("é", "É")],
)
async def test_names_that_spark_could_confuse(reader: Reader, lake_path: Path, names: tuple[str, str]) -> None:
    of = renamed(table(k=datatypes.INT4, a=datatypes.INT4, b=datatypes.INT4, iv=datatypes.INTERVAL), "k1", *names, "iv")
    content = rows(
        of, *((n, n // _GROUP, 9 - n // _GROUP, {"months": n, "days": 1, "microseconds": 0}) for n in range(20))
    )
    version = write(lake_path, of, content)
    assert [len(name) for name in names_in(lake_path, version)[version.files[0].path][1:]] in ([64] * 3, [64, 1, 64])
    assert await reader.column("SELECT c1 FROM t WHERE c2 = 2", scan(version)) == [8, 9, 10, 11]
    assert await reader.column("SELECT c1 FROM t WHERE c3 = 9", scan(version)) == [0, 1, 2, 3]
    assert await reader.column(
        "SELECT c1 FROM t WHERE c4 = named_struct('months', 9, 'days', 1, 'microseconds', 0L)", scan(version)
    ) == [9]


async def test_columns_that_changed_their_names_and_types(reader: Reader, lake_path: Path) -> None:
    """Columns are swapped, dropped and added again; another file has the later names."""
    of = table(a=datatypes.INT4, b=datatypes.INT4, c=datatypes.INT4)
    content = [(n // _GROUP, 9 - n // _GROUP, n) for n in range(20)]
    old = write(lake_path, of, rows(of, *content))
    a, b, _ = of.columns
    added = Column(4, 9, "c", datatypes.INT4, -1, True, "7")
    later = dataclasses.replace(of, columns=(dataclasses.replace(a, name="b"), dataclasses.replace(b, name="a"), added))
    new = write(lake_path, later, rows(later, *((x, y, 100 + z) for x, y, z in content)))
    version = TableVersion(later, 3, (*old.files, *new.files))
    assert [names[:2] for names in names_in(lake_path, version).values()] == [("a", "b"), ("b", "a")]
    assert [len(names[2]) for names in names_in(lake_path, version).values()] == [64, 1]
    for condition, expected in {
        "c1 = 2": [7] * 4 + [108, 109, 110, 111],
        "c2 = 9": [7] * 4 + [100, 101, 102, 103],
        "c4 = 7 AND c1 > 3": [7] * 4,
        "c4 > 117": [118, 119],
        "c1 = 9": [],
    }.items():
        result = await reader.column(f"SELECT c4 FROM t WHERE {condition} ORDER BY c4", scan(version))
        assert result == expected, condition


_WIDENED = [
    (datatypes.INT4, datatypes.INT8, "c2 < 9000000000"),
    (datatypes.INT2, datatypes.INT4, "c2 < 70000"),
    ((datatypes.NUMERIC, (8 << 16 | 2) + 4), (datatypes.NUMERIC, (12 << 16 | 2) + 4), "c2 < 50000000.00BD"),
]


@pytest.mark.parametrize(("before", "after", "condition"), _WIDENED)
async def test_a_column_that_became_wider_is_not_looked_up(
    reader: Reader, lake_path: Path, before: Any, after: Any, condition: str
) -> None:
    of, wide = of_kind(before), of_kind(after)
    version = write(lake_path, of, rows(of, *((n, 5) for n in range(9))))
    version = TableVersion(dataclasses.replace(wide, path=of.path), 2, version.files)
    assert [len(name) for name in names_in(lake_path, version)[version.files[0].path]] == [1, 64]
    assert len(await reader.column(f"SELECT c1 FROM t WHERE {condition}", scan(version))) == 9


async def test_deleted_rows_and_positions_where_row_groups_are_skipped(
    reader: Reader, engine: SparkEngine, lake_path: Path
) -> None:
    of = table(k=datatypes.INT4, v=datatypes.INT4)
    here = write(lake_path, of, rows(of, *((n, n // _GROUP) for n in range(40))))
    spark = await by_spark(engine, of, query("SELECT c1 + 100, c2 FROM t ORDER BY c1", scan(here)))
    for files in (here.files, spark):
        version = delete_rows(lake_path, TableVersion(of, 1, files), 0, f0=[8, 30, 33])
        spoil(lake_path, version, 2, 8)
        result = await reader.table("SELECT c1, _position FROM t WHERE c2 IN (2, 8)", scan(version, position=True))
        assert [number % 100 for number in result["c1"].to_pylist()] == [9, 10, 11, 32, 34, 35]
        assert result["_position"].to_pylist() == [9, 10, 11, 32, 34, 35]


async def test_positions_where_a_row_group_has_several_pages(
    reader: Reader, engine: SparkEngine, lake_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's files say what each page has; pages of one column end at other rows than those of another."""
    for module in ("storage.spark.read_names", "storage.spark.write"):
        monkeypatch.setattr(f"{module}.ROW_GROUP_ROWS", 32_768)
    of = table(k=datatypes.INT4, v=datatypes.INT4, w=datatypes.TEXT)
    source = query(
        "SELECT cast(id AS INT), cast(id DIV 10 AS INT), repeat(sha2(string(id), 256), 9) FROM range(0, 60000, 1, 1)"
    )
    version = TableVersion(of, 1, await by_spark(engine, of, source))
    assert names_in(lake_path, version)[version.files[0].path] == ("k", "v", "w")
    version = delete_rows(lake_path, version, 0, f0=[5, 25_011, 25_018, 45_000])
    for condition, expected in {
        "c2 = 2501": [n for n in range(25_010, 25_020) if n not in (25_011, 25_018)],
        "c2 IN (0, 3000, 4500)": [*range(5), *range(6, 10), *range(30_000, 30_010), *range(45_001, 45_010)],
        "c2 = 2501 AND c3 = repeat(sha2('25015', 256), 9)": [25_015],
    }.items():
        sql = (
            f"SELECT c1, _position, c3 = repeat(sha2(string(c1), 256), 9) AS same FROM t WHERE {condition} ORDER BY c1"
        )
        result = await reader.table(sql, scan(version, position=True))
        assert result["c1"].to_pylist() == result["_position"].to_pylist() == expected
        assert all(result["same"].to_pylist())


async def test_many_renames_make_few_relations(
    reader: Reader, lake_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.spark.read_names._NAMINGS_MAX", 3)
    of = table(k=datatypes.INT4, v=datatypes.INT4)
    versions = [renamed(of, "k", f"v{min(n, 7)}") for n in range(10)]
    written = [write(lake_path, each, rows(each, *((n, n // _GROUP) for n in range(12)))) for each in versions]
    version = TableVersion(versions[-1], 2, tuple(file for each in written for file in each.files))
    names = list(names_in(lake_path, version).values())
    assert [len(each[1]) for each in names] == [2, 2, *[64] * 5, 2, 2, 2]
    assert await reader.column("SELECT count(*) FROM t WHERE c2 = 2", scan(version)) == [40]


async def test_files_of_other_writers_are_read_whole(reader: Reader, lake_path: Path) -> None:
    """What their statistics mean has not been tried."""
    of = table(k=datatypes.INT4, v=datatypes.INT4)
    version = write(lake_path, of, rows(of, *((n, n // _GROUP) for n in range(12))))
    path = lake_path / of.path / version.files[0].path
    assert path.read_bytes().count(b"parquet-cpp-arrow ") == 1
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow ", b"parquet-cpp-other "))
    assert [len(name) for name in names_in(lake_path, version)[version.files[0].path]] == [64, 64]
    assert await reader.column("SELECT c1 FROM t WHERE c2 = 2", scan(version)) == [8, 9, 10, 11]


async def test_footers_are_read_once(lake_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = table(k=datatypes.INT4, v=datatypes.INT4)
    content = rows(of, *((n, n) for n in range(12)))
    version = write(lake_path, of, content, content, content)
    first = names_in(lake_path, version)
    monkeypatch.setattr("storage.spark.read_names._read", None)
    assert names_in(lake_path, version) == first
    (lake_path / of.path / version.files[1].path).unlink()
    with pytest.raises(SluiceError, match="No such file"):
        names_in(lake_path, version)
