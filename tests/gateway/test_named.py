"""Named objects on the wire: cursors of SQL, portals and prepared statements, each through either protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

from gateway.wire.messages.backend import CommandComplete, DataRow, ErrorResponse, ReadyForQuery
from gateway.wire.messages.frontend import Bind, Close, Describe, Execute, Parse, Query, Sync
from gateway.wire.messages.layout import Message
from tests.gateway.wire import assert_same_answers, wire
from tests.servers import Server

_TABLE = "wire_named"
_QUERY = f"SELECT n, t FROM {_TABLE} ORDER BY n"


@pytest.fixture(scope="module")
def both(oracle: Server, gateway: Server) -> Iterator[tuple[Server, Server]]:
    """The two servers, with the same small table."""
    yield oracle, gateway
    for server in (oracle, gateway):
        server.psql("-qc", f"DROP TABLE {_TABLE}")


@pytest.fixture(autouse=True)
def ten_rows(both: tuple[Server, Server]) -> None:
    for server in both:
        server.psql(
            "-qc",
            f"SET client_min_messages = error; DROP TABLE IF EXISTS {_TABLE};"
            f"CREATE TABLE {_TABLE} (n integer NOT NULL, t text);"
            f"INSERT INTO {_TABLE} SELECT n, 'row ' || n FROM generate_series(1, 10) n",
        )


def _do(sql: str, *parameters: bytes, formats: tuple[int, ...] = ()) -> list[Message]:
    return [Parse("", sql), Bind("", "", (), parameters, formats), Describe(b"P", ""), Execute("")]


def _described(sql: str) -> list[Message]:
    return [Parse("", sql), Describe(b"S", ""), Sync()]


_BEGIN = [Query("BEGIN")]
_ROLLBACK = [Query("ROLLBACK")]
_DECLARE = [Query(f"DECLARE c SCROLL CURSOR FOR {_QUERY}")]

_SCRIPTS: dict[str, list[Sequence[Message]]] = {
    "a cursor in the extended protocol": [
        _BEGIN,
        [*_do(f"DECLARE c CURSOR FOR SELECT n, t FROM {_TABLE} WHERE n > $1 ORDER BY n", b"4"), Sync()],
        _described("FETCH 2 FROM c"),
        [*_do("FETCH 2 FROM c"), Sync()],
        [*_do("FETCH 2 FROM c", formats=(1,)), *_do("FETCH 1 FROM c", formats=(0, 1)), Sync()],
        [*_do("MOVE 1 IN c"), *_do("FETCH ALL FROM c"), *_do("CLOSE c"), *_do("FETCH c"), Sync()],
        _ROLLBACK,
    ],
    "a pipeline declares, fetches and ends": [
        [*_do("BEGIN"), *_do(f"DECLARE c CURSOR FOR {_QUERY}"), *_do("FETCH 3 FROM c"), *_do("COMMIT"), Sync()],
        [Query("FETCH c")],
    ],
    "outside of a block": [[*_do(f"DECLARE c CURSOR FOR {_QUERY}"), Sync()]],
    "in the implicit block of a pipeline": [
        [*_do("SELECT 1"), *_do(f"DECLARE c CURSOR FOR {_QUERY}"), *_do("FETCH 3 FROM c"), Sync()],
        [*_do("FETCH 1 FROM c"), Sync()],
    ],
    "WITH HOLD outside of a block": [
        [*_do(f"DECLARE held CURSOR WITH HOLD FOR {_QUERY}"), Sync()],
        [*_do("FETCH 2 FROM held"), Sync()],
        [Query("FETCH BACKWARD 1 FROM held")],
        [*_do("CLOSE held"), Sync()],
    ],
    "WITH HOLD that fails at Sync": [
        [*_do(f"DECLARE held CURSOR WITH HOLD FOR SELECT 1 / (n - 3) FROM {_TABLE}"), Sync()],
        [Query("FETCH 2 FROM held")],
    ],
    "a binary cursor": [
        _BEGIN,
        [Query(f"DECLARE c BINARY CURSOR FOR {_QUERY}")],
        [Query("FETCH 2 FROM c")],
        _described("FETCH 2 FROM c"),
        [*_do("FETCH 2 FROM c"), Sync()],
        [*_do("FETCH 2 FROM c", formats=(1,)), Sync()],
        [Query("SELECT name, is_binary FROM pg_cursors")],
        _ROLLBACK,
    ],
    "a cursor that can no longer scroll at the backend": [
        _BEGIN,
        [Query(f"DECLARE c BINARY SCROLL CURSOR FOR {_QUERY}")],
        [Query("SAVEPOINT s")],
        _described("FETCH 2 FROM c"),
        [*_do("FETCH 2 FROM c"), Sync()],
        [Parse("m", "MOVE 1 IN c"), Describe(b"S", "m"), Describe(b"P", "c"), Sync()],
        [*_do("FETCH BACKWARD 1 FROM c", formats=(0,)), Sync()],
        [Query("ROLLBACK TO s; FETCH 1 FROM c; CLOSE c")],
        _described("FETCH 2 FROM c"),
        _ROLLBACK,
    ],
    "a row limit on FETCH": [
        _BEGIN,
        _DECLARE,
        [Parse("f", "FETCH 5 FROM c"), Bind("p", "f"), Describe(b"P", "p"), Execute("p", 2), Execute("p", 2), Sync()],
        [Execute("p", 2), Sync()],
        [Query("FETCH 1 FROM c")],
        [Bind("p2", "f"), Execute("p2", 4), Sync()],
        [Execute("p2"), Sync()],
        _ROLLBACK,
    ],
    "a prepared FETCH finds whatever has the name": [
        [Parse("f", "FETCH 2 FROM c"), Describe(b"S", "f"), Sync()],
        [Bind("", "f"), Execute(""), Sync()],
        _BEGIN,
        [Query("DECLARE c CURSOR FOR SELECT generate_series(1, 9) AS g")],
        [Bind("", "f"), Describe(b"P", ""), Execute(""), Sync()],
        [Query("CLOSE c")],
        _DECLARE,
        [Bind("", "f"), Describe(b"P", ""), Execute(""), Sync()],
        _ROLLBACK,
        _BEGIN,
        [Query("DECLARE c CURSOR FOR SELECT 'x'")],
        [Bind("", "f"), Describe(b"P", ""), Execute(""), Sync()],
        _ROLLBACK,
    ],
    "Execute of a cursor": [
        _BEGIN,
        _DECLARE,
        [Describe(b"P", "c"), Execute("c", 3), Sync()],
        [Query("FETCH 1 FROM c")],
        [Execute("c", 4), Execute("c"), Execute("c"), Sync()],
        [Bind("c", ""), Sync()],
        _ROLLBACK,
    ],
    "a name that is taken": [
        _BEGIN,
        _DECLARE,
        [Parse("", _QUERY), Bind("c", ""), Sync()],
        _ROLLBACK,
        _BEGIN,
        [Parse("", _QUERY), Bind("c", ""), Execute("c", 1), Sync()],
        _DECLARE,
        _ROLLBACK,
    ],
    "the protocol's Close": [
        _BEGIN,
        _DECLARE,
        [Close(b"P", "c"), Sync()],
        [Query("FETCH c")],
        _ROLLBACK,
    ],
    "a portal over several Syncs": [
        _BEGIN,
        [Parse("", _QUERY), Bind("p", "", (), (), (1,)), Describe(b"P", "p"), Execute("p", 3), Sync()],
        [Query("SELECT 1")],
        [Execute("p", 3), Sync()],
        [Query(f"DELETE FROM {_TABLE} WHERE n > 8")],
        [*_do(f"SELECT count(*) FROM {_TABLE}"), Sync()],
        [Execute("p", 3), Sync()],
        [Execute("p", 3), Sync()],
        [Close(b"P", "p"), Execute("p"), Sync()],
        _ROLLBACK,
    ],
    "SQL reads and moves the protocol's portal": [
        _BEGIN,
        [Parse("", _QUERY), Bind("p", "", (), (), (1,)), Execute("p", 2), Sync()],
        [Query("FETCH 2 FROM p")],
        [Query("MOVE 1 IN p")],
        [Execute("p", 1), Sync()],
        [Query("FETCH BACKWARD 2 FROM p")],
        [Query("SELECT name, statement, is_holdable, is_binary, is_scrollable FROM pg_cursors ORDER BY name")],
        [*_do("FETCH 2 FROM p", formats=(1,)), Execute("p", 1), Sync()],
        [Query("CLOSE p")],
        [Execute("p", 1), Sync()],
        _ROLLBACK,
    ],
    "the row that a portal is on": [
        _BEGIN,
        [Parse("", f"SELECT t, n FROM {_TABLE} WHERE n > $1 LIMIT 4"), Bind("p", "", (), (b"2",), (1,)),
         Describe(b"P", "p"), Execute("p", 2), Sync()],
        [*_do(f"UPDATE {_TABLE} SET t = t || '!' WHERE CURRENT OF p RETURNING *", formats=(1, 0)), Sync()],
        [*_do("FETCH 1 FROM p", formats=(1,)), *_do(f"DELETE FROM {_TABLE} WHERE CURRENT OF p RETURNING *"), Sync()],
        [Execute("p", 1), *_do(f"UPDATE {_TABLE} SET n = $1 WHERE CURRENT OF p RETURNING *", b"66"), Sync()],
        [Query("SAVEPOINT s")],
        [Execute("p", 1), *_do(f"DELETE FROM {_TABLE} WHERE CURRENT OF p"), Sync()],
        [Query("ROLLBACK TO s")],
        [Query(f"SELECT * FROM {_TABLE} ORDER BY n")],
        _ROLLBACK,
    ],
    "the row that a cursor of a pipeline is on": [
        [*_do(f"DECLARE c CURSOR WITH HOLD FOR SELECT t FROM {_TABLE}"), *_do("FETCH 3 FROM c"),
         *_do(f"UPDATE {_TABLE} SET t = 'x' WHERE CURRENT OF c RETURNING n"), Sync()],
        [*_do("FETCH 1 FROM c"), *_do(f"UPDATE {_TABLE} SET t = 'x' WHERE CURRENT OF c RETURNING n"), Sync()],
        [Query("CLOSE c")],
        [Query(f"DECLARE c CURSOR WITH HOLD FOR SELECT t FROM {_TABLE} WHERE n = 4")],
        [Query("FETCH c")],
        [Query(f"UPDATE {_TABLE} SET t = 'x' WHERE CURRENT OF c RETURNING n")],
        [Query("CLOSE c")],
    ],
    "portals and savepoints": [
        _BEGIN,
        [Parse("q", _QUERY), Bind("p", "q"), Execute("p", 2), Sync()],
        [Query("SAVEPOINT s")],
        [Bind("later", "q"), Execute("later", 2), Sync()],
        [Bind("p", "q"), Execute("p", 2), Sync()],
        [Execute("p", 2), Sync()],
        [Query("ROLLBACK TO s")],
        [Execute("p", 2), Sync()],
        [Execute("later", 2), Sync()],
        [Query("ROLLBACK TO s")],
        [Bind("later", "q"), Execute("later", 2), Close(b"P", "later"), Sync()],
        [Bind("later", "q"), Execute("later", 1), Sync()],
        [Query("COMMIT")],
        [Execute("p", 2), Sync()],
    ],
    "a portal of a pipeline": [
        [Parse("", _QUERY), Bind("p", ""), Execute("p", 2), Execute("p", 3), Sync()],
        [Execute("p"), Sync()],
        [*_do(f"DELETE FROM {_TABLE} WHERE n = 1"), Parse("", _QUERY), Bind("p", ""), Execute("p", 2), Sync()],
        [Parse("", _QUERY), Bind("p", ""), Execute("p", 2), *_do("SELECT 1 / 0"), Sync()],
        [*_do(f"SELECT count(*) FROM {_TABLE}"), Sync()],
    ],
    "one portal after another of the same name": [
        _BEGIN,
        [Parse("", _QUERY), Bind("p", ""), Execute("p", 2), Close(b"P", "p"),
         Parse("", "SELECT generate_series(1, 3)"), Bind("p", ""), Execute("p", 2), Sync()],
        [Execute("p"), Close(b"P", "p"), Parse("", _QUERY), Bind("p", ""), Describe(b"P", "p"), Execute("p"), Sync()],
        _ROLLBACK,
    ],
    "functions that read nothing of the lake": [
        [Query("CREATE FUNCTION pg_temp.made(n integer) RETURNS SETOF integer LANGUAGE plpgsql AS"
               " $$ BEGIN RETURN QUERY SELECT generate_series(1, n); END $$")],
        [Query("COPY (SELECT pg_temp.made(3)) TO STDOUT")],
        [*_do("COPY (SELECT pg_temp.made(3)) TO STDOUT"), Sync()],
        [Query("CREATE TEMP TABLE made_of AS SELECT pg_temp.made(3)")],
        [Query("EXPLAIN (COSTS OFF) SELECT pg_temp.made(3)")],
        [Query("SELECT * FROM made_of")],
        [Query("DROP TABLE made_of")],
    ],
    "an error in a block with a cursor": [
        _BEGIN,
        _DECLARE,
        [Query("SAVEPOINT s")],
        [*_do("SELECT 1 / 0"), Sync()],
        [*_do("FETCH 1 FROM c"), Sync()],
        [Execute("c", 1), Sync()],
        [Query("ROLLBACK TO s")],
        [*_do("FETCH 1 FROM c"), Sync()],
        _ROLLBACK,
    ],
    "a column more": [
        [Parse("s", f"SELECT t FROM {_TABLE} WHERE n = $1"), Sync()],
        [Parse("star", f"SELECT * FROM {_TABLE} WHERE n = $1"), Sync()],
        [Bind("", "s", (), (b"3",)), Execute(""), Bind("", "star", (), (b"3",)), Execute(""), Sync()],
        [Query(f"ALTER TABLE {_TABLE} ADD u integer DEFAULT 5")],
        [Describe(b"S", "s"), Bind("", "s", (), (b"3",)), Describe(b"P", ""), Execute(""), Sync()],
        [Describe(b"S", "star"), Sync()],
        [Bind("", "star", (), (b"3",)), Execute(""), Sync()],
        [Bind("", "star", (), (b"3",)), Execute(""), Sync()],
        [Query(f"ALTER TABLE {_TABLE} DROP u")],
        [Bind("", "star", (), (b"3",)), Describe(b"P", ""), Execute(""), Sync()],
        [Query(f"ALTER TABLE {_TABLE} RENAME t TO v")],
        [Bind("", "s", (), (b"3",)), Execute(""), Sync()],
        [Bind("", "star", (), (b"3",)), Execute(""), Sync()],
    ],
    "changes through prepared statements and a new schema": [
        [Parse("i", f"INSERT INTO {_TABLE} (n, t) VALUES ($1, 'new') RETURNING n"), Sync()],
        [Parse("u", f"UPDATE {_TABLE} SET t = t || '!' WHERE n = $1 RETURNING t"), Sync()],
        [Query(f"ALTER TABLE {_TABLE} ADD u integer DEFAULT 5")],
        [Bind("", "i", (), (b"11",)), Execute(""), Bind("", "u", (), (b"11",)), Execute(""), Sync()],
        [Query(f"ALTER TABLE {_TABLE} RENAME t TO v")],
        [Bind("", "u", (), (b"11",)), Execute(""), Sync()],
        [Query(f"SELECT * FROM {_TABLE} WHERE n > 9 ORDER BY n")],
    ],
    "the table again": [
        [Parse("s", f"SELECT t FROM {_TABLE} WHERE n < $1 ORDER BY n"), Sync()],
        [Query(f"DROP TABLE {_TABLE}")],
        [Bind("", "s", (), (b"3",)), Execute(""), Sync()],
        [Query(f"CREATE TABLE {_TABLE} (t text, n integer)")],
        [Query(f"INSERT INTO {_TABLE} VALUES ('again', 1)")],
        [Bind("", "s", (), (b"3",)), Execute(""), Sync()],
    ],
    "a temporary table hides, and shows again": [
        [Query(f"CREATE TEMP TABLE {_TABLE} (n integer, t text)")],
        [Parse("s", _QUERY), Bind("", "s"), Execute(""), Sync()],
        [Query(f"DROP TABLE pg_temp.{_TABLE}")],
        [Bind("", "s"), Describe(b"P", ""), Execute("", 3), Sync()],
    ],
    "SQL's statement, bound by the protocol": [
        [Query(f"PREPARE s AS SELECT n, t FROM {_TABLE} WHERE n < $1 ORDER BY n")],
        [Describe(b"S", "s"), Bind("", "s", (), (b"3",), (1,)), Describe(b"P", ""), Execute(""), Sync()],
        [Query("DEALLOCATE s")],
        [Bind("", "s", (), (b"3",)), Execute(""), Sync()],
        [Query("PREPARE s AS SELECT 7")],
        [Bind("", "s"), Execute(""), Sync()],
        [Close(b"S", "s"), Bind("", "s"), Execute(""), Sync()],
    ],
    "the protocol's statement, executed by SQL": [
        [Parse("s", f"SELECT n, t FROM {_TABLE} WHERE n < $1 ORDER BY n"), Sync()],
        [Query("EXECUTE s(3)")],
        [*_do("EXECUTE s(2)", formats=(1,)), Sync()],
        [Parse("e", "EXECUTE s(2)"), Describe(b"S", "e"), Bind("", "e"), Execute("", 1), Sync()],
        [Query("DEALLOCATE s")],
        [Bind("", "s", (), (b"3",)), Execute(""), Sync()],
        [Bind("", "e"), Execute(""), Sync()],
        [Parse("s", "SELECT 1"), Bind("", "s"), Execute(""), Bind("", "e"), Execute(""), Sync()],
    ],
    "PREPARE by the protocol, in a block": [
        _BEGIN,
        [*_do(f"/* before */ PREPARE s AS {_QUERY}; -- behind"), Sync()],
        [Query("SELECT statement FROM pg_prepared_statements; EXECUTE s")],
        [*_do(f"/* before */ PREPARE e AS SELECT nothing FROM {_TABLE}"), Sync()],
    ],
    "a second statement of one name": [
        [Parse("s", _QUERY), Sync()],
        [Parse("s", "SELECT 1"), Sync()],
        [Parse("s", f"SELECT count(*) FROM {_TABLE}"), Sync()],
        [Bind("", "s"), Execute(""), Sync()],
    ],
    "the unnamed statement ends with a query": [
        [Parse("", _QUERY), Sync()],
        [Query(f"SELECT count(*) FROM {_TABLE}")],
        [Bind("", ""), Execute(""), Sync()],
        [Describe(b"S", ""), Sync()],
        [Parse("", "SELECT nothing"), Bind("", ""), Sync()],
        [Bind("", ""), Execute(""), Sync()],
    ],
    "parameters that do not fit": [
        [Parse("s", f"SELECT n FROM {_TABLE} WHERE n = $1"), Sync()],
        [Bind("", "s"), Execute(""), Sync()],
        [Bind("", "s", (), (b"1", b"2")), Execute(""), Sync()],
        [Bind("", "s", (0, 0), (b"1",)), Execute(""), Sync()],
        [Bind("", "s", (), (b"1",), (0, 0)), Execute(""), Sync()],
        [Bind("", "s", (), (b"x",)), Execute(""), Sync()],
    ],
    "what asks that nothing was queried before, where names may have been given by SQL": [
        [Query("DEALLOCATE ALL")],
        [Parse("b", "BEGIN ISOLATION LEVEL SERIALIZABLE"), Sync()],
        [Bind("", "b"), Describe(b"P", ""), Execute(""), Sync()],
        [*_do("SHOW transaction_isolation"), Sync()],
        [Query("ROLLBACK")],
        [*_do("SELECT 1"), Bind("", "b"), Execute(""), Sync()],
        [Query("ROLLBACK")],
    ],
}  # fmt: skip


@pytest.mark.turns
@pytest.mark.parametrize("name", _SCRIPTS)
def test_answers_as_postgresql_does(both: tuple[Server, Server], name: str) -> None:
    assert_same_answers(both, _SCRIPTS[name])


_READER = f"""
CREATE FUNCTION pg_temp.opened() RETURNS refcursor LANGUAGE plpgsql AS
    $$ DECLARE r refcursor := 'made'; BEGIN OPEN r FOR SELECT n FROM {_TABLE}; RETURN r; END $$;
CREATE FUNCTION pg_temp.fetched(r refcursor) RETURNS integer LANGUAGE plpgsql AS
    $$ DECLARE n integer; BEGIN FETCH r INTO n; RETURN n; END $$;
CREATE FUNCTION pg_temp.counted(t text) RETURNS bigint LANGUAGE plpgsql AS
    $$ DECLARE n bigint; BEGIN EXECUTE 'SELECT count(*) FROM ' || t INTO n; RETURN n; END $$;
"""
_REFUSED: dict[str, tuple[list[str], str]] = {
    "a current row of what PostgreSQL computes": (
        [
            "BEGIN",
            f"DECLARE c CURSOR FOR SELECT n FROM {_TABLE} TABLESAMPLE bernoulli (100)",
            "FETCH c",
            f"UPDATE {_TABLE} SET t = 'x' WHERE CURRENT OF c",
        ],
        "WHERE CURRENT OF a cursor whose query PostgreSQL computes is not supported on lake tables",
    ),
    "a current row that PostgreSQL is to change": (
        [
            "BEGIN",
            f"DECLARE c CURSOR FOR SELECT n FROM {_TABLE}",
            "FETCH c",
            f"UPDATE {_TABLE} x SET t = x::text WHERE CURRENT OF c",
        ],
        "a whole-row reference is not supported on lake tables",
    ),
    "FOR UPDATE": (
        ["BEGIN", f"DECLARE c CURSOR FOR SELECT * FROM ({_QUERY} FOR UPDATE) AS locked"],
        "FOR UPDATE or FOR SHARE in this place is not supported on lake tables",
    ),
    "a current row of what is locked and PostgreSQL computes": (
        [
            "BEGIN",
            f"DECLARE c CURSOR FOR SELECT x FROM {_TABLE} x FOR UPDATE",
            "FETCH c",
            f"UPDATE {_TABLE} SET t = 'x' WHERE CURRENT OF c",
        ],
        "WHERE CURRENT OF a cursor whose query PostgreSQL computes is not supported on lake tables",
    ),
    "a function that fetches from a cursor over its query's table": (
        [
            _READER,
            "ALTER FUNCTION pg_temp.fetched STABLE",
            "BEGIN",
            f"DECLARE c CURSOR FOR {_QUERY}",
            f"SELECT pg_temp.fetched('c') FROM {_TABLE}",
        ],
        "a function that uses a cursor of the session is not supported on lake tables",
    ),
    "a function that fetches": (
        [_READER, "BEGIN", f"DECLARE c CURSOR FOR {_QUERY}", "SELECT pg_temp.fetched('c')"],
        "a function that uses a cursor of the session is not supported on lake tables",
    ),
    "a function that fetches once more": (
        [
            _READER,
            "BEGIN",
            f"DECLARE c CURSOR FOR {_QUERY}",
            "SAVEPOINT s",
            "SELECT pg_temp.fetched('c')",
            "ROLLBACK TO s",
            "SELECT pg_temp.fetched('c')",
        ],
        "a function that uses a cursor of the session is not supported on lake tables",
    ),
    "a function that fetches from what was held": (
        [_READER, f"DECLARE c CURSOR WITH HOLD FOR {_QUERY}", "SELECT pg_temp.fetched('c')"],
        "a function that uses a cursor of the session is not supported on lake tables",
    ),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_would_read_a_shadow_is_refused(both: tuple[Server, Server], name: str) -> None:
    statements, message = _REFUSED[name]
    _, gateway = both
    with wire(gateway) as connection:
        *before, last = [connection.query(sql) for sql in statements]
        if "ROLLBACK TO s" not in statements:
            assert not any(isinstance(answer, ErrorResponse) for answers in before for answer in answers)
        *_, error, _ = last
        assert isinstance(error, ErrorResponse), last
        assert (dict(error.fields)["C"], dict(error.fields)["M"]) == ("0A000", message)


def test_a_cancel_stops_a_fetch_and_no_other_cursor(both: tuple[Server, Server]) -> None:
    """The statement fails with 57014; after ROLLBACK TO, the cursor that was not being read still gives rows."""
    crossed = ", ".join(f"{_TABLE} t{number}" for number in range(12))
    for server in both:
        with wire(server) as connection:
            connection.query("BEGIN")
            connection.query(f"DECLARE long CURSOR FOR SELECT count(*) FROM {crossed}")
            connection.query(f"DECLARE c CURSOR FOR {_QUERY}")
            connection.query("FETCH 1 FROM c")
            connection.query("SAVEPOINT s")
            connection.query("SET statement_timeout = '1s'")
            [error, ready] = connection.query("FETCH long")
            assert isinstance(error, ErrorResponse), server.name
            assert (dict(error.fields)["C"], ready) == ("57014", ReadyForQuery(b"E")), server.name
            connection.query("ROLLBACK TO s")
            assert connection.query("FETCH 1 FROM c")[1:-1] == [
                DataRow((b"2", b"row 2")),
                CommandComplete("FETCH 1"),
            ], server.name
            [error, _] = connection.query("FETCH long")
            assert isinstance(error, ErrorResponse), server.name
            assert dict(error.fields)["M"] == 'portal "long" cannot be run', server.name


def test_explain_of_what_was_prepared(both: tuple[Server, Server]) -> None:
    """It is the plan of the statement, with the arguments in it."""
    _, gateway = both
    with wire(gateway) as connection:
        connection.query(f"PREPARE p (integer) AS SELECT t FROM {_TABLE} WHERE n = $1")
        executed = [m.values for m in connection.query("EXPLAIN EXECUTE p(1 + 2)") if isinstance(m, DataRow)]
        direct = [
            m.values for m in connection.query(f"EXPLAIN SELECT t FROM {_TABLE} WHERE n = 3") if isinstance(m, DataRow)
        ]
        assert executed
        assert _without_numbers(executed) == _without_numbers(direct)
        connection.query(f"PREPARE d AS DELETE FROM {_TABLE}")
        assert any(isinstance(m, DataRow) for m in connection.query("EXPLAIN EXECUTE d"))
        assert connection.query(f"SELECT count(*) FROM {_TABLE}")[1] != DataRow((b"0",))


def _without_numbers(rows: list[tuple[bytes | None, ...]]) -> list[bytes]:
    """Spark numbers what it plans."""
    return [re.sub(rb"#\d+L?|id=\d+|[vr]\d+_\d+", b"", value or b"") for (value,) in rows]
