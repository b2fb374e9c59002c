"""Procedures and code blocks that end transactions: what others see meanwhile, by every protocol, and cancelled.

What they do alone, beside PostgreSQL, is in tests/golden/sessions and in random functions (tests/functions).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import asyncpg
import psycopg
import pytest
from psycopg import pq

from tests.gateway.both_sides import both_sides
from tests.servers import Server

_SCHEMA = "procedures"
_TABLES = """
CREATE TABLE job (id integer PRIMARY KEY, done boolean DEFAULT false);
CREATE TABLE noted (who text, n integer);
CREATE PROCEDURE work(batch integer, INOUT total integer DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    LOOP
        UPDATE job SET done = true WHERE id IN (SELECT id FROM job WHERE NOT done ORDER BY id LIMIT batch);
        GET DIAGNOSTICS n = ROW_COUNT;
        EXIT WHEN n = 0;
        total := total + n;
        COMMIT;
        PERFORM pg_advisory_lock(774411); PERFORM pg_advisory_unlock(774411);
    END LOOP;
END $$;
CREATE PROCEDURE told(INOUT a integer, INOUT b bytea, INOUT c timestamptz, INOUT d numeric) LANGUAGE plpgsql AS $$
BEGIN COMMIT; a := a + 1; d := d / 3; END $$;
CREATE PROCEDURE whose() LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO noted VALUES (current_user || ' ' || session_user, 1);
    COMMIT;
    INSERT INTO noted VALUES (current_user || ' ' || session_user, 2);
END $$;
"""
_ENDLESS = "DO $$ BEGIN LOOP COMMIT; END LOOP; END $$"
_SECONDS_MAX = 20.0


@pytest.fixture
def sides(oracle: Server, gateway: Server) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    with both_sides(oracle, gateway, _SCHEMA, _TABLES) as connections:
        yield connections


def _connect(server: Server, **more: object) -> psycopg.Connection:
    options = f"-c search_path={_SCHEMA}"
    return psycopg.connect(server.url, autocommit=True, options=options, **more)  # type: ignore[arg-type]


def _heard(connection: psycopg.Connection) -> list[str | None]:
    """The messages that come from now on."""
    said = list[str | None]()

    def hear(told: psycopg.errors.Diagnostic) -> None:
        said.append(told.message_primary)

    connection.add_notice_handler(hear)
    return said


@pytest.mark.usefixtures("sides")
def test_others_see_what_is_committed(gateway: Server) -> None:
    with _connect(gateway) as other, _connect(gateway) as locking:
        other.execute("INSERT INTO job SELECT g FROM generate_series(1, 25) g")
        locking.execute("SELECT pg_advisory_lock(774411)")

        async def working() -> int:
            connection = await asyncpg.connect(gateway.url, server_settings={"search_path": _SCHEMA})
            [row] = await connection.fetch("CALL work($1, $2)", 10, 0)
            await connection.close()
            return int(row["total"])

        async def watching() -> list[int]:
            called, seen = asyncio.create_task(working()), []
            for _ in range(200):
                [[done]] = other.execute("SELECT count(*) FROM job WHERE done").fetchall()
                if done:
                    seen.append(done)
                    break
                await asyncio.sleep(0.1)
            locking.execute("SELECT pg_advisory_unlock(774411)")
            return [*seen, await called]

        assert asyncio.run(watching()) == [10, 25]


@pytest.mark.parametrize("result_format", [pq.Format.TEXT, pq.Format.BINARY])
def test_outputs_have_the_clients_format(
    sides: tuple[psycopg.Connection, psycopg.Connection], result_format: pq.Format
) -> None:
    answers = []
    for connection in sides:
        cursor = connection.cursor(binary=result_format is pq.Format.BINARY)
        sql = "CALL told(%s::integer, %b::bytea, %s::timestamptz, %s::numeric)"
        cursor.execute(sql, (4, b"\0\xff", "2020-01-02 03:04:05.678+02", "10"))
        assert cursor.description is not None
        answers.append((cursor.fetchall(), [column.type_code for column in cursor.description], cursor.statusmessage))
    assert answers[0] == answers[1]


def test_only_the_first_statement_of_a_pipeline_ends_transactions(
    sides: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    answers = []
    for connection in sides:
        said = list[object]()
        for first, second in (("CALL whose()", "SELECT 1"), ("SELECT 1", "CALL whose()")):
            try:
                with connection.pipeline():
                    connection.execute(first)
                    connection.execute(second)
                said.append("good")
            except psycopg.Error as error:
                said.append((error.sqlstate, error.diag.message_primary, error.diag.context))
        said += connection.execute("SELECT * FROM noted ORDER BY n").fetchall()
        answers.append(said)
    assert answers[0] == answers[1]


def test_steps_are_the_clients(sides: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    answers = []
    for connection in sides:
        connection.execute("CREATE ROLE procedures_low; GRANT procedures_low TO CURRENT_USER")
        connection.execute(f"GRANT USAGE ON SCHEMA {_SCHEMA} TO procedures_low")
        try:
            connection.execute("SET ROLE procedures_low")
            with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
                connection.execute("CALL whose()")
            connection.execute("RESET ROLE; GRANT INSERT ON noted TO procedures_low; SET ROLE procedures_low")
            connection.execute("CALL whose()")
            connection.execute("RESET ROLE; REVOKE EXECUTE ON PROCEDURE whose() FROM PUBLIC; SET ROLE procedures_low")
            with pytest.raises(psycopg.errors.InsufficientPrivilege) as denied:
                connection.execute("CALL whose()")
            connection.execute("RESET ROLE")
            rows = connection.execute("SELECT * FROM noted ORDER BY n").fetchall()
            answers.append([str(refused.value), str(denied.value), *rows])
        finally:
            connection.execute("RESET ROLE; DROP OWNED BY procedures_low; DROP ROLE procedures_low")
    assert answers[0] == answers[1]


def test_an_endless_loop_is_cancelled_and_timed_out(gateway: Server) -> None:
    with _connect(gateway) as connection, _connect(gateway) as other:
        connection.execute("SET statement_timeout = '1s'")
        began = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled, match="timeout"):
            connection.execute(_ENDLESS)
        assert time.monotonic() - began < _SECONDS_MAX
        connection.execute("SET statement_timeout = 0")

        async def cancelled() -> None:
            running = asyncio.create_task(asyncio.to_thread(connection.execute, _ENDLESS))
            await asyncio.sleep(0.5)
            assert other.execute("SELECT 1").fetchall() == [(1,)]
            await asyncio.to_thread(connection.cancel)
            with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
                await running

        asyncio.run(cancelled())
        assert connection.execute("SELECT 2").fetchall() == [(2,)]


def test_what_is_committed_stays_when_a_later_commit_fails(
    sides: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    answers = []
    for connection in sides:
        connection.execute("CREATE TABLE late (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        with pytest.raises(psycopg.errors.UniqueViolation) as raised:
            connection.execute(
                "DO $$ BEGIN FOR i IN 1..5 LOOP INSERT INTO late VALUES (i % 4); COMMIT; END LOOP; END $$;"
            )
        rows = connection.execute("SELECT n FROM late ORDER BY 1").fetchall()
        answers.append((rows, raised.value.diag.context, raised.value.diag.message_detail))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_each_transaction_has_a_snapshot_of_its_own(
    sides: tuple[psycopg.Connection, psycopg.Connection], oracle: Server, gateway: Server, level: str
) -> None:
    answers = []
    for server, connection in zip((oracle, gateway), sides, strict=True):
        said = _heard(connection)
        connection.execute(f"SET default_transaction_isolation = '{level}'")
        with _connect(server) as other, _connect(server) as locking:
            locking.execute("SELECT pg_advisory_lock(774412)")

            async def watching(connection: psycopg.Connection, other: psycopg.Connection) -> None:
                sql = (
                    "DO $$ BEGIN RAISE NOTICE '% %', (SELECT count(*) FROM noted),"
                    " current_setting('transaction_isolation'); PERFORM pg_advisory_lock_shared(774412);"
                    " RAISE NOTICE '%', (SELECT count(*) FROM noted); COMMIT;"
                    " RAISE NOTICE '%', (SELECT count(*) FROM noted); END $$"
                )
                running = asyncio.create_task(asyncio.to_thread(connection.execute, sql))
                await asyncio.sleep(1.0)
                other.execute("INSERT INTO noted VALUES ('other', 1)")
                locking.execute("SELECT pg_advisory_unlock(774412)")
                await running

            asyncio.run(watching(connection, other))
        answers.append(said)
    assert answers[0] == answers[1] == [f"0 {level}", "0", "1"]


def test_texts_are_converted(oracle: Server, gateway: Server) -> None:
    answers = []
    sql = (
        "DO $$ DECLARE t text := 'é ''ü'; r record; BEGIN SELECT 'ö' AS ä, 1 AS n INTO r; COMMIT;"
        " RAISE NOTICE '% % %', t, r.ä, length(t); COMMIT; RAISE EXCEPTION 'no %', r.ä; END $$"
    )
    for server in (oracle, gateway):
        with _connect(server, client_encoding="latin1") as connection:
            said = _heard(connection)
            with pytest.raises(psycopg.errors.RaiseException) as raised:
                connection.execute(sql)
            answers.append([*said, raised.value.diag.message_primary])
    assert answers[0] == answers[1] == ["é 'ü ö 4", "no ö"]


def test_read_only_transactions_change_nothing(sides: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    answers = []
    for connection in sides:
        connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as raised:
            connection.execute("CALL whose()")
        connection.execute("SET default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as later:
            connection.execute(
                "DO $$ BEGIN INSERT INTO noted VALUES ('x', 1); COMMIT; SET TRANSACTION READ ONLY;"
                " INSERT INTO noted VALUES ('y', 2); END $$"
            )
        rows = connection.execute("SELECT * FROM noted").fetchall()
        answers.append((str(raised.value), str(later.value), rows))
    assert answers[0] == answers[1]


def test_recursion_ends(sides: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    _, connection = sides
    connection.execute("CREATE PROCEDURE again() LANGUAGE plpgsql AS 'BEGIN COMMIT; CALL again(); END'")
    with pytest.raises(psycopg.errors.StatementTooComplex):
        connection.execute("CALL again()")
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_code_that_is_too_long_is_refused(gateway: Server) -> None:
    with _connect(gateway) as connection, pytest.raises(psycopg.errors.FeatureNotSupported, match="262144 characters"):
        connection.execute(f"DO $$ BEGIN COMMIT; {'NULL; ' * 50_000} END $$".encode())
