"""Queries that PostgreSQL computes over rows of the lake: in portions, and those that stay refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import asyncpg
import psycopg
import pytest

from gateway.execution.reading.postgres_query import SMALL_ROWS
from gateway.statement.query_placement import PATIENCE_SECONDS
from gateway.wire.messages.backend import CommandComplete, DataRow, PortalSuspended
from gateway.wire.messages.frontend import Bind, Execute, Parse, Sync
from tests.gateway.wire import wire
from tests.servers import Server, sqlstate_of

_ROWS = 3_000
_REFUSED = "not supported on lake tables"


@pytest.fixture(scope="module")
def numbers(gateway: Server) -> Iterator[Server]:
    """A table of some thousand rows."""
    gateway.psql("-qc", "CREATE TABLE computed_numbers (n integer PRIMARY KEY, t text NOT NULL)")
    gateway.psql("-qc", f"INSERT INTO computed_numbers SELECT g, 'row ' || g FROM generate_series(1, {_ROWS}) g")
    yield gateway
    gateway.psql("-qc", "DROP TABLE computed_numbers")


async def test_rows_come_in_portions(numbers: Server) -> None:
    connection = await asyncpg.connect(numbers.url)
    try:
        sql = "SELECT n, row_to_json(c) FROM computed_numbers c WHERE n > $1 ORDER BY n"
        row = await connection.fetchrow(sql, 7)
        assert row is not None
        assert row["n"] == 8
        assert await connection.fetchval(sql, 9) == 10
        assert len(await connection.fetch(sql, 0)) == _ROWS
        async with connection.transaction():
            row = await connection.fetchrow(sql, 2990)
            assert row is not None
            assert row["n"] == 2991
            assert await connection.fetchrow(sql, _ROWS) is None
            assert len(await connection.fetch(sql, 100)) == _ROWS - 100
    finally:
        await connection.close()


def test_binary_results_are_those_of_postgresql(numbers: Server) -> None:
    with psycopg.connect(numbers.url, autocommit=True) as connection:
        cursor = connection.cursor(binary=True)
        cursor.execute("SELECT width_bucket(n, 0, 3000, 3), c.t FROM computed_numbers c WHERE n = %s", (1500,))
        assert cursor.fetchone() == (2, "row 1500")


_READ_LATE = """
WITH d AS (DELETE FROM computed_numbers WHERE n = 1 RETURNING t)
INSERT INTO computed_numbers VALUES (2, 'x') ON CONFLICT (n) DO UPDATE SET t = (SELECT t FROM d)
"""


@pytest.mark.turns
@pytest.mark.parametrize(
    "statements",
    [
        ("SELECT ctid, c FROM computed_numbers c",),
        ("SELECT xmin, n FROM computed_numbers",),
        ("SELECT 1 FROM computed_numbers c, computed_numbers d WHERE c = d FOR UPDATE OF c FOR SHARE OF d",),
        ("BEGIN", "DECLARE x CURSOR FOR SELECT n FROM computed_numbers c WHERE row_to_json(c) IS NOT NULL FOR UPDATE"),
        ("SELECT c, (SELECT max(t) FROM computed_numbers) FROM computed_numbers c FOR UPDATE SKIP LOCKED",),
        ("BEGIN", "DECLARE x CURSOR FOR SELECT c, set_config('a.b', 'x', false) FROM computed_numbers c", "FETCH x"),
        ("CREATE TABLE locked AS SELECT n, pg_try_advisory_lock(n) FROM computed_numbers",),
        ("UPDATE computed_numbers SET t = lo_creat(n)::text WHERE n = 1",),
        ("INSERT INTO computed_numbers VALUES (1, lo_creat(1)::text) ON CONFLICT (n) DO NOTHING",),
        (_READ_LATE,),
    ],
)  # fmt: skip
def test_what_stays_refused(numbers: Server, statements: tuple[str, ...]) -> None:
    sqlstate, message = sqlstate_of(numbers, *statements)
    assert (sqlstate, _REFUSED in message) == ("0A000", True)


def test_rows_that_a_domain_forbids_stay_refused(gateway: Server, schema: str) -> None:
    """PostgreSQL would judge the copies as if they were new: of a domain, what is not validated binds them too."""
    set_up = (
        f"SET search_path = {schema}",
        "CREATE DOMAIN d AS integer",
        "CREATE TABLE t (n d, s text)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "ALTER DOMAIN d ADD CHECK (value > 1) NOT VALID",
    )
    for change in ("DELETE FROM t WHERE row_to_json(t) IS NULL", "SELECT row_to_json(t) FROM t"):
        sqlstate, message = sqlstate_of(gateway, *set_up, change)
        assert (sqlstate, _REFUSED in message) == ("0A000", True)
        gateway.psql("-qc", f"DROP DOMAIN {schema}.d CASCADE; DROP TABLE {schema}.t")


@pytest.fixture(scope="module")
def many(gateway: Server) -> Iterator[Server]:
    """A table of more rows than are copied without a look at what is needed of them."""
    rows = SMALL_ROWS + 1
    gateway.psql("-qc", "CREATE TABLE computed_many (n integer, t text)")
    gateway.psql("-qc", f"INSERT INTO computed_many SELECT g, 'row ' || g FROM generate_series(1, {rows}) g")
    yield gateway
    gateway.psql("-qc", "DROP TABLE computed_many")


@pytest.mark.turns
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(c), count(DISTINCT c), max(c.t) FROM computed_many c",
         [[str(SMALL_ROWS + 1)] * 2 + ["row 99999"]]),
        ("SELECT sum((to_jsonb(c) ->> 'n')::bigint) FROM computed_many c WHERE n > 0",
         [[str((SMALL_ROWS + 1) * (SMALL_ROWS + 2) // 2)]]),
        ("SELECT c FROM computed_many c WHERE n < 3 UNION ALL SELECT c FROM computed_many c WHERE n < 2 ORDER BY 1",
         [['(1,"row 1")'], ['(1,"row 1")'], ['(2,"row 2")']]),
        ("SELECT c, v FROM (VALUES (0)) v (n) LEFT JOIN computed_many c USING (n) WHERE c.t IS NULL",
         [["NULL", "(0)"]]),
    ],
)  # fmt: skip
def test_all_rows_are_copied_where_all_may_be_needed(many: Server, sql: str, rows: list[list[str]]) -> None:
    assert many.query(sql) == rows


@pytest.mark.turns
@pytest.mark.parametrize("where", ["", "WHERE n > 0"])
@pytest.mark.parametrize("limit", ["10kB", "3MB"])
def test_more_than_is_allowed_stays_refused_and_says_why(many: Server, limit: str, where: str) -> None:
    sql = f"SELECT count(c) FROM computed_many c {where}"
    sqlstate, message = sqlstate_of(many, f"SET sluice.load_limit = '{limit}'", sql)
    assert (sqlstate, "if sluice.load_limit allows for so many" in message) == ("0A000", True)
    assert many.query(sql) == [[str(SMALL_ROWS + 1)]]


def test_the_limit_is_a_size(numbers: Server) -> None:
    assert numbers.query("SHOW sluice.load_limit") == [["4GB"]]
    sqlstate, message = sqlstate_of(numbers, "SET sluice.load_limit = 'much'", "SELECT c FROM computed_numbers c")
    assert (sqlstate, 'invalid size: "much"' in message) == ("22023", True)
    with psycopg.connect(numbers.url, autocommit=True) as connection:
        connection.execute("SET sluice.load_limit = '1kB'")
        connection.execute("DISCARD ALL")
        assert connection.execute("SELECT count(c) FROM computed_numbers c").fetchall() == [(_ROWS,)]


@pytest.mark.turns
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT c FROM computed_many c WHERE n < 3 ORDER BY n", [["(1,\"row 1\")"], ["(2,\"row 2\")"]]),
        ("SELECT row_to_json(c) FROM computed_many c WHERE n % 200000 = 1 AND n < 9", [['{"n":1,"t":"row 1"}']]),
        ("SELECT count(c), factorial(3) FROM computed_many c WHERE t LIKE 'row 1234%'", [["111", "6"]]),
        ("SELECT x, m FROM (SELECT * FROM computed_many WHERE n = 77) x LEFT JOIN computed_numbers m USING (n)",
         [['(77,"row 77")', '(77,"row 77")']]),
    ],
)  # fmt: skip
def test_of_many_rows_those_are_copied_that_are_needed(
    many: Server,
    numbers: Server,
    sql: str,
    rows: list[list[str]],
) -> None:
    assert many.query(sql) == rows


def test_copy_and_cursors_of_large_results(many: Server, numbers: Server) -> None:
    """More than is kept in memory; in their order, each row once."""
    rows, size = SMALL_ROWS + 1, 400
    query = f"SELECT (to_jsonb(c) ->> 'n')::integer AS n, repeat('x', {size}) FROM computed_many c ORDER BY c.n"
    with psycopg.connect(many.url) as connection:
        with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT".encode()) as copy:
            data = b"".join(copy)
        assert [int(line.split(b"\t")[0]) for line in data.splitlines()] == list(range(1, rows + 1))
        assert len(data) > rows * size
        with connection.cursor("large", scrollable=True) as cursor:
            cursor.execute(query.encode())
            assert [n for n, _ in cursor.fetchmany(3)] == [1, 2, 3]
            cursor.scroll(rows - 1, "absolute")
            assert [n for n, _ in cursor.fetchall()] == [rows]
            cursor.scroll(99_999, "absolute")
            assert cursor.fetchone() == (100_000, "x" * size)
        with connection.cursor() as cursor, cursor.copy(b"COPY (SELECT FROM computed_numbers c) TO STDOUT") as copy:
            assert sum(len(line) for line in copy) == _ROWS


def test_large_results_in_portions(many: Server) -> None:
    """More than is kept in memory; in their order, each row once."""
    rows, size = SMALL_ROWS + 1, 400
    query = f"SELECT (to_jsonb(c) ->> 'n')::integer AS n, repeat('x', {size}) FROM computed_many c ORDER BY c.n"
    portions = (1, 2, 100_000, 0)
    with wire(many) as client:
        answers = client.ask(Parse("", query), Bind("", ""), *(Execute("", limit) for limit in portions), Sync())
    numbers = [int(answer.values[0] or 0) for answer in answers if isinstance(answer, DataRow)]
    assert numbers == list(range(1, rows + 1))
    ends = [(place, answer) for place, answer in enumerate(answers) if isinstance(answer, PortalSuspended)]
    assert [place for place, _ in ends] == [3, 6, 100_007]
    assert answers[-2] == CommandComplete(f"SELECT {rows - 100_003}")


def test_large_results_of_an_insert(many: Server, schema: str) -> None:
    many.psql("-qc", f"CREATE TABLE {schema}.made (n integer, t text)")
    sql = (
        f"INSERT INTO {schema}.made SELECT (to_jsonb(c) ->> 'n')::integer, 'x' FROM computed_many c"
        " RETURNING n, repeat(t, 100)"
    )
    lines = many.psql("-qAtc", sql).stdout.splitlines()
    assert sorted(int(line.split("|")[0]) for line in lines) == list(range(1, SMALL_ROWS + 2))


def test_in_a_session_that_only_reads(numbers: Server, schema: str) -> None:
    """The copies are not written by the client's statement; what it would write itself is refused."""
    numbers.psql("-qc", f"CREATE SEQUENCE {schema}.numbers")
    with psycopg.connect(numbers.url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = on")
        for _ in range(2):
            query = "SELECT count(c), current_setting('transaction_read_only') FROM computed_numbers c"
            assert connection.execute(query).fetchall() == [(_ROWS, "on")]
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="cannot execute nextval"):
                connection.execute(f"SELECT c, nextval('{schema}.numbers') FROM computed_numbers c".encode())
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="cannot execute DELETE"):
                connection.execute("DELETE FROM computed_numbers WHERE row_to_json(computed_numbers) IS NOT NULL")
        connection.execute("SET default_transaction_read_only = off")
        assert connection.execute(query).fetchall() == [(_ROWS, "off")]


@pytest.fixture
def reader(many: Server, numbers: Server, schema: str) -> Iterator[Server]:
    """Somebody who may read the tables, and of `kinds` all columns but one."""
    kinds = f"{schema}.kinds"
    numbers.psql(
        "-q",
        sql=f"""
        CREATE ROLE computed_reader LOGIN;
        CREATE TABLE {kinds} (id integer GENERATED ALWAYS AS IDENTITY, d date, i interval, b bytea, l text[],
            g integer GENERATED ALWAYS AS (length(b)) STORED, hidden text DEFAULT 'yes');
        INSERT INTO {kinds} (d, i, b, l)
            VALUES ('2026-02-03', '-1 mon +2 days -03:04', '\\x00ff', '{{a,NULL}}'), (NULL, NULL, NULL, NULL);
        GRANT USAGE ON SCHEMA {schema} TO computed_reader;
        GRANT SELECT ON computed_numbers, computed_many TO computed_reader;
        GRANT SELECT (id, d, i, b, l, g) ON {kinds} TO computed_reader;
        """,
    )
    yield replace(many, user="computed_reader")
    many.psql(
        "-q",
        sql=f"""
        REVOKE ALL ON SCHEMA {schema} FROM computed_reader;
        REVOKE ALL ON computed_numbers, computed_many FROM computed_reader;
        DROP TABLE {kinds};
        DROP ROLE computed_reader;
        """,
    )


def test_a_role_may_do_it_that_may_only_read(numbers: Server, reader: Server, schema: str) -> None:
    """The copies are not its own rows."""
    assert reader.query("SELECT count(c), max(c.t) FROM computed_numbers c") == [[str(_ROWS), "row 999"]]
    assert reader.query("SELECT count(c) FROM computed_many c") == [[str(SMALL_ROWS + 1)]]
    sql = f"SELECT to_json((id, d, i, b, l, g)) FROM {schema}.kinds ORDER BY id"
    for style in ("postgres", "sql_standard"):
        settings = f"SET intervalstyle = {style}; SET datestyle = 'SQL, DMY'; "
        answer = reader.psql("-qAtc", settings + sql).stdout
        assert answer == numbers.psql("-qAtc", settings + sql).stdout
        assert len(answer.splitlines()) == 2


def test_a_role_may_change_rows_that_may_not_insert_any(numbers: Server, reader: Server) -> None:
    """The copies of the rows that it changes are not its own either."""
    numbers.psql("-qc", "GRANT UPDATE, DELETE ON computed_numbers TO computed_reader")
    rows = "SELECT count(*), min(t) FROM computed_numbers"
    for sql, answer in (
        ("DELETE FROM computed_numbers c WHERE row_to_json(c) ->> 't' = 'row 7' RETURNING n", "7"),
        ("UPDATE computed_numbers c SET t = row_to_json(c)::text WHERE n = 8 RETURNING t", '{"n":8,"t":"row 8"}'),
        (
            """MERGE INTO computed_numbers c USING computed_many m JOIN (VALUES (9)) AS v (x) ON m.n = v.x ON c.n = v.x
            WHEN MATCHED THEN UPDATE SET t = (SELECT count(*) FROM computed_many WHERE n < 5) RETURNING c.n, c.t""",
            "9|4",
        ),
    ):
        assert reader.psql("-qAtc", f"BEGIN; {sql}; ROLLBACK; {rows}").stdout.splitlines() == [answer, f"{_ROWS}|row 1"]


def test_a_large_table_is_merged_into_where_spark_finds_the_rows(many: Server) -> None:
    merge = "MERGE INTO computed_many c USING {} ON {} WHEN MATCHED THEN DELETE RETURNING c.n"
    found = merge.format("(SELECT 5 AS n, random() AS r) s", "c.n = s.n")
    assert many.psql("-qAtc", f"BEGIN; {found}; ROLLBACK").stdout == "5\n"
    for source, condition in (
        ("(SELECT 5 + (random() * 0)::integer AS n) s", "c.n = s.n"),
        ("(SELECT 5 AS n) s", "row_to_json(c) ->> 'n' = s.n::text"),
        ("computed_many s", "c.n = s.n AND s.n < 9 AND EXISTS (SELECT FROM computed_many)"),
    ):
        sqlstate, message = sqlstate_of(many, merge.format(source, condition))
        assert (sqlstate, f"no more than {SMALL_ROWS} rows" in message) == ("0A000", True)


def test_a_role_reads_nothing_this_way_that_it_may_not(reader: Server, schema: str) -> None:
    for sql in (f"SELECT k FROM {schema}.kinds k", f"SELECT factorial(3), hidden FROM {schema}.kinds"):
        sqlstate, message = sqlstate_of(reader, sql)
        assert (sqlstate, "permission denied for table kinds" in message) == ("42501", True)


def test_undone_rows_are_swept_out_of_the_shadow(numbers: Server) -> None:
    def size() -> int:
        return int(numbers.query("SELECT pg_relation_size('computed_numbers')")[0][0])

    # Ten copies of all rows take more than a megabyte, and nobody takes them out but the sweeper.
    for _ in range(10):
        numbers.psql("-qc", "SELECT max(c.t), count(c) FROM computed_numbers c")
    deadline = time.monotonic() + 60
    while size() > 200_000:
        assert time.monotonic() < deadline, f"the shadow has grown to {size()} bytes"
        numbers.psql("-qc", "SELECT max(c.t), count(c) FROM computed_numbers c")
        time.sleep(0.2)


def test_few_rows_are_placed_with_postgresql(numbers: Server) -> None:
    with psycopg.connect(numbers.url, autocommit=True) as connection:
        connection.execute("SET sluice.engine = 'auto'")
        connection.execute("SET sluice.small_rows = 5000")
        plan = connection.execute("EXPLAIN (COSTS OFF) SELECT count(n) FROM computed_numbers WHERE n < 10").fetchall()
        assert plan[:2] == [("PostgreSQL Select",), ("  Placed By: few rows",)]
        assert connection.execute("SELECT count(n) FROM computed_numbers WHERE n < 10").fetchone() == (9,)
        connection.execute("SET sluice.small_rows = 10")
        [first, *_] = connection.execute("EXPLAIN (COSTS OFF) SELECT count(n) FROM computed_numbers").fetchall()
        assert first == ("Spark Select",)
        connection.execute("SET sluice.engine = 'neither'")
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            connection.execute("SELECT count(n) FROM computed_numbers")


def test_what_takes_postgresql_long_is_left_to_spark(numbers: Server) -> None:
    with psycopg.connect(numbers.url) as connection:
        connection.execute("SET sluice.engine = 'postgres'")
        joined = "SELECT count(*) FROM computed_numbers a, computed_numbers b, computed_numbers c WHERE c.n <= 12"
        began = time.monotonic()
        assert connection.execute(joined).fetchone() == (_ROWS * _ROWS * 12,)
        assert time.monotonic() - began > PATIENCE_SECONDS
        # The block goes on, at the client's own statement_timeout.
        assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
        connection.execute("SET LOCAL statement_timeout = '500ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="due to statement timeout"):
            connection.execute(joined)


def _wait_until_swept(server: Server, table: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while int(server.query(f"SELECT pg_relation_size('{table}')")[0][0]) > 0:
        assert time.monotonic() < deadline, "nobody sweeps the shadow"
        time.sleep(0.1)


def test_rows_of_an_insert_are_swept_out_of_the_shadow_soon(numbers: Server) -> None:
    """While their transaction holds the table that it has made, a sweep is in vain."""
    try:
        rows = "SELECT g, repeat('x', 100) FROM generate_series(1, 100000) g"
        numbers.psql("-qc", f"CREATE TABLE computed_swept (n integer, t text); INSERT INTO computed_swept {rows}")
        _wait_until_swept(numbers, "computed_swept", 20)
    finally:
        numbers.psql("-qc", "DROP TABLE computed_swept")


def test_shadows_in_schemas_that_are_closed_to_others_are_swept(numbers: Server) -> None:
    try:
        numbers.psql("-qc", "CREATE SCHEMA computed_own; CREATE TABLE computed_own.swept (n integer, t text)")
        rows = "SELECT g, repeat('x', 100) FROM generate_series(1, 100000) g"
        numbers.psql("-qc", f"INSERT INTO computed_own.swept {rows}")
        _wait_until_swept(numbers, "computed_own.swept", 30)
    finally:
        numbers.psql("-qc", "DROP SCHEMA computed_own CASCADE")


def _connected(server: Server, engine: str = "auto") -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(server.url, autocommit=True, options=f"-c sluice.engine={engine}")


@pytest.fixture
def keyed(gateway: Server) -> Iterator[Server]:
    """A table of more rows than are few, with keys of several kinds."""
    gateway.psql(
        "-qc",
        "CREATE TABLE keyed (k integer PRIMARY KEY, u uuid UNIQUE, d date, c char(4), v text, UNIQUE (d, c))",
        "-c",
        "INSERT INTO keyed SELECT g, lpad(g::text, 32, '0')::uuid, date '2000-01-01' + g, chr(97 + g % 26), 'v' || g"
        " FROM generate_series(1, 30000) g",
    )
    yield gateway
    gateway.psql("-qc", "DROP TABLE keyed")


@pytest.mark.turns
@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("k = 17", 1),
        ("k IN (17, 18, 40000)", 2),
        ("k = 17 AND v = 'v18'", 0),
        ("k = 17 OR k = 18", 2),
        ("u = '00000000-0000-0000-0000-000000000021'", 1),
        ("d = '2000-01-27' AND c = 'a'", 1),
        ("d = '2000-01-27 00:00' AND c = 'b'", 0),
        ("k = ANY ('{5,6,7}') AND k > 5", 2),
        ("k = 3000000000", 0),
        ("k = NULL", 0),
    ],
)
def test_rows_of_large_tables_are_found_by_their_keys(keyed: Server, condition: str, count: int) -> None:
    counted = f"SELECT count(*) FROM keyed WHERE {condition}"
    with _connected(keyed) as connection, _connected(keyed, "spark") as by_spark:
        assert connection.execute(counted.encode()).fetchone() == (count,)
        assert by_spark.execute(counted.encode()).fetchone() == (count,)


def test_a_look_up_by_key_is_placed_with_postgresql(keyed: Server) -> None:
    with _connected(keyed) as connection:
        for sql, place in (
            ("SELECT v || '' FROM keyed WHERE k = 17", "PostgreSQL Select"),
            ("SELECT v || '' FROM keyed WHERE v = 'v17'", "Spark Select"),
            ("SELECT v FROM keyed WHERE k = 17", "Gateway Select"),
            ("SELECT v FROM keyed WHERE v = 'v17'", "Gateway Select"),
            ("SELECT a.v FROM keyed a JOIN keyed b USING (k) WHERE a.k = 17", "Spark Select"),
            ("UPDATE keyed SET v = 'other' WHERE k = 17", "Gateway Update"),
            ("UPDATE keyed SET v = v || '!' WHERE k = 17", "PostgreSQL Update"),
            ("UPDATE keyed SET k = 0 WHERE k = 17", "Gateway Update"),
            ("UPDATE keyed SET k = k * 100 WHERE k = 17", "Spark Update"),
            ("DELETE FROM keyed WHERE u = '00000000-0000-0000-0000-000000000021'", "Gateway Delete"),
            ("DELETE FROM keyed WHERE k = 17 RETURNING v", "PostgreSQL Delete"),
            ("DELETE FROM keyed WHERE k < 17", "Spark Delete"),
        ):
            [first, *_] = connection.execute(f"EXPLAIN (COSTS OFF) {sql}".encode()).fetchall()
            assert first == (place,), sql


def test_changes_by_key_are_what_spark_makes_of_them(keyed: Server) -> None:
    with _connected(keyed) as connection:
        updated = connection.execute("UPDATE keyed SET v = v || '!' WHERE k IN (1, 2, 3) RETURNING k, v").fetchall()
        assert sorted(updated) == [(1, "v1!"), (2, "v2!"), (3, "v3!")]
        assert connection.execute("DELETE FROM keyed WHERE k = 2 AND v = 'v2!'").rowcount == 1
        assert connection.execute("DELETE FROM keyed WHERE k = 2").rowcount == 0
        with connection.transaction(), pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("UPDATE keyed SET v = (1 / (k - 3))::text WHERE k = 3")
    for engine in ("auto", "spark"):
        with _connected(keyed, engine) as connection:
            found = connection.execute("SELECT k, v FROM keyed WHERE k <= 4 ORDER BY k").fetchall()
            assert found == [(1, "v1!"), (3, "v3!"), (4, "v4")]
            assert connection.execute("SELECT count(*) FROM keyed").fetchone() == (29_999,)


def test_a_reader_waits_for_no_lock_and_no_turn(numbers: Server) -> None:
    changed = "UPDATE computed_numbers SET t = t WHERE n = 1"
    with _connected(numbers) as holder, _connected(numbers) as reader:
        reader.execute("SET sluice.small_rows = 5000")
        with holder.transaction():
            holder.execute("LOCK TABLE computed_numbers IN SHARE MODE")
            assert reader.execute("SELECT count(*) FROM computed_numbers").fetchone() == (_ROWS,)
            with reader.transaction():
                assert reader.execute("SELECT max(n) FROM computed_numbers").fetchone() == (_ROWS,)
                assert reader.execute("SHOW lock_timeout").fetchone() == ("0",)
            reader.execute("SET lock_timeout = '300ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                reader.execute(changed)
