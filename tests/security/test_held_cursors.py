"""A cursor WITH HOLD is filled while COMMIT lets no other session commit: it may run no query of a client's then."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

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

        holder = threading.Thread(target=hold)
        holder.start()
        slowest = 0.0
        while holder.is_alive():
            began = time.monotonic()
            other.execute("INSERT INTO u VALUES (1)")
            slowest = max(slowest, time.monotonic() - began)
        assert ended == [state]
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
