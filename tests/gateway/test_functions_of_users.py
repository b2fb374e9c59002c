"""Users' functions in statements that PostgreSQL executes over rows of the lake, and the detection of their effects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Literal

import asyncpg
import psycopg
import pytest

from gateway.wire.messages.backend import NoticeResponse
from gateway.wire.messages.frontend import Bind, Execute, Parse, Query, Sync
from tests.gateway.wire import wire
from tests.servers import Server, sqlstate_of

_EXECUTE_SECONDS_MAX = 10.0

_Level = Literal["read_committed", "repeatable_read"]
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
CREATE FUNCTION logged(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO log VALUES ($1); RETURN $1; END $$;
CREATE FUNCTION journalled(integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO keyed VALUES ($1); RETURN $1; END $$;
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


@pytest.mark.turns
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
        "INSERT INTO item SELECT noted(n) + 100 FROM item; SELECT sum(n), count(*) FROM item; SHOW application_name",
        "INSERT INTO item SELECT noted_total(n) + 100 FROM item; SELECT sum(n), max(n) FROM item",
        "DELETE FROM item WHERE noted(n) = 1; SELECT sum(n), current_setting('application_name') FROM item",
    ],
)
def test_functions_of_users(functions: tuple[Server, Server, str], sql: str) -> None:
    oracle, gateway, path = functions
    assert gateway.psql("-qAtc", path + sql).stdout == oracle.psql("-qAtc", path + sql).stdout


@pytest.mark.turns
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n, others() FROM item",
        "WITH f AS (SELECT others() AS n), gone AS (DELETE FROM item RETURNING t) SELECT * FROM f, gone",
        "INSERT INTO item SELECT n + 100, others()::text FROM item",
        "INSERT INTO other SELECT others() FROM item",
        "SELECT written(n) FROM item",
        "SELECT grown(n) FROM item",
        "SELECT renamed(n) FROM item",
        "SELECT removed(n) FROM item",
        "SELECT claimed(n) FROM item",
        "SELECT n, looked_up(n) FROM item",
        "INSERT INTO item VALUES (others(), 'x')",
        "INSERT INTO item VALUES (200, looked_up(1))",
        "INSERT INTO item VALUES (200, neighbour(1))",
        "INSERT INTO item VALUES (200) RETURNING others()",
        "INSERT INTO item SELECT others() + g FROM generate_series(200, 201) g",
        "INSERT INTO item VALUES (1, 'x') ON CONFLICT (n) DO UPDATE SET t = others()",
        "INSERT INTO item VALUES (journalled(200), 'x')",
        "INSERT INTO item VALUES (journalled(1), 'x') ON CONFLICT (n) DO NOTHING",
        "INSERT INTO checked (n) VALUES (NULL)",
        "UPDATE item SET t = others()",
        "DELETE FROM item WHERE others() > n",
        "MERGE INTO item USING (VALUES (1)) v (n) ON item.n = v.n WHEN MATCHED AND others() > 0 THEN DELETE",
        "CREATE TABLE made AS SELECT others(), n FROM item; SELECT sum(others), count(*) FROM made",
        "CREATE TABLE made AS SELECT looked_up(1); SELECT * FROM made",
    ],
)
def test_functions_of_users_touch_other_tables(functions: tuple[Server, Server, str], sql: str) -> None:
    oracle, gateway, path = functions
    script = f"{path}\nBEGIN;\n{sql};\nSELECT count(*), max(t) FROM item;\nROLLBACK;\n"
    answers = [server.psql("-qAt", sql=script, merge_output=True).stdout for server in (oracle, gateway)]
    assert answers[1] == answers[0]


@pytest.mark.turns
@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT i, noted(n) FROM item i LIMIT 1 FOR UPDATE", "not supported on lake tables"),
        (
            "CREATE TEMPORARY TABLE log (n integer); INSERT INTO item VALUES (logged(200), 'x')",
            "a function that changes a table",
        ),
        ("INSERT INTO checked VALUES (1, 'x')", "a function that reads a lake table"),
        ("INSERT INTO checked SELECT n, 'x' FROM item WHERE n = 1", "a function that reads a lake table"),
        ("PREPARE p (text) AS INSERT INTO item VALUES (200, $1); EXECUTE p (looked_up(1))", "reads a lake table"),
        ("PREPARE p (text) AS DELETE FROM item WHERE t = $1; EXECUTE p (looked_up(1))", "reads a lake table"),
        ("ALTER TABLE item ADD looked text DEFAULT looked_up(1)", "a function that reads a lake table"),
        ("ALTER TABLE keyed ALTER t TYPE text USING looked_up(n)", "not supported on lake tables"),
    ],
)
def test_functions_of_users_that_stay_refused(functions: tuple[Server, Server, str], sql: str, why: str) -> None:
    """They would find an empty table, or what they do would be undone with the copies."""
    _, gateway, path = functions
    sqlstate, message = sqlstate_of(gateway, path, sql)
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
        levels: tuple[_Level, ...] = ("read_committed", "repeatable_read")
        for number, level in enumerate(levels):
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


async def _slow(connection: asyncpg.Connection, level: _Level) -> str:
    try:
        async with connection.transaction(isolation=level):
            await connection.fetch("SELECT slow(n) FROM item WHERE n = 1")
    except asyncpg.FeatureNotSupportedError as error:
        return str(error)
    return ""


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


@pytest.mark.turns
@pytest.mark.parametrize("began", ["", "BEGIN", "BEGIN; CREATE TABLE item (n integer)", "BEGIN; TRUNCATE item"])
@pytest.mark.parametrize(
    "truncating", ["SELECT emptied()", "CALL empties()", "DO 'BEGIN TRUNCATE referred CASCADE; END'"]
)
def test_truncate_within_functions(gateway: Server, schema: str, began: str, truncating: str) -> None:
    """It empties the lake's table, not the shadow alone, also beside deferred changes of schemas."""
    gateway.psql(
        "-q",
        sql=f"""
        SET search_path = {schema};
        CREATE TABLE item (n integer);
        CREATE TABLE referred (n integer PRIMARY KEY REFERENCES referred);
        CREATE SCHEMA {schema}_other;
        CREATE FUNCTION emptied() RETURNS void LANGUAGE sql AS 'TRUNCATE item';
        CREATE PROCEDURE empties() LANGUAGE plpgsql AS 'BEGIN TRUNCATE item, referred; END';
        """,
    )
    path = f"{schema}_other, {schema}"
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={path.replace(' ', '')}") as connection:
        if began:
            connection.execute(began.encode())
        connection.execute("INSERT INTO item VALUES (1)")
        connection.execute("SAVEPOINT s" if began else "SELECT")
        rows = [] if "empt" in truncating else [(1,)]
        connection.execute(truncating.encode())
        assert connection.execute("SELECT n FROM item").fetchall() == rows
        if began:
            connection.execute("ROLLBACK TO s")
            assert connection.execute("SELECT n FROM item").fetchall() == [(1,)]
            connection.execute(truncating.encode())
            connection.execute("COMMIT")
        assert connection.execute("SELECT n FROM item").fetchall() == rows
        connection.execute("INSERT INTO item VALUES (1)")
        connection.execute("TRUNCATE item")
        assert connection.execute("SELECT n FROM item").fetchall() == []
    gateway.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {schema}_other CASCADE")


def test_execute_of_a_long_text(gateway: Server, schema: str) -> None:
    """The function is found behind much white space without delay, and draws one number each time."""
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}")
        connection.execute("CREATE TABLE numbered (id serial, n integer)")
        connection.execute(
            "CREATE FUNCTION numbers(integer) RETURNS integer LANGUAGE sql"
            " AS $$ INSERT INTO numbered (n) VALUES ($1) RETURNING id $$"
        )
        gap = " " * 200_000
        connection.execute(f"PREPARE numbering{gap}(integer){gap}AS SELECT numbers($1)".encode())
        began = time.monotonic()
        assert [connection.execute("EXECUTE numbering(5)").fetchone() for _ in range(2)] == [(1,), (2,)]
        assert time.monotonic() - began < _EXECUTE_SECONDS_MAX
