"""A cursor WITH HOLD is filled while COMMIT lets no other session commit: it may run no query of a client's then."""

from __future__ import annotations

import contextlib
import threading

import psycopg
import pytest

from tests.security.waiting import slowest_beside
from tests.servers import Server

_SLOW = "SELECT pg_sleep(6)"
_OVER_LAKE = "SELECT pg_sleep(6), count(*) FROM u"


@pytest.mark.parametrize("change", ["INSERT INTO t VALUES (1)", "CREATE TABLE made ()"])
@pytest.mark.parametrize(("query", "state"), [(_SLOW, "0A000"), (_OVER_LAKE, None)])
def test_nobody_waits_for_the_query_of_a_held_cursor(
    gateway: Server, schema: str, change: str, query: str, state: str | None
) -> None:
    options = f"-csearch_path={schema}"
    with psycopg.connect(gateway.url, autocommit=True, options=options) as other:
        other.execute("CREATE TABLE t (n integer); CREATE TABLE u (n integer)")
        ended: list[str | None] = []

        def hold() -> None:
            with psycopg.connect(gateway.url, autocommit=True, options=options) as connection:
                for statement in ("BEGIN", change, f"DECLARE c CURSOR WITH HOLD FOR {query}"):
                    connection.execute(statement.encode())
                try:
                    connection.execute("COMMIT")
                    connection.execute("FETCH c")
                    ended.append(None)
                except psycopg.Error as error:
                    ended.append(error.sqlstate)

        slowest, _ = slowest_beside(threading.Thread(target=hold), other, "INSERT INTO u VALUES (1)")
        assert ended == [state], "FETCH says what COMMIT has kept"
        assert slowest < 2
        if state is not None:
            assert other.execute("SELECT count(*) FROM t").fetchone() == (0,), "what is refused changes nothing"


def test_the_block_may_be_prepared_and_the_cursor_closed(gateway: Server, schema: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute("CREATE TABLE t (n integer)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 1")
        connection.execute("CLOSE c")
        connection.execute("COMMIT")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1,)


_SLEEP = "SELECT pg_sleep(6)"
_WAYS = {
    "a name that is a keyword": f'INSERT INTO t VALUES (1); DECLARE "for" CURSOR WITH HOLD FOR {_SLEEP}',
    "a function": f"INSERT INTO t VALUES (1); SELECT declares($$DECLARE d CURSOR WITH HOLD FOR {_SLEEP}$$) FROM u",
    "a change of schema behind it": f"DECLARE c CURSOR WITH HOLD FOR {_SLEEP}; ALTER TABLE t ADD x integer",
    "the name of a lake's cursor": "INSERT INTO t VALUES (1); DECLARE c CURSOR FOR SELECT * FROM t; CLOSE c;"
    f" DECLARE c CURSOR WITH HOLD FOR {_SLEEP}",
    "a cursor that has failed": "INSERT INTO t VALUES (1); DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT pg_sleep(6),"
    " count(*) FROM u; SAVEPOINT s; FETCH BACKWARD 1 FROM c",
}


@pytest.mark.parametrize("way", _WAYS)
def test_no_way_around(gateway: Server, schema: str, way: str) -> None:
    options = f"-csearch_path={schema}"
    with (
        psycopg.connect(gateway.url, autocommit=True, options=options) as other,
        psycopg.connect(gateway.url, autocommit=True, options=options) as client,
    ):
        other.execute("CREATE TABLE t (n integer); CREATE TABLE u (n integer); INSERT INTO u VALUES (1)")
        other.execute(
            "CREATE FUNCTION declares(sql text) RETURNS integer LANGUAGE plpgsql AS"
            " $$ BEGIN EXECUTE sql; RETURN 1; END $$"
        )
        client.execute("BEGIN")
        try:
            client.execute(_WAYS[way].encode())
        except psycopg.Error as error:
            if error.sqlstate == "0A000":  # refused before COMMIT
                return
            client.execute("ROLLBACK TO s")
        committing = threading.Thread(target=_commit, args=(client,))
        slowest, _ = slowest_beside(committing, other, "INSERT INTO u VALUES (1)")
        assert slowest < 2


def _commit(client: psycopg.Connection) -> None:
    with contextlib.suppress(psycopg.errors.FeatureNotSupported):
        client.execute("COMMIT")


def test_a_block_whose_changes_are_undone_may_hold(gateway: Server, schema: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute("CREATE TABLE t (n integer)")
        for statement in ("BEGIN", "SAVEPOINT s", "INSERT INTO t VALUES (1)", "ROLLBACK TO s"):
            connection.execute(statement.encode())
        connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 1")
        connection.execute("COMMIT")
        assert connection.execute("FETCH c").fetchone() == (1,)
