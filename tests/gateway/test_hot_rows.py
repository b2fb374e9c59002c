"""Hot rows: small writes make no file, and everybody reads them, DuckDB at every snapshot included."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql

from tests.forks import ask_sluice
from tests.servers import GatewayProcess, Server
from tests.witness import Witness

_ALL_TYPES = """(
    id integer, a boolean, b smallint, c bigint, d real, e double precision, f text, g bytea, h date, i time,
    j timestamp, k timestamptz, l numeric(10, 2), m numeric, n interval, o uuid, p jsonb, q integer[], r text[],
    s interval[], t time[], u bytea[], v real[], w date[], x numeric(6, 3)[], y varchar(5), z char(3), aa int4range,
    ab boolean[], ac uuid[], ad timestamptz[])"""
_VALUES = rf"""
    (1, true, -2, 9223372036854775807, 0.1, 'NaN', E'é"''\\\n{{,}}', '\x00ff', 'infinity', '24:00',
     '-infinity', '0044-03-15 10:00:00.000001+00 BC', -1.5, 1.500, '-1 mon 2 days 03:04:05.678', '{"0" * 32}',
     '{{"a": [1, null]}}', '{{1,NULL,3}}', '{{"a,b","\"",NULL,""}}', '{{1 day,NULL}}', '{{24:00,00:00:01}}',
     '{{"\\x01",NULL}}', '{{0.1,-Infinity}}', '{{infinity,2020-02-29,0001-01-01 BC}}', '{{1.5,NULL}}', 'abc', 'x',
     '[1,4)', '{{t,NULL,f}}', NULL, '{{2020-01-01+00}}'),
    (2{", NULL" * 30}),
    (3, false, 32767, -1, 'Infinity', -0.0, '', '', '-infinity', '00:00', 'infinity',
     '9999-12-31 23:59:59.999999+00', 0, 'NaN', '0', NULL, 'null'{", '{}'" * 8}, '', '', 'empty'{", '{}'" * 3})"""


@pytest.fixture
def connection(gateway: Server, schema: str) -> Iterator[psycopg.Connection]:
    options = f"-c search_path={schema} -c sluice.hot_rows=1000"
    with psycopg.connect(gateway.url, autocommit=True, options=options) as connection:
        yield connection


def _files(process: GatewayProcess, schema: str) -> list[Path]:
    return sorted((process.data_dir / "lake").rglob(f"{schema}/**/*.parquet"))


def _texts(connection: psycopg.Connection, query: str) -> list[tuple[str | None, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query.encode())
        result = cursor.pgresult
        assert result is not None
        values = [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]
        return [tuple(value if value is None else value.decode() for value in row) for row in values]


def test_small_writes_make_no_file(
    connection: psycopg.Connection, gateway_process: GatewayProcess, schema: str
) -> None:
    run = connection.execute
    run("CREATE TABLE p (id integer PRIMARY KEY, v text)")
    run("CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON UPDATE CASCADE ON DELETE SET NULL)")
    run("INSERT INTO p SELECT g, 'v' || g FROM generate_series(1, 20) g")
    run("INSERT INTO c SELECT g, g FROM generate_series(1, 20) g")
    run("UPDATE p SET v = 'other' WHERE id < 4")
    run("DELETE FROM p WHERE id = 4")
    run("UPDATE p SET id = 50 WHERE id = 5")
    run("INSERT INTO p VALUES (1, 'x'), (60, 'y') ON CONFLICT (id) DO UPDATE SET v = excluded.v")
    run("MERGE INTO p USING (VALUES (1, 'm'), (70, 'n')) AS s (id, v) ON p.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v)")  # fmt: skip
    run("INSERT INTO c SELECT id + 100, id FROM p WHERE id > 50")
    run("WITH gone AS (DELETE FROM c WHERE id = 20 RETURNING p) INSERT INTO p SELECT p + 200, 'w' FROM gone")
    with connection.cursor().copy("COPY p FROM STDIN") as copy:
        copy.write("80\tcopied\n")
    run("DO $$ BEGIN UPDATE p SET v = 'done' WHERE id = 80; END $$")
    with connection.transaction():
        run("INSERT INTO p VALUES (90, 'kept')")
        run("SAVEPOINT a")
        run("INSERT INTO p VALUES (91, 'undone')")
        with pytest.raises(errors.UniqueViolation):
            run("INSERT INTO p VALUES (90, 'twice')")
        run("ROLLBACK TO a")
        run("UPDATE p SET v = v || '!' WHERE id IN (60, 90)")
    assert _files(gateway_process, schema) == []
    assert run("SELECT count(*), min(id), max(id) FROM p").fetchall() == [(24, 1, 220)]
    assert run("SELECT v FROM p WHERE id IN (1, 2, 60, 80, 90, 220) ORDER BY id").fetchall() == [
        ("m",), ("other",), ("y!",), ("done",), ("kept!",), ("w",),
    ]  # fmt: skip
    assert run("SELECT id, p FROM c WHERE p IS NULL OR id <> p ORDER BY id").fetchall() == [
        (4, None), (5, 50), (160, 60), (170, 70),
    ]  # fmt: skip
    run("VACUUM p")
    assert len(_files(gateway_process, schema)) == 1
    assert run("SELECT v FROM p WHERE id IN (1, 90) ORDER BY id").fetchall() == [("m",), ("kept!",)]


def test_the_setting(connection: psycopg.Connection, gateway_process: GatewayProcess, schema: str) -> None:
    connection.execute("CREATE TABLE t (id integer)")
    connection.execute("SET sluice.hot_rows = 2")
    connection.execute("INSERT INTO t VALUES (1), (2)")
    assert _files(gateway_process, schema) == []
    connection.execute("INSERT INTO t VALUES (3), (4), (5)")
    assert len(_files(gateway_process, schema)) == 1
    connection.execute("SET sluice.hot_rows = 0")
    connection.execute("INSERT INTO t VALUES (6)")
    assert len(_files(gateway_process, schema)) == 2
    for wrong in ("-1", "x", "2001", "1.5"):
        connection.execute(sql.SQL("SET sluice.hot_rows = {}").format(wrong))
        with pytest.raises(errors.InvalidParameterValue, match=r"sluice\.hot_rows"):
            connection.execute("INSERT INTO t VALUES (7)")
    connection.execute("RESET sluice.hot_rows")
    connection.execute("DELETE FROM t WHERE id IN (1, 5)")
    assert connection.execute("SELECT id FROM t ORDER BY id").fetchall() == [(2,), (3,), (4,), (6,)]


@pytest.mark.parametrize("engine", ["auto", "spark", "postgres"])
def test_rows_are_those_of_a_file(connection: psycopg.Connection, engine: str) -> None:
    connection.execute(f"SET sluice.engine = '{engine}'".encode())
    for table, rows in (("hot", 1000), ("cold", 0)):
        connection.execute(f"SET sluice.hot_rows = {rows}".encode())
        connection.execute(f"CREATE TABLE {table} {_ALL_TYPES}".encode())
        connection.execute(
            f"INSERT INTO {table} VALUES {_VALUES}".replace("gen_random_uuid()", f"'{'0' * 32}'").encode()
        )
    for columns in ("*", "id, f || 'x', q || 7, n * 2, k AT TIME ZONE 'UTC', t"):
        hot, cold = (_texts(connection, f"SELECT {columns} FROM {table} ORDER BY id") for table in ("hot", "cold"))
        assert hot == cold
    assert _texts(connection, "SELECT count(*) FROM hot JOIN cold USING (id, b, f, l)") == [("2",)]


def test_duckdb_reads_every_type(connection: psycopg.Connection, gateway_process: GatewayProcess, schema: str) -> None:
    for table, rows in (("hot", 1000), ("cold", 0)):
        connection.execute(f"SET sluice.hot_rows = {rows}".encode())
        connection.execute(f"CREATE TABLE {table} {_ALL_TYPES}".encode())
    connection.execute(f"INSERT INTO cold VALUES {_VALUES}".encode())
    connection.execute("SET sluice.hot_rows = 1000")
    connection.execute(f"INSERT INTO hot VALUES {_VALUES}".encode())
    witness = Witness(gateway_process.data_dir)
    try:
        hot, cold = (witness.rows(f"SELECT COLUMNS(*)::VARCHAR FROM {witness.lake}.{schema}.{name} ORDER BY 1")
                     for name in ("hot", "cold"))  # fmt: skip
        assert hot == cold
        assert len(hot) == 3
        for condition in ("c > 5", "h = 'infinity'", "f = ''", "l < 0", "a"):
            hot, cold = (witness.rows(f"SELECT id FROM {witness.lake}.{schema}.{name} WHERE {condition}")
                         for name in ("hot", "cold"))  # fmt: skip
            assert hot == cold, condition
    finally:
        witness.close()


def test_columns_with_ducklakes_own_names(
    connection: psycopg.Connection, gateway_process: GatewayProcess, schema: str
) -> None:
    connection.execute("CREATE TABLE own (id integer, row_id integer)")
    connection.execute("INSERT INTO own VALUES (1, 2)")
    assert len(_files(gateway_process, schema)) == 1
    connection.execute("CREATE TABLE renamed (id integer, v integer)")
    connection.execute("INSERT INTO renamed VALUES (1, 10)")
    connection.execute("ALTER TABLE renamed RENAME v TO end_snapshot")
    connection.execute("INSERT INTO renamed VALUES (2, 20)")
    connection.execute("DELETE FROM renamed WHERE id = 3")
    witness = Witness(gateway_process.data_dir)
    try:
        for name, rows in (("own", [(1, 2)]), ("renamed", [(1, 10), (2, 20)])):
            assert witness.table(f"{schema}.{name}", witness.snapshot()) == rows
            assert connection.execute(f"SELECT * FROM {name} ORDER BY 1".encode()).fetchall() == rows
    finally:
        witness.close()


def test_tables_of_many_columns(connection: psycopg.Connection, gateway_process: GatewayProcess, schema: str) -> None:
    """Others wait to commit while DuckLake's view of them would be made."""
    connection.execute(f"CREATE TABLE many ({', '.join(f'c{n} integer' for n in range(200))})".encode())
    connection.execute("INSERT INTO many (c0) VALUES (1)")
    assert _files(gateway_process, schema) == []
    connection.execute("ALTER TABLE many ADD c200 integer DEFAULT 5")
    connection.execute("INSERT INTO many (c0) VALUES (2)")
    assert len(_files(gateway_process, schema)) == 1
    witness = Witness(gateway_process.data_dir)
    try:
        assert witness.table(f"{schema}.many", witness.snapshot(), "c0, c199, c200") == [(1, None, 5), (2, None, 5)]
    finally:
        witness.close()
    assert connection.execute("SELECT c0, c200 FROM many ORDER BY c0").fetchall() == [(1, 5), (2, 5)]


def test_positions_deleted_from_files(
    connection: psycopg.Connection, gateway_process: GatewayProcess, schema: str
) -> None:
    """Few are the catalog's; more than it takes are in a file, beside those that it has."""
    was: dict[int, tuple[int, int]] = {}
    early = Witness(gateway_process.data_dir)

    def change(statement: str, files: int) -> None:
        connection.execute(statement.encode())
        [[snapshot]] = connection.execute("SELECT max(snapshot_id) FROM pg_sluice.snapshots").fetchall()
        [[count, total]] = connection.execute("SELECT count(*), sum(id)::bigint FROM t").fetchall()
        was[snapshot] = count, total
        assert len(_files(gateway_process, schema)) == files
        assert seen(early, snapshot) == was[snapshot]

    def seen(witness: Witness, snapshot: int) -> tuple[int, int]:
        [[count, total]] = witness.rows(
            f"SELECT count(*), sum(id)::BIGINT FROM {witness.lake}.{schema}.t AT (VERSION => {snapshot})"
        )
        return count, total

    connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
    try:
        change("INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 10000) g", 1)
        change("DELETE FROM t WHERE id = 5", 1)
        change("UPDATE t SET v = 'new' WHERE id BETWEEN 10 AND 12", 1)
        change("DELETE FROM t WHERE id % 10 = 7", 1)  # 1,004 by now
        change("DELETE FROM t WHERE id % 10 < 2", 2)  # more than there is room for
        change("DELETE FROM t WHERE id IN (2, 3)", 2)
        change("BEGIN; DELETE FROM t WHERE id = 4; SAVEPOINT a; DELETE FROM t; ROLLBACK TO a; COMMIT", 2)
        change("DELETE FROM t WHERE id % 10 = 3 AND id > 500", 2)
        change("DELETE FROM t WHERE id % 10 = 4", 3)  # a file of both takes the place
        change("UPDATE t SET id = -id WHERE id = 9999", 3)
        connection.execute("SET sluice.engine = 'spark'")
        change("DELETE FROM t WHERE id = 9998", 3)
        late = Witness(gateway_process.data_dir)
        for snapshot, expected in was.items():
            connection.execute(f"SET sluice.as_of = '{snapshot}'".encode())
            found = connection.execute("SELECT count(*), sum(id)::bigint FROM t").fetchall()
            assert [*found, seen(early, snapshot), seen(late, snapshot)] == [expected] * 3, snapshot
        late.close()
    finally:
        early.close()
    connection.execute("SET sluice.as_of = ''")
    checked = ask_sluice("check", "--data-dir", str(gateway_process.data_dir))
    assert checked.returncode == 0, checked.stdout
    connection.execute("VACUUM t")
    assert connection.execute("SELECT count(*), sum(id)::bigint FROM t").fetchall() == [list(was.values())[-1]]


def test_two_transactions_delete_from_one_file(
    connection: psycopg.Connection, gateway: Server, gateway_process: GatewayProcess, schema: str
) -> None:
    """The merged positions are in a file and in the catalog. That file stays, and those before it go."""
    connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
    connection.execute("INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 10000) g")
    with psycopg.connect(gateway.url, options=f"-c search_path={schema}") as many:
        many.execute("DELETE FROM t WHERE id > 7000")
        connection.execute("DELETE FROM t WHERE id = 5")
        many.commit()
    expected = [(6999, 7000 * 7001 // 2 - 5)]
    for engine in ("auto", "spark"):
        connection.execute(f"SET sluice.engine = '{engine}'".encode())
        assert connection.execute("SELECT count(v), sum(id)::bigint FROM t").fetchall() == expected
    assert len(_files(gateway_process, schema)) == 2
    witness = Witness(gateway_process.data_dir)
    assert witness.rows(f"SELECT count(*), sum(id)::BIGINT FROM {witness.lake}.{schema}.t") == expected
    witness.close()
    checked = ask_sluice("check", "--data-dir", str(gateway_process.data_dir))
    assert checked.returncode == 0, checked.stdout


class _Lake:
    """Random changes of one table; what it held at each snapshot is kept."""

    def __init__(self, connection: psycopg.Connection, schema: str, chosen: random.Random) -> None:
        self.connection, self.chosen, self.table = connection, chosen, f"{schema}.t"
        self.columns = {"v": "text", "n": "numeric(8,2)", "d": "date"}
        self.was: dict[int, list[tuple[str | None, ...]]] = {}
        self.names: dict[int, list[str]] = {}
        self._made = 0

    def value(self, kind: str) -> str:
        number = self.chosen.randrange(60)
        return self.chosen.choice({
            "text": [f"'x{number}'", "''", "NULL"],
            "date": [f"date '2020-01-01' + {number}", "'infinity'", "NULL"],
            "numeric(8,2)": [f"{number}.5", "-1", "NULL"],
            "bigint": [str(number * 10**10), "NULL"],
            "integer": [str(number), "NULL"],
        }[kind])  # fmt: skip

    def statement(self) -> str:
        key, other = (self.chosen.randrange(1, 40) for _ in range(2))
        column = self.chosen.choice(sorted(self.columns))
        value = self.value(self.columns[column])
        row = f"{key}, {value}"
        kind = self.chosen.choice(
            ["insert"] * 4 + ["update"] * 3 + ["delete", "upsert", "many", "block", "alter", "flush"]
        )
        match kind:
            case "insert" | "upsert":
                update = f"UPDATE SET {column} = excluded.{column}" if kind == "upsert" else "NOTHING"
                return f"INSERT INTO {self.table} (id, {column}) VALUES ({row}) ON CONFLICT (id) DO {update}"
            case "update":
                return f"UPDATE {self.table} SET {column} = {value} WHERE id BETWEEN {key} AND {key + other % 4}"
            case "delete":
                return f"DELETE FROM {self.table} WHERE id = {key} OR id = {other}"
            case "many":
                return (f"INSERT INTO {self.table} (id, {column}) SELECT g, {value} FROM generate_series({key}, 60) g"
                        " ON CONFLICT DO NOTHING")  # fmt: skip
            case "block":
                return (f"BEGIN; INSERT INTO {self.table} (id) VALUES ({key}) ON CONFLICT DO NOTHING; SAVEPOINT a;"
                        f" DELETE FROM {self.table}; ROLLBACK TO a; UPDATE {self.table} SET {column} = {value}"
                        f" WHERE id = {key}; DELETE FROM {self.table} WHERE id = {other}; COMMIT")  # fmt: skip
            case "flush":
                return self.chosen.choice(["VACUUM {}", "VACUUM FULL {}", "ANALYZE {}"]).format(self.table)
        return self._alter(column)

    def _alter(self, column: str) -> str:
        self._made += 1
        kind = self.columns[column]
        match self.chosen.choice(["add", "add", "drop", "rename", "retype"]):
            case "drop" if len(self.columns) > 2:
                del self.columns[column]
                return f"ALTER TABLE {self.table} DROP {column}"
            case "rename":
                self.columns[f"r{self._made}"] = self.columns.pop(column)
                return f"ALTER TABLE {self.table} RENAME {column} TO r{self._made}"
            case "retype" if kind == "integer":
                self.columns[column] = self.chosen.choice(["bigint", "text"])
                return f"ALTER TABLE {self.table} ALTER {column} TYPE {self.columns[column]}"
        name, added = f"c{self._made}", self.chosen.choice(["integer", "text", "date"])
        self.columns[name] = added
        default = self.chosen.choice(
            [
                "",
                f" DEFAULT {self.value(added)}",
                " DEFAULT "
                + {"integer": "(random() * 9)::integer", "text": "md5(random()::text)", "date": "current_date"}[added],
            ]
        )
        return f"ALTER TABLE {self.table} ADD {name} {added}{default}"

    def change(self) -> str:
        self.connection.execute(f"SET sluice.hot_rows = {self.chosen.choice([0, 3, 1000, 1000])}".encode())
        self.connection.execute(f"SET sluice.engine = '{self.chosen.choice(['auto', 'auto', 'spark'])}'".encode())
        done = self.statement()
        self.connection.execute(done.encode())
        [[snapshot]] = self.connection.execute("SELECT max(snapshot_id) FROM pg_sluice.snapshots").fetchall()
        self.was[snapshot] = self.rows()
        self.names[snapshot] = ["id", *self.columns]
        return done

    def rows(self) -> list[tuple[str | None, ...]]:
        return _texts(self.connection, f"SELECT {', '.join(['id', *self.columns])} FROM {self.table} ORDER BY id")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 4))])
def test_duckdb_sees_the_same_at_every_snapshot(
    connection: psycopg.Connection, gateway_process: GatewayProcess, schema: str, seed: int
) -> None:
    """Also one that was attached before: it keeps what it once learnt of a version of the schema."""
    lake = _Lake(connection, schema, random.Random(seed))
    connection.execute(f"CREATE TABLE {lake.table} (id integer PRIMARY KEY, v text, n numeric(8,2), d date)".encode())
    [[created]] = connection.execute("SELECT max(snapshot_id) FROM pg_sluice.snapshots").fetchall()
    assert created is not None
    early = Witness(gateway_process.data_dir)
    done = []

    def seen(witness: Witness, snapshot: int) -> list[tuple[str | None, ...]]:
        listed = ", ".join(f"{name}::VARCHAR" for name in lake.names[snapshot])
        table = f"{witness.lake}.{lake.table} AT (VERSION => {snapshot})"
        return witness.rows(f"SELECT {listed} FROM {table} ORDER BY id")

    try:
        for _ in range(40):
            done.append(lake.change())
            newest = max(lake.was)
            assert seen(early, newest) == lake.was[newest], "\n".join(done)
        late = Witness(gateway_process.data_dir)
        for snapshot, rows in lake.was.items():
            for witness in (early, late):
                assert seen(witness, snapshot) == rows, (snapshot, "\n".join(done))
        late.close()
    finally:
        early.close()
    present = lake.rows()
    connection.execute(f"VACUUM {lake.table}".encode())
    assert lake.rows() == present
    checked = ask_sluice("check", "--data-dir", str(gateway_process.data_dir))
    assert checked.returncode == 0, checked.stdout
