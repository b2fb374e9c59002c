"""Prepared statements whose names SQL, or a function, gives to others; and Binds that fit or do not, in pipelines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from gateway.wire.messages.frontend import Bind, Describe, Execute, Parse, Query, Sync
from gateway.wire.messages.layout import Message
from tests.gateway.wire import assert_same_answers
from tests.servers import Server

_TABLE = "wire_names"
_QUERY = f"SELECT n, t FROM {_TABLE} ORDER BY n"
_FORGETS = "LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'DEALLOCATE s'; END $$"


@pytest.fixture
def both(oracle: Server, gateway: Server) -> Iterator[tuple[Server, Server]]:
    """The two servers, with the same small table."""
    for server in (oracle, gateway):
        server.psql(
            "-qc",
            f"CREATE TABLE {_TABLE} (n integer NOT NULL, t text);"
            f"INSERT INTO {_TABLE} SELECT n, 'row ' || n FROM generate_series(1, 10) n",
        )
    yield oracle, gateway
    for server in (oracle, gateway):
        server.psql("-qc", f"DROP TABLE {_TABLE}")


def _do(sql: str) -> list[Message]:
    return [Parse("", sql), Bind("", ""), Describe(b"P", ""), Execute("")]


def _executed(statement: str) -> list[Message]:
    return [Bind("", statement), Execute("")]


_SCRIPTS: dict[str, list[Sequence[Message]]] = {
    "a name that SQL gives to another statement": [
        [Parse("s", f"SELECT n, t FROM {_TABLE} WHERE n < $1 ORDER BY n"), Sync()],
        [Bind("", "s", (), (b"3",)), Describe(b"P", ""), Execute(""), Sync()],
        [Query("DEALLOCATE s")],
        [Bind("", "s", (), (b"3",)), Execute(""), Sync()],
        [Query(f"PREPARE s AS SELECT count(*) FROM {_TABLE}")],
        [Bind("", "s"), Describe(b"P", ""), Execute(""), Sync()],
        [Bind("", "s", (), (b"3",)), Execute(""), Sync()],
        [Query("DEALLOCATE ALL")],
        [Parse("s", f"SELECT max(n) FROM {_TABLE}"), Bind("", "s"), Execute(""), Sync()],
        [Bind("", "s"), Execute(""), Bind("", "s"), Execute(""), Sync()],
        [*_do("DEALLOCATE s"), Sync()],
        [Bind("", "s"), Execute(""), Sync()],
        [Parse("s", _QUERY), Parse("d", "DEALLOCATE s"), *_executed("d"), *_executed("s"), Sync()],
        [Parse("s", f"DELETE FROM {_TABLE} WHERE n = 2"), Bind("", "s"), Execute(""), Sync()],
        [Query("DISCARD ALL; SELECT 1")],
        [Bind("", "s"), Execute(""), Sync()],
        [Parse("s", "SELECT 8"), Bind("", "s"), Execute(""), Sync()],
        [Bind("", "s"), Execute(""), Sync()],
    ],
    "a name that a function gives to another statement": [
        [Query(f"CREATE FUNCTION pg_temp.forget() RETURNS void {_FORGETS}")],
        [Parse("s", _QUERY), Bind("", "s"), Execute(""), Sync()],
        [*_do("SELECT pg_temp.forget()"), Bind("", "s"), Execute(""), Sync()],
        [Parse("s", f"SELECT min(t) FROM {_TABLE}"), Sync()],
        [Bind("", "s"), Execute(""), Sync()],
        [Query("DO $$ BEGIN EXECUTE 'DEALLOCATE s'; EXECUTE 'PREPARE s AS SELECT 5'; END $$")],
        [Bind("", "s"), Describe(b"P", ""), Execute(""), Sync()],
    ],
    "in one pipeline, what fits and what does not": [
        [Parse("s", f"UPDATE {_TABLE} SET t = $1 WHERE n = $2"), Sync()],
        [Bind("", "s", (), (b"a", b"1")), Execute(""), Bind("", "s", (), (b"b", b"x")), Execute(""), Sync()],
        [Bind("", "s", (), (b"c", b"1")), Execute(""), Bind("", "s", (), (b"d",)), Execute(""), Sync()],
        [Query("BEGIN")],
        [Bind("", "s", (), (b"e", b"1")), Execute(""), Sync()],
        [Bind("", "s", (), (b"f", b"99999999999")), Execute(""), Sync()],
        [Query("ROLLBACK")],
        [Query(f"SELECT t FROM {_TABLE} WHERE n = 1")],
        [Sync(), Sync()],
        [Bind("", "s", (), (b"g", b"1")), Sync()],
        [Execute(""), Sync()],
        [Bind("", "s", (), (b"h", b"1")), Sync(), Query("SELECT 1"), Execute(""), Sync()],
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", _SCRIPTS)
def test_answers_as_postgresql_does(both: tuple[Server, Server], name: str) -> None:
    assert_same_answers(both, _SCRIPTS[name])
