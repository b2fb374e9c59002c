"""What PostgreSQL computes over rows of the lake: in portions, and what stays refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace

import asyncpg
import psycopg
import pytest

from gateway.lake.computed import SMALL_ROWS
from gateway.messages.backend import CommandComplete, DataRow, NoticeResponse, PortalSuspended
from gateway.messages.frontend import Bind, Execute, Parse, Query, Sync
from tests.gateway.wire import wire
from tests.servers import Server

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
        assert (await connection.fetchrow(sql, 7))["n"] == 8
        assert await connection.fetchval(sql, 9) == 10
        assert len(await connection.fetch(sql, 0)) == _ROWS
        async with connection.transaction():
            assert (await connection.fetchrow(sql, 2990))["n"] == 2991
            assert await connection.fetchrow(sql, _ROWS) is None
            assert len(await connection.fetch(sql, 100)) == _ROWS - 100
    finally:
        await connection.close()


def test_binary_results_are_those_of_postgresql(numbers: Server) -> None:
    with psycopg.connect(numbers.url, autocommit=True) as connection:
        cursor = connection.cursor(binary=True)
        cursor.execute("SELECT width_bucket(n, 0, 3000, 3), c.t FROM computed_numbers c WHERE n = %s", (1500,))
        assert cursor.fetchone() == (2, "row 1500")


def _sqlstate(server: Server, *statements: str) -> tuple[str, str]:
    with psycopg.connect(server.url, autocommit=True) as connection:
        *before, last = statements
        for statement in before:
            connection.execute(statement.encode())
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(last.encode())
        return raised.value.sqlstate or "", str(raised.value)


@pytest.mark.parametrize(
    "statements",
    [
        ("SELECT ctid FROM computed_numbers",),
        ("SELECT xmin, n FROM computed_numbers",),
        ("SELECT n FROM computed_numbers c WHERE row_to_json(c) IS NOT NULL FOR UPDATE",),
        ("SELECT c, d FROM computed_numbers c JOIN computed_numbers d USING (n) ORDER BY n LIMIT 1 FOR UPDATE",),
        ("SELECT c, (SELECT max(t) FROM computed_numbers) FROM computed_numbers c FOR UPDATE SKIP LOCKED",),
        ("SELECT c FROM computed_numbers c WHERE random() > 2 FOR UPDATE",),
        ("SELECT c FROM computed_numbers c, (SELECT 1 AS n LIMIT 1) x WHERE c.n = x.n FOR UPDATE OF c",),
        ("BEGIN", "DECLARE x CURSOR FOR SELECT row_to_json(c) FROM computed_numbers c FOR UPDATE"),
        ("SELECT c, set_config('application_name', 'x', false) FROM computed_numbers c",),
        ("SELECT c, pg_advisory_lock(1) FROM computed_numbers c",),
    ],
)  # fmt: skip
def test_what_stays_refused(numbers: Server, statements: tuple[str, ...]) -> None:
    sqlstate, message = _sqlstate(numbers, *statements)
    assert (sqlstate, _REFUSED in message) == ("0A000", True)


def test_rows_that_a_constraint_forbids_stay_refused(gateway: Server, schema: str) -> None:
    """PostgreSQL would judge the copies as if they were new."""
    set_up = (
        f"SET search_path = {schema}",
        "CREATE TABLE t (n integer, s text)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "ALTER TABLE t ADD CHECK (n > 1) NOT VALID",
    )
    for change in ("DELETE FROM t WHERE row_to_json(t) IS NULL", "SELECT row_to_json(t) FROM t"):
        sqlstate, message = _sqlstate(gateway, *set_up, change)
        assert (sqlstate, _REFUSED in message) == ("0A000", True)
        gateway.psql("-qc", f"DROP TABLE {schema}.t")


@pytest.fixture(scope="module")
def many(gateway: Server) -> Iterator[Server]:
    """A table of more rows than are copied without a look at what is needed of them."""
    rows = SMALL_ROWS + 1
    gateway.psql("-qc", "CREATE TABLE computed_many (n integer, t text)")
    gateway.psql("-qc", f"INSERT INTO computed_many SELECT g, 'row ' || g FROM generate_series(1, {rows}) g")
    yield gateway
    gateway.psql("-qc", "DROP TABLE computed_many")


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


@pytest.mark.parametrize("where", ["", "WHERE n > 0"])
@pytest.mark.parametrize("limit", ["10kB", "3MB"])
def test_more_than_is_allowed_stays_refused_and_says_why(many: Server, limit: str, where: str) -> None:
    sql = f"SELECT count(c) FROM computed_many c {where}"
    sqlstate, message = _sqlstate(many, f"SET sluice.load_limit = '{limit}'", sql)
    assert (sqlstate, "if sluice.load_limit allows for so many" in message) == ("0A000", True)
    assert many.query(sql) == [[str(SMALL_ROWS + 1)]]


def test_the_limit_is_a_size(numbers: Server) -> None:
    assert numbers.query("SHOW sluice.load_limit") == [["4GB"]]
    sqlstate, message = _sqlstate(numbers, "SET sluice.load_limit = 'much'", "SELECT c FROM computed_numbers c")
    assert (sqlstate, 'invalid size: "much"' in message) == ("22023", True)
    with psycopg.connect(numbers.url, autocommit=True) as connection:
        connection.execute("SET sluice.load_limit = '1kB'")
        connection.execute("DISCARD ALL")
        assert connection.execute("SELECT count(c) FROM computed_numbers c").fetchall() == [(_ROWS,)]


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


_FUNCTIONS = """
CREATE TABLE item (n integer PRIMARY KEY, t text);
INSERT INTO item SELECT g, 'item ' || g FROM generate_series(1, 100) g;
CREATE TABLE other (n integer);
INSERT INTO other VALUES (1), (2);
CREATE FUNCTION twice(integer) RETURNS integer IMMUTABLE LANGUAGE sql RETURN $1 * 2;
CREATE FUNCTION neighbour(integer) RETURNS text STABLE LANGUAGE plpgsql AS $$
    BEGIN RETURN (SELECT t FROM item WHERE n = $1 + 1); END $$;
CREATE FUNCTION series(integer) RETURNS SETOF integer STABLE LANGUAGE sql AS 'SELECT generate_series(1, $1)';
CREATE FUNCTION others() RETURNS bigint STABLE LANGUAGE plpgsql AS $$
    DECLARE found bigint; BEGIN EXECUTE 'SELECT count(*) FROM other' INTO found; RETURN found; END $$;
CREATE TABLE keyed (n integer PRIMARY KEY, t text);
INSERT INTO keyed VALUES (1, 'one');
CREATE FUNCTION looked_up(integer) RETURNS text STABLE LANGUAGE plpgsql AS $$
    BEGIN RETURN (SELECT t FROM keyed WHERE n = $1); END $$;
CREATE TABLE checked (n integer CHECK (n >= others()), d text DEFAULT looked_up(1));
CREATE FUNCTION noted(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN PERFORM set_config('application_name', 'noted', false); RETURN $1; END $$;
CREATE TABLE log (n integer);
CREATE FUNCTION written(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO log VALUES ($1); RETURN $1; END $$;
CREATE FUNCTION grown(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO item VALUES ($1 + 1000); RETURN $1; END $$;
CREATE FUNCTION renamed(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN UPDATE item SET t = 'changed' WHERE n = $1; RETURN $1; END $$;
CREATE FUNCTION removed(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN DELETE FROM item WHERE n = $1; RETURN $1; END $$;
CREATE FUNCTION claimed(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN PERFORM FROM item WHERE n = $1 FOR UPDATE; RETURN $1; END $$;
CREATE FUNCTION noted_sum(integer, integer) RETURNS integer LANGUAGE sql AS 'SELECT $1 + $2';
CREATE AGGREGATE product(integer) (SFUNC = int4mul, STYPE = integer, INITCOND = '1');
CREATE AGGREGATE noted_total(integer) (SFUNC = noted_sum, STYPE = integer, INITCOND = '0');
CREATE OPERATOR <%> (LEFTARG = integer, RIGHTARG = integer, FUNCTION = int4mod);
CREATE OPERATOR @ (RIGHTARG = integer, FUNCTION = twice);
CREATE VIEW doubled AS SELECT twice(n) AS n, t FROM item;
"""


@pytest.fixture
def functions(gateway: Server, oracle: Server, schema: str) -> Iterator[tuple[Server, Server, str]]:
    """Functions of users in both servers, and how a statement begins that is to find them."""
    path = f"SET search_path = {schema}; "
    oracle.psql("-qc", f"CREATE SCHEMA {schema}")
    for server in (oracle, gateway):
        server.psql("-q", sql=path + _FUNCTIONS)
    yield oracle, gateway, path
    oracle.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(twice(n)), max(twice(n)) FILTER (WHERE twice(n) < 50) FROM item",
        "SELECT n, neighbour(n) FROM item WHERE n > 97 ORDER BY n",
        "SELECT i.n, s FROM item i, series(i.n) s WHERE i.n < 4 ORDER BY 1, 2",
        "SELECT product(n) FROM item WHERE n BETWEEN 3 AND 7",
        "SELECT n FROM item WHERE n <%> 33 = 0 AND @ n > 70 ORDER BY n",
        "SELECT * FROM doubled WHERE n > 195 ORDER BY 1",
        "CREATE TABLE made AS SELECT twice(n) AS n, neighbour(n) AS t FROM item; SELECT sum(n), max(t) FROM made",
        "INSERT INTO item SELECT n + 100, neighbour(n) FROM item WHERE n < 3 RETURNING n, t",
        "COPY (SELECT twice(n) FROM item WHERE n < 4 ORDER BY n) TO STDOUT",
        "BEGIN; DECLARE c CURSOR FOR SELECT twice(n) FROM item ORDER BY n; FETCH 2 FROM c; ROLLBACK",
        "BEGIN; INSERT INTO item VALUES (101, 'new'); SELECT neighbour(100), count(*) FROM item; ROLLBACK",
        "UPDATE item SET t = neighbour(n) WHERE n > 98 RETURNING n, t; SELECT count(*), max(t) FROM item",
        "DELETE FROM item i USING other o WHERE neighbour(i.n) = 'item ' || o.n RETURNING i.n; SELECT sum(n) FROM item",
        "MERGE INTO item i USING other o ON twice(i.n) = o.n WHEN MATCHED THEN UPDATE SET t = neighbour(2) RETURNING t",
    ],
)
def test_functions_of_users(functions: tuple[Server, Server, str], sql: str) -> None:
    oracle, gateway, path = functions
    assert gateway.psql("-qAtc", path + sql).stdout == oracle.psql("-qAtc", path + sql).stdout


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT n, others() FROM item", "a function that reads a lake table which is not in the query"),
        (
            "INSERT INTO item SELECT n + 100, others()::text FROM item",
            "a function that reads a lake table which is not in",
        ),
        ("CREATE TABLE made AS SELECT others(), n FROM item", "reads a lake table which is not in the query"),
        ("INSERT INTO other SELECT others() FROM item", "a function that reads a lake table which is not in the query"),
        ("INSERT INTO item SELECT noted(n) + 100 FROM item", ".noted(integer) is not supported"),
        ("COPY (SELECT noted_total(n) FROM item) TO STDOUT", ".noted_total(integer) is not supported"),
        ("SELECT written(n) FROM item", 'writing table "log" from within a function'),
        ("SELECT grown(n) FROM item", "a function that changes a lake table of its query"),
        ("SELECT renamed(n) FROM item", "a function that changes a lake table of its query"),
        ("SELECT removed(n) FROM item", "a function that changes a lake table of its query"),
        ("SELECT claimed(n) FROM item", "a function that locks rows of a lake table"),
        ("SELECT i, noted(n) FROM item i LIMIT 1 FOR UPDATE", "not supported on lake tables"),
        (
            "WITH f AS (SELECT others() AS n), gone AS (DELETE FROM item RETURNING t) SELECT * FROM f, gone",
            "a function that reads a lake table",
        ),
        ("SELECT looked_up(1)", "a function that reads a lake table"),
        ("SELECT n, looked_up(n) FROM item", "a function that reads a lake table which is not in the query"),
        ("INSERT INTO item VALUES (others(), 'x')", "a function that reads a lake table"),
        ("INSERT INTO item VALUES (200, looked_up(1))", "a function that reads a lake table"),
        ("INSERT INTO item VALUES (200, neighbour(1))", "a function that reads a lake table"),
        ("INSERT INTO item VALUES (200) RETURNING others()", "a function that reads a lake table"),
        ("INSERT INTO item SELECT others() + g FROM generate_series(200, 201) g", "a function that reads a lake table"),
        (
            "INSERT INTO item VALUES (1, 'x') ON CONFLICT (n) DO UPDATE SET t = others()",
            "a function that reads a lake table",
        ),
        ("INSERT INTO checked VALUES (1, 'x')", "a function that reads a lake table"),
        ("INSERT INTO checked SELECT n, 'x' FROM item WHERE n = 1", "a function that reads a lake table"),
        ("INSERT INTO checked (n) VALUES (NULL)", "a function that reads a lake table"),
        ("PREPARE p (text) AS INSERT INTO item VALUES (200, $1); EXECUTE p (looked_up(1))", "reads a lake table"),
        ("PREPARE p (text) AS DELETE FROM item WHERE t = $1; EXECUTE p (looked_up(1))", "reads a lake table"),
        ("ALTER TABLE item ADD looked text DEFAULT looked_up(1)", "a function that reads a lake table"),
        ("ALTER TABLE keyed ALTER t TYPE text USING looked_up(n)", "not supported on lake tables"),
        ("CREATE TABLE made AS SELECT looked_up(1)", "a function that reads a lake table"),
        ("UPDATE item SET t = others()", "a function that reads a lake table which is not in the query"),
        ("DELETE FROM item WHERE others() > n", "a function that reads a lake table which is not in the query"),
        ("DELETE FROM item WHERE noted(n) = 1", ".noted(integer) is not supported"),
        (
            "MERGE INTO item USING (VALUES (1)) v (n) ON item.n = v.n WHEN MATCHED AND others() > 0 THEN DELETE",
            "a function that reads a lake table which is not in the query",
        ),
    ],
)
def test_functions_of_users_that_stay_refused(functions: tuple[Server, Server, str], sql: str, why: str) -> None:
    """They would find an empty table, or what they do would be undone with the copies."""
    _, gateway, path = functions
    sqlstate, message = _sqlstate(gateway, path, sql)
    assert (sqlstate, why in message) == ("0A000", True)
    kept = "SELECT count(*), max(t) FROM item"
    assert gateway.psql("-qAtc", path + kept).stdout == "100|item 99\n"


async def test_volatile_functions_are_called_for_rows_that_are_taken_alone(
    functions: tuple[Server, Server, str],
) -> None:
    """PostgreSQL would call them for no more rows than a portion has."""
    _, gateway, path = functions
    connection = await asyncpg.connect(gateway.url)
    try:
        await connection.execute(path)
        with pytest.raises(asyncpg.FeatureNotSupportedError, match="the volatile function"):
            await connection.fetchrow("SELECT noted(n) FROM item")
        assert len(await connection.fetch("SELECT noted(n) FROM item")) == 100
    finally:
        await connection.close()


async def test_volatile_functions_would_see_what_others_do_meanwhile(functions: tuple[Server, Server, str]) -> None:
    """Above READ COMMITTED they would not."""
    _, gateway, path = functions
    gateway.psql("-qc", path + "CREATE FUNCTION slow(integer) RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(2)'")
    one, other = await asyncpg.connect(gateway.url), await asyncpg.connect(gateway.url)
    try:
        for connection in (one, other):
            await connection.execute(path)
        for number, level in enumerate(("read_committed", "repeatable_read")):
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(_slow(one, level))
                await asyncio.sleep(1)
                await other.execute(f"INSERT INTO item VALUES ({1000 + number}, 'new')")
            assert asking.result() == (
                "a volatile function over a lake table that others change meanwhile is not supported on lake tables"
                if level == "read_committed"
                else ""
            )
    finally:
        await one.close()
        await other.close()


async def _slow(connection: asyncpg.Connection, level: str) -> str:
    try:
        async with connection.transaction(isolation=level):
            await connection.fetch("SELECT slow(n) FROM item WHERE n = 1")
    except asyncpg.FeatureNotSupportedError as error:
        return str(error)
    return ""


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


def test_portions_count_rows_alone(functions: tuple[Server, Server, str]) -> None:
    """What functions say comes when they say it, and is no row."""
    oracle, gateway, path = functions
    say = (
        "CREATE FUNCTION said(integer) RETURNS integer STABLE LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE NOTICE 'said %', $1; RETURN $1; END $$"
    )
    told = []
    for server in (oracle, gateway):
        server.psql("-qc", path + say)
        with wire(server) as client:
            client.ask(Query(path))
            query = "SELECT said(n) FROM item WHERE n < 4 ORDER BY n"
            answers = client.ask(Parse("", query), Bind("", ""), Execute("", 2), Execute("", 2), Sync())
        told.append([answer for answer in answers if not isinstance(answer, NoticeResponse)])
    assert told[1] == told[0]


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
        sqlstate, message = _sqlstate(many, merge.format(source, condition))
        assert (sqlstate, f"no more than {SMALL_ROWS} rows" in message) == ("0A000", True)


def test_a_role_reads_nothing_this_way_that_it_may_not(reader: Server, schema: str) -> None:
    for sql in (f"SELECT k FROM {schema}.kinds k", f"SELECT factorial(3), hidden FROM {schema}.kinds"):
        sqlstate, message = _sqlstate(reader, sql)
        assert (sqlstate, "permission denied for table kinds" in message) == ("42501", True)


def test_undone_rows_are_swept_out_of_the_shadow(numbers: Server) -> None:
    def size() -> int:
        return int(numbers.query("SELECT pg_relation_size('computed_numbers')")[0][0])

    # The sweeper looks after twenty thousand rows: without it, the shadow would only ever grow.
    peak, deadline = 0, time.monotonic() + 60
    while time.monotonic() < deadline:
        numbers.psql("-qc", "SELECT max(c.t), count(c) FROM computed_numbers c")
        now = size()
        if now < peak:
            return
        peak = max(peak, now)
    raise AssertionError(f"the shadow has grown to {peak} bytes")
