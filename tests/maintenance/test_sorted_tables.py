"""Files of a table with a sort key: written in its order, and kept apart by compaction."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import psycopg
import pytest

from tests.maintenance.conftest import changing, connect, files_of, read_and_skipped
from tests.servers import GatewayProcess, Server
from tests.witness import Witness

pytestmark = pytest.mark.turns(together=True)

_ROWS = 33_000
_LOADS = 22
_SETTINGS = {
    "sluice.compaction_file_bytes": "200000",
    # No file is small, so that only those that overlap are due.
    "sluice.compaction_small_bytes": "1",
}


@pytest.fixture
def small_files(lake: Server) -> Iterator[Server]:
    for name, value in _SETTINGS.items():
        lake.psql("-qc", f"ALTER DATABASE {lake.database} SET {name} = {value}")
    yield lake
    for name in _SETTINGS:
        lake.psql("-qc", f"ALTER DATABASE {lake.database} RESET {name}")


def load(connection: psycopg.Connection) -> list[tuple[int, str]]:
    """Rows in no order, half by COPY and half by INSERT … SELECT, many times; return them in order."""
    randomly = random.Random(7)
    numbers = list(range(_ROWS * _LOADS))
    randomly.shuffle(numbers)
    connection.execute("CREATE TABLE loaded (id bigint, name text) WITH (sluice.sort_by = 'id')")
    connection.execute("CREATE TABLE source (id bigint, name text)")
    for index in range(_LOADS):
        part = numbers[index * _ROWS : (index + 1) * _ROWS]
        direct = index % 2 == 0
        if not direct:
            connection.execute("TRUNCATE source")
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {'loaded' if direct else 'source'} FROM STDIN".encode()) as copy,
        ):
            copy.write("".join(f"{number}\tname {number}\n" for number in part))
        if not direct:
            connection.execute("INSERT INTO loaded SELECT * FROM source")
    return [(number, f"name {number}") for number in range(_ROWS * _LOADS)]


def test_a_selective_condition_skips_files_once_they_are_sorted(small_files: Server, kept: GatewayProcess) -> None:
    lake = small_files
    with connect(lake, autocommit=True) as connection:
        rows = load(connection)
        condition = "SELECT count(*), min(name) FROM loaded WHERE id BETWEEN 400000 AND 400100"
        before = read_and_skipped(lake, condition)
        assert before == (_LOADS, 0), "each load has values of the whole range"
        print(lake.psql("-c", "VACUUM (VERBOSE) loaded").stderr)
        scanned, skipped = read_and_skipped(lake, condition)
        print(f"{before[0]} files before; after: {scanned} read, {skipped} skipped")
        assert scanned + skipped == files_of(lake, "loaded") >= 12
        assert skipped / (scanned + skipped) > 0.9
        assert connection.execute(condition).fetchone() == (101, "name 400000")
        assert connection.execute("SELECT * FROM loaded ORDER BY id").fetchall() == rows
        # Nothing is due any more.
        assert " 0 files became 0," in lake.psql("-c", "VACUUM (VERBOSE) loaded").stderr
        schema = connection.execute("SELECT current_schema()").fetchone()
        assert schema is not None
    witness = Witness(kept.data_dir)
    try:
        assert witness.rows(f"SELECT * FROM {witness.lake}.{schema[0]}.loaded ORDER BY id") == rows
    finally:
        witness.close()


def bounds(process: GatewayProcess, relid: int) -> list[tuple[int, int]]:
    """The least and greatest value in each file of a table, of its first column, which has numbers."""
    sql = (
        "SELECT min_value::bigint, max_value::bigint FROM pg_ducklake.ducklake_file_column_stats s"
        " JOIN pg_ducklake.ducklake_data_file f USING (data_file_id)"
        " JOIN pg_sluice.relation r ON r.table_id = f.table_id"
        " JOIN pg_sluice.attribute a ON a.relid = r.relid AND a.column_id = s.column_id AND a.attnum = 1"
        " WHERE r.relid = %s AND f.end_snapshot IS NULL"
    )
    with psycopg.connect(process.catalog_url) as catalog:
        return sorted(catalog.execute(sql.encode(), [relid]).fetchall())


def is_in_order(connection: psycopg.Connection, table: str, order: str) -> bool:
    """Whether the rows come in this order by themselves, where they are read as files have them."""
    as_they_are = connection.execute(f"SELECT * FROM {table}".encode()).fetchall()
    return as_they_are == connection.execute(f"SELECT * FROM {table} ORDER BY {order}".encode()).fetchall()


_KEYS = "n DESC NULLS LAST, t"


def test_statements_write_in_the_order(lake: Server) -> None:
    randomly = random.Random(3)
    lines = "".join(
        f"{number if number % 1000 else chr(92) + 'N'}\t{randomly.choice('aäZ')}{number}\n"
        for number in randomly.sample(range(50_000), 50_000)
    )
    with connect(lake, autocommit=True) as connection:
        connection.execute(
            f"CREATE TABLE copied (n int, t text COLLATE \"C\") WITH (sluice.sort_by = '{_KEYS}')".encode()
        )
        with connection.cursor() as cursor, cursor.copy("COPY copied FROM STDIN") as copy:
            copy.write(lines)
        assert is_in_order(connection, "copied", _KEYS)
        connection.execute(f"CREATE TABLE made WITH (sluice.sort_by = '{_KEYS}') AS SELECT * FROM copied".encode())
        assert is_in_order(connection, "made", _KEYS)
        connection.execute(f"CREATE TABLE got (LIKE copied) WITH (sluice.sort_by = '{_KEYS}')".encode())
        connection.execute("INSERT INTO got SELECT * FROM copied ORDER BY t")
        assert is_in_order(connection, "got", _KEYS)
        connection.execute("UPDATE got SET n = -n")
        assert is_in_order(connection, "got", _KEYS)
        connection.execute("ALTER TABLE got SET (sluice.sort_by = 't')")
        connection.execute("VACUUM FULL got")
        assert is_in_order(connection, "got", "t")
        # The order that CLUSTER asks for comes in place of it.
        connection.execute("CREATE INDEX by_n ON got (n)")
        connection.execute("CLUSTER got USING by_n")
        assert is_in_order(connection, "got", "n, t DESC") or is_in_order(connection, "got", "n, t")
        connection.execute("DROP INDEX by_n")


@pytest.mark.parametrize("option", ["sluice.sort_by = 'n'", "sluice.partition_by = 'bucket(7, n)'"])
def test_a_duplicate_is_told_by_its_line(lake: Server, option: str) -> None:
    with connect(lake, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE told (n int PRIMARY KEY) WITH ({option})".encode())
        numbers = random.Random(5).sample(range(60_000), 60_000)
        numbers[50_000] = numbers[123]
        with pytest.raises(psycopg.errors.UniqueViolation) as raised:  # noqa: SIM117  what is raised at its end
            with connection.cursor() as cursor, cursor.copy("COPY told FROM STDIN") as copy:
                copy.write("".join(f"{number}\n" for number in numbers))
        assert raised.value.diag.context == "COPY told, line 50001"


def test_rows_deleted_while_they_are_sorted_stay_deleted(small_files: Server, kept: GatewayProcess) -> None:
    """Deletions and updates go on while VACUUM sorts, and no row is lost or comes back."""
    lake = small_files
    with connect(lake, autocommit=True) as connection, connect(lake, autocommit=True) as other:
        connection.execute("CREATE TABLE moved (id bigint, v int) WITH (sluice.sort_by = 'id')")
        for first in range(6):
            connection.execute(
                "INSERT INTO moved SELECT (n * 7919) %% 40000 * 6 + %s, 0 FROM generate_series(0, 39999) n", [first]
            )
        with changing(other, "moved", range(5, 240_000, 1009), "v = v + 1") as gone:
            said = lake.psql("-c", "VACUUM (VERBOSE, FULL) moved").stderr
        assert " 0 files became 0" not in said, said
        expected = set(range(240_000)) - set(gone)
        assert {each for (each,) in connection.execute("SELECT id FROM moved")} == expected
        assert connection.execute("SELECT count(*) FROM moved").fetchone() == (len(expected),)
        assert connection.execute("SELECT sum(v) FROM moved").fetchone() == (len(gone),)
        lake.psql("-qc", "VACUUM moved")
        found = connection.execute("SELECT 'moved'::regclass::oid::bigint").fetchone()
        assert found is not None
        ordered = bounds(kept, found[0])
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(ordered)), ordered


_TYPES = {
    "bool": "n % 2 = 0",
    "bytea": "decode(lpad(to_hex(n % 9), 2, '0'), 'hex')",
    "smallint": "n % 10",
    "integer": "n % 11",
    "bigint": "n % 12",
    "real": "CASE WHEN n % 13 = 0 THEN float4 'NaN' ELSE n % 13 END",
    "double precision": "CASE WHEN n % 14 = 0 THEN float8 'NaN' ELSE n % 14 END",
    "numeric(8,2)": "n % 15 / 4.0",
    "text": "'ä' || n % 16",
    "varchar(9)": "n % 17",
    "char(5)": "n % 18",
    "date": "date '2026-01-01' + n % 19",
    "time": "time '10:00' + n % 20 * interval '1 s'",
    "timestamp": "timestamp '2026-01-01' + n % 21 * interval '1 s'",
    "timestamptz": "timestamptz '2026-01-01' - n % 22 * interval '1 s'",
    "uuid": "md5((n % 23)::text)::uuid",
    "size": "(CASE n % 3 WHEN 0 THEN 'small' WHEN 1 THEN 'large' END)::size",
    "few": "n % 24",
}


@pytest.mark.parametrize("direction", ["", " DESC NULLS LAST"])
def test_every_type_that_has_an_order(lake: Server, direction: str) -> None:
    """By Arrow's sort, which COPY uses, and by Spark's, which VACUUM uses."""
    names = [f"c{number}" for number in range(len(_TYPES))]
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TYPE size AS ENUM ('small', 'large'); CREATE DOMAIN few AS int CHECK (value < 100)")
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, _TYPES, strict=True))
        key = ", ".join(f"{name}{direction}" for name in names)
        connection.execute(f"CREATE TABLE t ({columns}) WITH (sluice.sort_by = '{key}')".encode())
        values = ", ".join(_TYPES.values())
        connection.execute(f"INSERT INTO t SELECT {values} FROM generate_series(1, 33000) n".encode())
        connection.execute("CREATE TABLE u (LIKE t)")
        connection.execute(f"ALTER TABLE u SET (sluice.sort_by = '{key}')".encode())
        with connection.cursor() as reading, connection.cursor() as writing:
            with reading.copy("COPY t TO STDOUT") as copied:
                rows = b"".join(bytes(part) for part in copied)
            with writing.copy("COPY u FROM STDIN") as copy:
                copy.write(rows)
        before = connection.execute("SELECT count(*), sum(c4), min(c8), max(c12) FROM u").fetchone()
        connection.execute("VACUUM FULL t, u")
        for table in ("t", "u"):
            sql = f"SELECT count(*), sum(c4), min(c8), max(c12) FROM {table}"
            assert connection.execute(sql.encode()).fetchone() == before
        listed = "SELECT c0, c1, c2, c3, c4, c7 FROM {}"
        assert (
            connection.execute(listed.format("t").encode()).fetchall()
            == connection.execute(listed.format("u").encode()).fetchall()
        )
        connection.execute("DROP TABLE t, u; DROP TYPE size; DROP DOMAIN few")
