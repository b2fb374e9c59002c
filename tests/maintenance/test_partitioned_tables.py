"""Files of a table with a partition key: each has rows of one partition, and compaction keeps them apart."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.forks import ask_sluice
from tests.maintenance.conftest import changing, connect, read_and_skipped
from tests.servers import GatewayProcess, Server
from tests.witness import Witness

pytestmark = pytest.mark.turns(together=True)


class File(NamedTuple):
    """A live data file: its partition values in DuckLake, None if it has none; and how many rows it has."""

    values: tuple[str | None, ...] | None
    rows: int
    path: str
    is_hot: bool


@pytest.fixture
def witness(kept: GatewayProcess) -> Iterator[Witness]:
    witness = Witness(kept.data_dir)
    yield witness
    witness.close()


def files(process: GatewayProcess, table: str) -> list[File]:
    """The table's live files in the order of their values."""
    sql = """
        SELECT CASE WHEN f.partition_id IS NOT NULL THEN array(
                   SELECT v.partition_value FROM pg_ducklake.ducklake_file_partition_value v
                   WHERE v.data_file_id = f.data_file_id ORDER BY v.partition_key_index) END,
               f.record_count, r.schema_path || r.path || f.path, f.hot_rows IS NOT NULL
        FROM pg_sluice.data_file f JOIN pg_sluice.relation r USING (table_id) JOIN pg_class c ON c.oid = r.relid
        WHERE c.relname = %s AND f.end_snapshot IS NULL ORDER BY 1, 2"""
    with psycopg.connect(process.catalog_url) as catalog:
        rows = catalog.execute(sql, [table]).fetchall()
    return [File(None if values is None else tuple(values), *others) for values, *others in rows]


def check_files(process: GatewayProcess, witness: Witness, table: str, *expressions: str) -> list[File]:
    """Every file has a partition, which is what DuckDB reads in it by these expressions. Returns the files."""
    found = files(process, table)
    told = ", ".join(f"({each})::varchar" for each in expressions)
    for file in found:
        assert file.values is not None, file
        path = process.data_dir / "lake" / file.path
        assert witness.rows(f"SELECT DISTINCT {told} FROM read_parquet('{path}')") == [file.values], file
    return found


def files_read(witness: Witness, query: str) -> int:
    """How many files DuckDB reads."""
    plan = witness.rows(f"EXPLAIN ANALYZE {query}")[0][1]
    found = re.search(r"Total Files Read: (\d+)", plan)
    assert found is not None, plan
    return int(found[1])


def copy(connection: psycopg.Connection, table: str, lines: str) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copying:
        copying.write(lines)


def schema_of(connection: psycopg.Connection) -> str:
    row = connection.execute("SELECT current_schema()").fetchone()
    assert row is not None
    return str(row[0])


_EXPRESSIONS = ("tenant", "month(day)")
_COLUMNS = "id int, tenant text, day date, n int"
_KEY = "sluice.partition_by = 'tenant, month(day)'"


def lines(numbers: range) -> str:
    return "".join(f"{n}\tt{n % 3}\t2026-{n % 5 + 1:02}-{n % 28 + 1:02}\t0\n" for n in numbers)


def test_statements_write_files_of_one_partition(lake: Server, kept: GatewayProcess, witness: Witness) -> None:
    with connect(lake, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE parted ({_COLUMNS}) WITH ({_KEY})".encode())
        before = witness.snapshot()
        copy(connection, "parted", lines(range(9_000)))
        found = check_files(kept, witness, "parted", *_EXPRESSIONS)
        assert {file.values for file in found} == {
            (f"t{tenant}", str(month)) for tenant in range(3) for month in range(1, 6)
        }
        assert len(found) == 15
        connection.execute("INSERT INTO parted SELECT id + 9000, tenant, day + 365, n FROM parted")
        assert len(check_files(kept, witness, "parted", *_EXPRESSIONS)) == 30, "a month of another year is another one"
        connection.execute(f"CREATE TABLE taken WITH ({_KEY}) AS SELECT * FROM parted".encode())
        assert len(check_files(kept, witness, "taken", *_EXPRESSIONS)) == 30
        connection.execute(f"CREATE MATERIALIZED VIEW seen WITH ({_KEY}) AS SELECT * FROM parted".encode())
        connection.execute("REFRESH MATERIALIZED VIEW seen")
        assert len(check_files(kept, witness, "seen", *_EXPRESSIONS)) == 30
        values = ", ".join(f"({n}, 'v', date '2026-01-01' + {n} % 60, 0)" for n in range(18_000, 20_500))
        connection.execute(f"INSERT INTO parted VALUES {values}".encode())
        check_files(kept, witness, "parted", *_EXPRESSIONS)
        # Rows move to another partition.
        connection.execute("UPDATE parted SET tenant = NULL, day = 'infinity', n = id WHERE id % 4 = 0 AND id < 18000")
        check_files(kept, witness, "parted", *_EXPRESSIONS)
        connection.execute("DELETE FROM parted WHERE tenant = 't1'")
        assert connection.execute("SELECT count(*) FROM parted WHERE n > 0").fetchone() == (4_499,)
        assert connection.execute("SELECT count(*) FROM parted WHERE n <> 0 AND n <> id").fetchone() == (0,)
        schema = schema_of(connection)
        for snapshot in range(before, witness.snapshot() + 1):
            here = connection.execute(
                f"SET sluice.as_of = '{snapshot}'; SELECT count(*), sum(id), count(tenant) FROM parted".encode()
            )
            here.nextset()
            table = f"{witness.lake}.{schema}.parted"
            assert here.fetchall() == witness.rows(
                f"SELECT count(*), sum(id), count(tenant) FROM {table} AT (VERSION => {snapshot})"
            )
        connection.execute("RESET sluice.as_of")


def test_vacuum_divides_what_was_there_before(lake: Server, kept: GatewayProcess, witness: Witness) -> None:
    with connect(lake, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE older ({_COLUMNS})".encode())
        copy(connection, "older", lines(range(6_000)))
        connection.execute(f"ALTER TABLE older SET ({_KEY}, sluice.sort_by = 'id DESC')".encode())
        assert [file.values for file in files(kept, "older")] == [None]
        copy(connection, "older", lines(range(6_000, 12_000)))
        assert [file.values is None for file in files(kept, "older")] == [False] * 15 + [True]
        connection.execute("INSERT INTO older VALUES (12000, 't0', '2026-01-01', 0), (12001, 'x', NULL, 0)")
        lake.psql("-qc", "VACUUM older")
        found = check_files(kept, witness, "older", *_EXPRESSIONS)
        assert len(found) == 16, "files of one partition have been merged"
        assert sum(file.rows for file in found) == 12_002
        one = connection.execute("SELECT id FROM older WHERE tenant = 't1' AND day < '2026-02-01'").fetchall()
        assert one == sorted(one, reverse=True), "in the order of the sort key"
        expected = witness.rows(f"SELECT count(*), sum(id) FROM {witness.lake}.{schema_of(connection)}.older")
        assert connection.execute("SELECT count(*), sum(id) FROM older").fetchall() == expected
        assert " 0 files became 0," in lake.psql("-c", "VACUUM (VERBOSE) older").stderr, "nothing is due any more"
        connection.execute("ALTER TABLE older SET (sluice.partition_by = 'bucket(2, id)')")
        lake.psql("-qc", "VACUUM older")
        assert [file.values for file in files(kept, "older")] == [("0",), ("1",)]
        connection.execute("ALTER TABLE older RESET (sluice.partition_by)")
        lake.psql("-qc", "VACUUM FULL older")
        assert [file.values for file in files(kept, "older")] == [None]
        assert connection.execute("SELECT count(*), sum(id) FROM older").fetchall() == expected
        connection.execute(f"ALTER TABLE older SET ({_KEY})".encode())
        connection.execute("CREATE INDEX by_id ON older (id)")
        connection.execute("CLUSTER older USING by_id")
        assert len(check_files(kept, witness, "older", *_EXPRESSIONS)) == 16
        connection.execute("DROP INDEX by_id")


def test_hot_rows_are_divided_when_they_become_files(lake: Server, kept: GatewayProcess, witness: Witness) -> None:
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TABLE hot (id int, day timestamptz) WITH (sluice.partition_by = 'day(day)')")
        for number in range(6):
            # A day of UTC's, whatever the session's time zone is.
            connection.execute("SET timezone = 'America/New_York'")
            connection.execute(
                "INSERT INTO hot VALUES (%s, '2026-03-05 23:30:00+00'), (%s, '2026-03-06 00:30:00+00')",
                [number, number + 10],
            )
        assert [file.values for file in files(kept, "hot")] == [None] * 6
        assert all(file.is_hot for file in files(kept, "hot"))
        lake.psql("-qc", "VACUUM hot")
        assert [(file.values, file.rows) for file in files(kept, "hot")] == [(("5",), 6), (("6",), 6)]
        assert witness.rows(f"SELECT count(*) FROM {witness.lake}.{schema_of(connection)}.hot") == [(12,)]


def test_conditions_skip_the_files_of_other_partitions(lake: Server, witness: Witness) -> None:
    with connect(lake, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE pruned (id bigint, name text, made timestamp)"
            " WITH (sluice.partition_by = 'bucket(8, id), year(made)')"
        )
        copy(connection, "pruned", "".join(f"{n}\tname {n}\t{2020 + n % 3}-05-01 10:00:00\n" for n in range(9_000)))
        table = f"{witness.lake}.{schema_of(connection)}.pruned"
        assert read_and_skipped(lake, "SELECT count(name) FROM pruned") == (24, 0)
        by_year = "made >= '2021-01-01' AND made < '2022-01-01'"
        assert read_and_skipped(lake, f"SELECT count(name) FROM pruned WHERE {by_year}") == (8, 16)
        assert files_read(witness, f"SELECT count(name) FROM {table} WHERE {by_year}") == 8
        for condition, most in (
            ("id = 4711", 3), ("id IN (4711)", 3), ("id IN (1, 2)", 6), (f"id = 4711 AND {by_year}", 1),
            ("id = 4711::smallint", 3), ("id = -1", 0),
        ):  # fmt: skip
            query = f"SELECT count(name) FROM pruned WHERE {condition}"
            assert read_and_skipped(lake, query)[0] <= most, condition
            told = witness.rows(f"SELECT count(name) FROM {table} WHERE {condition}")
            assert connection.execute(query.encode()).fetchall() == told
        assert files_read(witness, f"SELECT count(name) FROM {table} WHERE id = 4711") <= 3
        # What is not one of the column's values excludes nothing wrongly.
        for condition, count in (("id = 4711.0", 1), ("id = 4711.5", 0), ("id + 0 = 4711", 1), ("id <> 4711", 8_999)):
            query = f"SELECT count(*) FROM pruned WHERE {condition}"
            assert connection.execute(query.encode()).fetchone() == (count,)
        connection.execute("ALTER TABLE pruned SET (sluice.partition_by = 'bucket(5, name)')")
        lake.psql("-qc", "VACUUM pruned")
        assert read_and_skipped(lake, "SELECT id FROM pruned WHERE name = 'name 17'") == (1, 4)
        assert connection.execute("SELECT id FROM pruned WHERE name = 'name 17'").fetchall() == [(17,)]


def test_rows_deleted_while_they_are_divided_stay_deleted(lake: Server, kept: GatewayProcess) -> None:
    with connect(lake, autocommit=True) as connection, connect(lake, autocommit=True) as other:
        connection.execute("CREATE TABLE moved (id int, k int, v int)")
        copy(connection, "moved", "".join(f"{n}\t{n * 7919 % 13}\t0\n" for n in range(120_000)))
        connection.execute("ALTER TABLE moved SET (sluice.partition_by = 'k')")
        with changing(other, "moved", range(5, 120_000, 1_009), "v = v + 1, k = 99") as gone:
            said = lake.psql("-c", "VACUUM (VERBOSE, FULL) moved").stderr
        assert " 0 files became 0" not in said, said
        expected = set(range(120_000)) - set(gone)
        assert {each for (each,) in connection.execute("SELECT id FROM moved")} == expected
        assert connection.execute("SELECT sum(v), count(*) FROM moved WHERE k = 99").fetchone() == (len(gone),) * 2
        lake.psql("-qc", "VACUUM moved")
        assert {file.values for file in files(kept, "moved")} == {(str(k),) for k in [*range(13), 99]}


def test_a_column_of_another_type(lake: Server, kept: GatewayProcess, witness: Witness) -> None:
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TABLE typed (id int, made timestamp) WITH (sluice.partition_by = 'id, month(made)')")
        copy(connection, "typed", "".join(f"{n % 2}\t2026-0{n % 3 + 1}-01 12:00:00\n" for n in range(9_000)))
        assert len(files(kept, "typed")) == 6
        connection.execute("ALTER TABLE typed ALTER id TYPE bigint")
        assert len(check_files(kept, witness, "typed", "id", "month(made)")) == 6, "as before: no file has changed"
        connection.execute("ALTER TABLE typed ALTER made TYPE date")
        assert len(check_files(kept, witness, "typed", "id", "month(made)")) == 6, "each file has still one month"
        connection.execute("ALTER TABLE typed ALTER made TYPE date USING made + (random() * 100)::int")
        assert [file.values for file in files(kept, "typed")] == [None] * 6
        lake.psql("-qc", "VACUUM typed")
        found = check_files(kept, witness, "typed", "id", "month(made)")
        assert sum(file.rows for file in found) == 9_000
        connection.execute("ALTER TABLE typed ADD COLUMN b int DEFAULT 5, DROP COLUMN id")
        lake.psql("-qc", "VACUUM typed")
        check_files(kept, witness, "typed", "month(made)")


def test_very_many_partitions(lake: Server, kept: GatewayProcess, witness: Witness) -> None:
    """A COPY of more partitions than may have files: the large ones have, and all rows are there."""
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TABLE many (k int, t text) WITH (sluice.partition_by = 'k')")
        randomly = random.Random(4)
        keys = [-1 if randomly.random() < 0.3 else randomly.randrange(100_000) for _ in range(300_000)]
        copy(connection, "many", "".join(f"{key}\tx{key}\n" for key in keys))
        found = files(kept, "many")
        assert ("-1",) in [file.values for file in found]
        assert len(found) < 1_100
        assert sum(file.rows for file in found) == 300_000
        assert connection.execute("SELECT count(*) FROM many WHERE k = -1").fetchone() == (keys.count(-1),)
        key = keys[-1]
        assert connection.execute("SELECT count(*) FROM many WHERE k = %s", [key]).fetchone() == (keys.count(key),)
        said = lake.psql("-c", "VACUUM (VERBOSE) many").stderr
        print(said)
        told = witness.rows(f"SELECT k, count(*) FROM {witness.lake}.{schema_of(connection)}.many GROUP BY k")
        assert dict(told) == Counter(keys)
        assert " 0 files became 0," in lake.psql("-c", "VACUUM (VERBOSE) many").stderr, "and nothing is due for ever"


def test_the_key_changes_beside_a_writer(lake: Server, kept: GatewayProcess, witness: Witness) -> None:
    with connect(lake, autocommit=True) as connection, connect(lake) as writing:
        connection.execute("CREATE TABLE beside (a int, b int) WITH (sluice.partition_by = 'a')")
        copy(writing, "beside", "".join(f"{n % 2}\t{n % 3}\n" for n in range(6_000)))
        connection.execute("ALTER TABLE beside SET (sluice.partition_by = 'b')")
        writing.commit()
        assert [file.values for file in files(kept, "beside")] == [None, None], "by another key than the table's"
        copy(writing, "beside", "".join(f"{n % 2}\t{n % 3}\n" for n in range(6_000)))
        writing.rollback()
        lake.psql("-qc", "VACUUM beside")
        assert len(check_files(kept, witness, "beside", "b")) == 3
        # A key that the transaction itself sets. Files from before stay as they are.
        copy(writing, "beside", "".join(f"{n % 2}\t{n % 3}\n" for n in range(6_000)))
        writing.execute("ALTER TABLE beside SET (sluice.partition_by = 'a, b')")
        copy(writing, "beside", "".join(f"{n % 2}\t{n % 3}\n" for n in range(6_000)))
        writing.commit()
        assert Counter(file.values is None for file in files(kept, "beside")) == {True: 3, False: 3 + 6}
        assert connection.execute("SELECT count(*) FROM beside").fetchone() == (18_000,)


def test_changed_rows_are_paired_with_the_old_ones(lake: Server, kept: GatewayProcess, witness: Witness) -> None:
    """Foreign keys follow a key to another partition, whoever computes the change."""
    with connect(lake, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE parent (id int PRIMARY KEY, k int, j jsonb) WITH (sluice.partition_by = 'bucket(3, id)');"
            "CREATE TABLE child (id int REFERENCES parent ON UPDATE CASCADE, was int) WITH (sluice.partition_by = 'id')"
        )
        rows = "".join(f"{n}\t{n * 7919 % 5}\t{{}}\n" for n in range(6_000))
        copy(connection, "parent", rows)
        copy(connection, "child", "".join(f"{n % 50}\t{n % 50}\n" for n in range(6_000)))
        connection.execute("UPDATE parent SET id = -id - 1")  # Spark
        assert connection.execute("SELECT count(*) FROM child WHERE id <> -was - 1").fetchone() == (0,)
        connection.execute("UPDATE parent SET id = -id, j = jsonb_set(j, '{a}', '1')")  # PostgreSQL
        assert connection.execute("SELECT count(*) FROM child WHERE id <> was + 1").fetchone() == (0,)
        connection.execute(
            "INSERT INTO parent SELECT n, 0, '{}' FROM generate_series(1, 3000) n"
            " ON CONFLICT (id) DO UPDATE SET id = parent.id + 10000"
        )
        assert connection.execute("SELECT count(*) FROM child WHERE id <> was + 10001").fetchone() == (0,)
        connection.execute(
            "MERGE INTO parent p USING (SELECT generate_series(10001, 13000) AS m) s ON s.m = p.id"
            " WHEN MATCHED THEN UPDATE SET id = m - 10000"
        )
        assert connection.execute("SELECT count(*) FROM child WHERE id <> was + 1").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM parent").fetchone() == (6_000,)
        check_files(kept, witness, "child", "id")
        connection.execute("DROP TABLE child, parent")


def test_wrong_values_are_told(lake: Server, kept: GatewayProcess) -> None:
    with connect(lake, autocommit=True) as connection, psycopg.connect(kept.catalog_url, autocommit=True) as catalog:
        connection.execute("CREATE TABLE wrong (a int) WITH (sluice.partition_by = 'a')")
        copy(connection, "wrong", "1\n2\n" * 2_000)
        inside = (
            "UPDATE pg_sluice.data_file SET partition = jsonb_set(partition, %s::text::text[], %s)"
            " WHERE table_id = (SELECT table_id FROM pg_sluice.relation r JOIN pg_class c ON c.oid = r.relid"
            " WHERE relname = 'wrong') AND partition #>> %s::text::text[] = %s"
        )
        for place, value, wrong, told in (
            ("{texts,0}", "1", "3", {"DuckLake has other partition values of this file"}),
            ("{key,0,1}", "identity", "year", {"DuckLake has other partition values of this file"}),
            (
                "{values,0}",
                "2",
                "3",
                {
                    'the values of "a" are not those of the partition identity = 3',
                    "DuckLake has other partition values of this file",
                },
            ),
        ):
            catalog.execute(inside.encode(), [place, f'"{wrong}"', place, value])
            try:
                found = ask_sluice("check", "--data-dir", str(kept.data_dir)).stdout.splitlines()
            finally:
                catalog.execute(inside.encode(), [place, f'"{value}"', place, wrong])
            assert {line.split(": ", 2)[0] for line in found[:-1]} == {"partition"}
            assert {line.split(": ", 2)[-1] for line in found[:-1]} >= told


def test_duckdb_finds_rows_of_files_that_are_not_divided_by_buckets(
    lake: Server, kept: GatewayProcess, witness: Witness
) -> None:
    """Files from before a key, of another key, of very many partitions, and hot rows."""
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TABLE found (k int, t text)")
        table = f"{witness.lake}.{schema_of(connection)}.found"
        rows = "".join(f"{n}\tx\n" for n in range(3_000))

        def count(condition: str) -> list[tuple[Any, ...]]:
            here = connection.execute(f"SELECT count(*) FROM found WHERE {condition}".encode()).fetchall()
            assert witness.rows(f"SELECT count(*) FROM {table} WHERE {condition}") == here, condition
            return here

        copy(connection, "found", rows)
        for loads, key in enumerate(("bucket(4, k)", "bucket(7, k)", "k", "t, bucket(3, k)", "", "bucket(4096, k)")):
            connection.execute(f"ALTER TABLE found SET (sluice.partition_by = '{key}')".encode())
            assert count("k = 34") == count("k IN (34)") == [(2 * loads + 1,)]
            copy(connection, "found", rows)
            connection.execute("INSERT INTO found VALUES (34, 'x')")
            assert count("k = 34") == [(2 * loads + 3,)]
            assert count("k IN (34, 35) AND t = 'x'") == [(3 * loads + 5,)]
        assert None in [file.values for file in files(kept, "found") if not file.is_hot], "of many partitions"
        snapshot = witness.snapshot()
        lake.psql("-qc", "ALTER TABLE found SET (sluice.partition_by = 'bucket(2, k)')", "-c", "VACUUM found")
        assert count("k = 34") == [(13,)]
        past = f"SELECT count(*) FROM {table} AT (VERSION => {snapshot}) WHERE k = 34"
        assert witness.rows(past) == [(13,)]


_TYPES: dict[str, list[Any]] = {
    "smallint": [1, -1],
    "text": ["", "it's", 'a/b "c"', "Ünï 🙂", "\\N", "__HIVE_DEFAULT_PARTITION__", "x" * 900],
    "varchar(3)": ["a", "a "],
    "char(3)": ["a", "b"],
    "boolean": [True, False],
    "bytea": [b"", b"\\'\xff\x00"],
    "numeric(10,2)": ["0.10", "-99999999.99"],
    "uuid": ["f79c3e09-677c-4bbd-a479-3f349cb785e7"],
    "time": ["24:00:00", "00:00:00"],
    "date": ["0044-03-15 BC", "infinity", "-infinity", "1969-12-31"],
    "timestamptz": ["infinity", "1969-12-31 23:59:59.999999+00", "2026-01-01 00:00:00+14"],
    "mood": ["sad", "ok"],
}


def test_every_type(lake: Server, kept: GatewayProcess, witness: Witness) -> None:
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        for number, (kind, values) in enumerate(_TYPES.items()):
            name = f"every{number}"
            connection.execute(f"CREATE TABLE {name} (n int, c {kind}) WITH (sluice.partition_by = 'c')".encode())
            connection.execute("SET sluice.hot_rows = 0")
            for place, value in enumerate([*values, None]):
                connection.execute(f"INSERT INTO {name} VALUES (%s, %s), (%s, %s)".encode(), [place, value] * 2)
            connection.execute(f"INSERT INTO {name} SELECT * FROM {name}".encode())
            assert all(file.values is not None for file in files(kept, name))
            lake.psql("-qc", f"VACUUM {name}")
            found = files(kept, name)
            assert [file.rows for file in found] == [4] * (len(values) + 1), kind
            table = f"{witness.lake}.{schema_of(connection)}.{name}"
            assert witness.rows(f"SELECT count(*), count(c) FROM {table}") == [(len(values) * 4 + 4, len(values) * 4)]
            for place, value in enumerate(values):
                sql = f"SELECT DISTINCT n FROM {name} WHERE c = %s::{kind}"
                assert connection.execute(sql.encode(), [value]).fetchall() == [(place,)], (kind, value)
        for number in range(len(_TYPES)):
            connection.execute(f"DROP TABLE every{number}".encode())
        connection.execute("DROP TYPE mood")
