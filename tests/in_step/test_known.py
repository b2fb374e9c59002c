"""Messages that once put clients out of step, each minimised, compared with PostgreSQL's answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import psycopg
import pytest

from gateway.wire.messages import backend, frontend
from gateway.wire.messages.copy import CopyData, CopyDone, CopyFail
from gateway.wire.messages.layout import Message
from tests.gateway.wire import Wire, assert_same_answers, wire
from tests.servers import Server

_SYNC = frontend.Sync()
# Told at once, though the client goes on sending.
_TOLD_SECONDS_MAX = 5.0


def _whole(sql: str, limit: int = 0) -> list[Message]:
    return [frontend.Parse("", sql), frontend.Bind("", ""), frontend.Describe(b"P", ""), frontend.Execute("", limit)]


def _bound(statement: str) -> list[Message]:
    return [frontend.Bind("", statement), frontend.Describe(b"P", ""), frontend.Execute("")]


def _portal(name: str, sql: str) -> list[Message]:
    return [frontend.Parse("", sql), frontend.Bind(name, "")]


def _synced(*statements: str) -> list[list[Message]]:
    return [[*_whole(sql), _SYNC] for sql in statements]


def _repeated(values: Iterable[int | bytes | None], statement: str = "", *, describes: bool = False) -> list[Message]:
    """Executions of a statement, one for each value of its parameter."""
    made: list[Message] = []
    for value in values:
        given = b"%d" % value if isinstance(value, int) else value
        described = [frontend.Describe(b"P", "")] if describes else []
        made += [frontend.Bind("", statement, (), (given,)), *described, frontend.Execute("")]
    return made


def _count(table: str) -> list[Message]:
    return [frontend.Query(f"SELECT count(*), sum(id) FROM {table}")]


_QUERY: list[list[Message]] = [[frontend.Query("SELECT 'next'")]]
_TABLE: list[list[Message]] = [[frontend.Query("CREATE TEMP TABLE w (a int NOT NULL)")]]
_COPY = _whole("COPY w FROM STDIN")

_SCRIPTS: dict[str, list[list[Message]]] = {
    "an empty statement behind PREPARE": [
        [frontend.Parse("", "PREPARE a AS SELECT 1"), frontend.Parse("b", text), *_bound("b"), _SYNC]
        for text in ("", "/* nothing */")
    ],
    "a cursor that has the name of a portal": [
        [frontend.Query("CREATE TABLE IF NOT EXISTS unnamed (id integer)")],
        *(
            [*_portal("c", "DELETE FROM unnamed"), frontend.Query(f"DECLARE c CURSOR FOR {sql}; FETCH c")]
            for sql in ("SELECT 1", "SELECT * FROM unnamed", "SELECT * FROM generate_series(1, 2)")
        ),
        [frontend.Query("DROP TABLE unnamed")],
    ],
    "a Parse that fails, behind a statement without a name": [
        [frontend.Query("CREATE TABLE IF NOT EXISTS unnamed (id integer)")],
        *(
            messages
            for sql in ("SELECT * FROM unnamed", "SELECT 1", "INSERT INTO unnamed VALUES (1)")
            for wrong in ("SELECT * FROM nowhere", "SELEC", "INSERT INTO unnamed VALUES (1, 2)")
            for sent in ([], _whole("SELECT 2"))
            for messages in ([*_whole(sql), _SYNC], [frontend.Parse("", wrong), *sent, _SYNC], [*_bound(""), _SYNC])
        ),
        [frontend.Parse("", "SELECT 3"), frontend.Parse("a", "SELEC"), frontend.Parse("", "SELEC"), _SYNC],
        [*_bound(""), _SYNC],
        [frontend.Query("SELECT count(*) FROM unnamed")],
        [frontend.Query("DROP TABLE unnamed")],
    ],
    "SET LOCAL, COMMIT": _synced("BEGIN", "SET LOCAL search_path = pg_catalog", "COMMIT"),
    "SET LOCAL, ROLLBACK": _synced("BEGIN", "SET LOCAL TimeZone = 'Asia/Tokyo'", "ROLLBACK"),
    "set_config, COMMIT": _synced("BEGIN", "SELECT set_config('search_path', 'pg_catalog', true)", "COMMIT"),
    "SET, ROLLBACK TO": _synced("BEGIN", "SAVEPOINT s", "SET application_name = 'a'", "ROLLBACK TO s", "COMMIT"),
    "SET LOCAL undone within a query": [
        [frontend.Query("SET LOCAL application_name = 'a'; RELEASE s")],
        [frontend.Query("SELECT 1; SET application_name = 'b'; SELECT 1")],
    ],
    "a query behind Close": [[frontend.Close(b"P", "p"), frontend.Query("SELECT 1")]],
    "a query behind what fails": [
        [frontend.Bind("", "nothing"), frontend.Query("SELECT 1"), _SYNC],
        [frontend.Execute("p"), frontend.Query("SELECT 1; SELECT 2"), _SYNC],
    ],
    "a query behind a pipeline": [
        [*_whole("SELECT 0"), frontend.Query("SELECT 1")],
        [frontend.Query("SELECT 2")],
        [frontend.Query("SELECT 3; SELECT 4")],
        [_SYNC],
    ],
    "savepoints behind a pipeline": [[*_whole("SELECT 0"), frontend.Query("SAVEPOINT s")], [_SYNC]],
    "a function's call behind messages without Sync": [
        [frontend.Parse("", "SELECT 0"), frontend.FunctionCall(177, (0,), (b"1", b"2"), 0)],
        [_SYNC],
    ],
    "CopyFail, with Sync ahead": [*_TABLE, [*_COPY, _SYNC, CopyFail("no"), _SYNC]],
    "CopyDone, with Sync ahead": [*_TABLE, [*_COPY, _SYNC, CopyData(b"1\n"), CopyDone(), _SYNC]],
    "Sync behind a bad row": [
        *_TABLE,
        [*_COPY, CopyData(b"bad\n"), _SYNC],
        [CopyData(b"1\n"), CopyDone(), _SYNC],
        [frontend.Query("COPY w FROM STDIN"), CopyData(b"bad\n"), _SYNC],
        [CopyDone(), frontend.Query("SELECT 1")],
    ],
    "a query behind a bad row": [
        *_TABLE,
        [frontend.Query("COPY w FROM STDIN"), CopyData(b"bad\n"), frontend.Query("SELECT 1")],
        [*_COPY, CopyData(b"bad\n"), frontend.Query("SELECT 1"), _SYNC],
    ],
    "an empty query in a block that failed": [
        [frontend.Query("BEGIN; SELECT nope")],
        [frontend.Query("")],
        [frontend.Query(";")],
        [frontend.Query("-- ping")],
        [*_whole(""), _SYNC],
    ],
    "Describe and Close of what is neither": [[frontend.Describe(b"X", ""), _SYNC], [frontend.Close(b"X", ""), _SYNC]],
    "EXECUTE of itself": [[frontend.Parse("b", "EXECUTE b(5)"), _SYNC], [frontend.Close(b"S", "b"), _SYNC]],
    "cursors are for blocks": _synced("DECLARE c CURSOR FOR SELECT generate_series(1, 3)", "FETCH c"),
    "a rule that leaves nothing": [
        [frontend.Query("CREATE TEMP TABLE w (a int); CREATE RULE r AS ON INSERT TO w DO INSTEAD NOTHING")],
        [frontend.Parse("s", "INSERT INTO w VALUES ($1)"), _SYNC],
        [frontend.Bind("", "s", (), (b"1",)), frontend.Execute(""), _SYNC],
    ],
}

_BEGINNINGS = (
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
    "START TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "BEGIN DEFERRABLE",
    "BEGIN READ ONLY",
    "BEGIN ISOLATION LEVEL READ COMMITTED",
)
_IN_LAKE = "SELECT count(*) FROM levels"
_SHOWN = [*_whole("SHOW transaction_isolation"), *_whole("SHOW transaction_read_only")]


def _level_in_query(begin: str) -> list[list[Message]]:
    return [[frontend.Parse("s", _IN_LAKE), frontend.Query(begin)], [frontend.Query("ROLLBACK")]]


_LEVELS: dict[str, list[list[Message]]] = {
    "a level behind a Parse": [
        [frontend.Parse("s", first), *between, *_whole(begin), *_SHOWN, *_whole(_IN_LAKE), *_whole("ROLLBACK"), _SYNC]
        for begin in _BEGINNINGS
        for first in ("SELECT 1", _IN_LAKE, "INSERT INTO levels VALUES (1)", "SHOW search_path", "SET x.y = 1")
        for between in ([], [frontend.Flush()], [frontend.Describe(b"S", "s")])
    ],
    "a level behind a pipeline": [
        [*_whole(first), *_whole(begin), *_SHOWN, *_whole(_IN_LAKE), *_whole("ROLLBACK"), _SYNC]
        for begin in _BEGINNINGS
        for first in ("SELECT 1", _IN_LAKE, "SHOW search_path", "SET x.y = 1")
    ],
    "a level behind a Parse, set in a pipeline": [
        [frontend.Parse("s", first), *_whole("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"), _SYNC]
        for first in ("SELECT 1", _IN_LAKE, "INSERT INTO levels VALUES (1)")
    ],
    "a level behind a Parse, in a query": [
        messages for begin in _BEGINNINGS[:3] for messages in _level_in_query(begin)
    ],
    **{
        f"pipelines at {level}, read only {mode}": [
            [frontend.Query(f"SET default_transaction_isolation = '{level}'")],
            [frontend.Query(f"SET default_transaction_read_only = {mode}")],
            [*_whole("SELECT 1"), *_whole(_IN_LAKE), *_whole("SELECT 2"), *_whole(_IN_LAKE), _SYNC],
            [*_whole("SELECT 1"), *_whole("SELECT count(*) FROM (SELECT * FROM levels FOR SHARE) l"), _SYNC],
            *(
                [*first, *_whole(begin), *_SHOWN, *_whole(_IN_LAKE), *_whole("ROLLBACK"), _SYNC]
                for first in (_whole("SELECT 1"), [frontend.Parse("", "SELECT 1")], [frontend.Parse("", _IN_LAKE)])
                for begin in ("BEGIN", "BEGIN READ ONLY")
            ),
            [*_whole("SELECT 1"), *_whole("BEGIN READ ONLY"), *_whole("INSERT INTO levels VALUES (1)"), _SYNC],
            [frontend.Query("ROLLBACK")],
            [*_whole("SELECT 1"), frontend.Query(f"BEGIN READ ONLY; {_IN_LAKE}; SHOW transaction_isolation; ROLLBACK")],
        ]
        for level in ("repeatable read", "serializable", "read committed")
        for mode in ("on", "off")
    },
}
_SCRIPTS |= {
    name: [
        [frontend.Query("CREATE TABLE IF NOT EXISTS levels (id integer)")],
        *(each for messages in script for each in (messages, [frontend.Close(b"S", "s"), _SYNC])),
        [frontend.Query("SET default_transaction_read_only = off")],
        [frontend.Query("DROP TABLE levels")],
    ]
    for name, script in _LEVELS.items()
}


@pytest.mark.turns
@pytest.mark.parametrize("name", _SCRIPTS)
def test_known(oracle: Server, gateway: Server, name: str) -> None:
    assert_same_answers((oracle, gateway), [*_SCRIPTS[name], *_QUERY])


def _lake_scripts(schema: str) -> Iterator[list[list[Message]]]:
    table = f"{schema}.t"
    copy = _whole(f"COPY {table} FROM STDIN")
    yield [
        [frontend.Query(f"INSERT INTO {table} VALUES (1)")],
        [frontend.Parse("", f"SELECT id FROM {table}"), _SYNC],
        [frontend.Bind("", "nothing"), frontend.Parse("", "SELECT 'skipped'"), _SYNC],
        [frontend.Bind("", ""), frontend.Execute(""), _SYNC],
    ]
    yield [
        [*_whole("SELECT 0"), frontend.Query(f"INSERT INTO {table} VALUES (2)")],
        [frontend.Query(f"INSERT INTO {table} VALUES (2)")],
        [_SYNC],
        [frontend.Query(f"SELECT id FROM {table} ORDER BY id")],
    ]
    yield [[*copy, CopyData(b"bad\n"), _SYNC], [CopyDone(), frontend.Query("SELECT 1")]]
    yield [[*copy, CopyData(b"bad\n"), CopyFail("no"), _SYNC]]
    yield [
        [frontend.Query(f"PREPARE b AS SELECT id FROM {table} WHERE id = 1")],
        [frontend.Query("EXECUTE b(5)")],
    ]
    yield [[frontend.Parse("", f"TABLE {table}"), frontend.Bind("", "", (), (), (7,)), frontend.Execute(""), _SYNC]]
    yield [[frontend.Parse("", f"TABLE {table}"), frontend.Bind("p", "", (), (), (7,)), frontend.Execute("p"), _SYNC]]
    yield [[frontend.Query(f"COPY {table} FROM STDIN"), CopyData(b"bad\n"), frontend.Query("SELECT 1")]]
    yield [
        [
            frontend.Parse("", f"INSERT INTO {table} VALUES (9) RETURNING id"),
            frontend.Bind("", ""),
            frontend.Execute(""),
            frontend.Execute(""),
            _SYNC,
        ]
    ]
    for command in ("CREATE DATABASE further", "DROP DATABASE further", f"VACUUM {table}", "CLUSTER"):
        for before in ("SELECT 0", f"SELECT count(*) FROM {table}", f"INSERT INTO {table} VALUES (60)"):
            yield [[*_whole(before), *_whole(command), _SYNC]]
        yield [[frontend.Query("BEGIN")], [frontend.Parse("a", command), _SYNC]]
        yield [[frontend.Query("BEGIN")], [*_whole(command), _SYNC], [frontend.Query("ROLLBACK")]]
        yield [[*_whole("BEGIN"), *_whole(command), _SYNC], [frontend.Query("ROLLBACK")]]
    yield [[frontend.Parse("", f"VACUUM {table}"), *[frontend.Bind("", ""), frontend.Execute("")] * 2, _SYNC]]
    declared = f"DECLARE c CURSOR FOR SELECT id FROM {table} ORDER BY id"
    yield _synced(declared, "FETCH c", declared.replace("FOR", "WITH HOLD FOR"), "FETCH c", "CLOSE c")
    yield [[*_whole("SELECT 0"), *_whole(declared), *_whole("FETCH c"), _SYNC], *_synced("FETCH c")]
    yield [
        [frontend.Parse("later", declared), _SYNC],
        [frontend.Bind("", "later"), frontend.Execute(""), _SYNC],
        [frontend.Query("BEGIN")],
        [frontend.Bind("", "later"), frontend.Execute(""), _SYNC],
        [frontend.Query("FETCH c; COMMIT")],
    ]
    yield [[frontend.Query(f"SELECT id FROM {table} WHERE id = $1")], [frontend.Query("SELECT 1")]]
    yield [[*_whole(f"DELETE FROM {table} WHERE id = 9"), frontend.Execute(""), _SYNC]]
    insert, returning = f"INSERT INTO {table} VALUES ($1)", f"INSERT INTO {table} VALUES ($1) RETURNING id, id * 2"
    for numbers in (range(20, 25), (25, 26, 26, 27), (28, 1, 29), (30, None, 31)):
        for sql, describes in ((insert, False), (insert, True), (returning, False), (returning, True)):
            repeated = _repeated(numbers, describes=describes)
            yield [[frontend.Parse("", sql), *repeated, _SYNC], _count(table)]
            yield [[frontend.Query("BEGIN")], [frontend.Parse("b", sql), _SYNC], [*_repeated(numbers, "b"), _SYNC]]
            yield [_count(table), [frontend.Query("ROLLBACK")], _count(table), _synced(f"DELETE FROM {table}")[0]]
    one = _repeated((40, 41, 42))
    yield [[frontend.Parse("", returning), *one, frontend.Execute(""), frontend.Describe(b"P", ""), _SYNC]]
    yield [[frontend.Parse("", insert), *one, frontend.Execute(""), _SYNC], _count(table)]
    yield [[frontend.Parse("", insert), *_repeated((50, b"x", 51)), _SYNC], _count(table)]
    yield [[frontend.Parse("", insert), *_repeated((50, 51)), frontend.Bind("", "nothing"), _SYNC], _count(table)]
    yield [
        [frontend.Parse("", insert), *_repeated((52, 53)), frontend.Flush(), *_whole("COMMIT"), _SYNC],
        _count(table),
    ]


def _failed_blocks(schema: str) -> Iterator[list[list[Message]]]:
    """Messages in a failed block, right and wrong ones: PostgreSQL counts parameters and formats before it refuses."""
    texts = {
        "lake": (f"SELECT v FROM {schema}.t WHERE id = $1", (b"1",)),
        "changing": (f"INSERT INTO {schema}.t VALUES ($1, $2)", (b"7", b"x")),
        "": (f"UPDATE {schema}.t SET v = $1", (b"x",)),
        "relayed": ("SELECT $1::int + 1", (b"1",)),
        "ending": ("ROLLBACK", ()),
        "settled": ("SELECT count(*) FROM pg_class", ()),
    }
    for fails in (f"SELECT nope FROM {schema}.t", f"SELECT 1 / (id - id) FROM {schema}.t"):
        for name, (text, values) in texts.items():
            before: list[Message] = [frontend.Parse(name, text)]
            begin: list[Message] = [frontend.Query("BEGIN")]
            failing: list[Message] = [frontend.Parse("f", fails), frontend.Bind("", "f"), frontend.Execute(""), _SYNC]
            for wrong in (
                frontend.Bind("", name, (), values),
                frontend.Bind("", name, (), (*values, b"9")),
                frontend.Bind("", name, (), values[:-1]),
                frontend.Bind("", name, (0, 0, 0), values),
                frontend.Bind("", name, (7,), values),
                frontend.Bind("", name, (), values, (9,)),
                frontend.Bind("", name, (), values, (0, 0, 0)),
                frontend.Bind("p", name, (), tuple(b"no number" for _ in values)),
                frontend.Describe(b"S", name),
                frontend.Execute("p"),
                frontend.Describe(b"P", "p"),
            ):
                yield [begin, [*before, _SYNC], failing, [wrong, frontend.Execute(""), _SYNC]]


def _aborted_pipelines(table: str) -> Iterator[list[list[Message]]]:
    """Which named statements are there after a pipeline that failed: those parsed before the error, no others."""
    insert, broken = f"INSERT INTO {table} VALUES ($1)", f"UPDATE {table} SET id = 1 / $1::int"
    named = frontend.Query("SELECT name, statement FROM pg_prepared_statements ORDER BY 1")
    fails = [frontend.Parse("", broken), *_repeated((0,))]
    for again in (_repeated((60,), "a"), [frontend.Parse("a", insert), *_repeated((61,), "a")]):
        # a driver that takes for prepared what was skipped, and one that does not
        yield [[*fails, frontend.Parse("a", insert), *_repeated((60,), "a"), _SYNC], [*again, _SYNC], [named]]
        yield [[frontend.Parse("a", insert), *_repeated((60, 60), "a"), _SYNC], [*again, _SYNC], [named]]
        yield [[frontend.Parse("a", insert), *_repeated((b"x",), "a"), _SYNC], [*again, _SYNC], [named]]
        yield [[*fails, frontend.Flush(), frontend.Parse("a", insert), _SYNC], [*again, _SYNC], [named]]
        yield [
            [frontend.Parse("a", "SELECT 'other'"), _SYNC],
            [*fails, frontend.Close(b"S", "a"), frontend.Parse("a", insert), _SYNC],
            [frontend.Bind("", "a"), frontend.Execute(""), _SYNC],
            [frontend.Close(b"S", "a"), *fails, _SYNC],
            [*again, _SYNC],
            [named],
        ]
        yield [
            [frontend.Query("BEGIN")],
            [*fails, frontend.Parse("a", insert), _SYNC],
            [frontend.Query("ROLLBACK")],
            [*again, _SYNC],
            [named],
        ]
        yield [[frontend.Query(f"DELETE FROM {table}; INSERT INTO {table} VALUES (1)")]]
    deferred = f"INSERT INTO {table}_referring VALUES ($1)"
    yield [[frontend.Parse("a", deferred), *_repeated((70,), "a"), _SYNC], [*_repeated((1,), "a"), _SYNC], [named]]


def test_failed_blocks(oracle: Server, gateway: Server) -> None:
    schema = "in_failed_blocks"
    for server in (oracle, gateway):
        server.psql("-qc", f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.t (id int PRIMARY KEY, v text)")
        server.psql("-qc", f"INSERT INTO {schema}.t VALUES (1, 'a'), (2, 'b')")
    try:
        for script in _failed_blocks(schema):
            assert_same_answers((oracle, gateway), script)
    finally:
        for server in (oracle, gateway):
            server.psql("-qc", f"DROP SCHEMA {schema} CASCADE")


def test_named_statements_of_aborted_pipelines(oracle: Server, gateway: Server) -> None:
    for server in (oracle, gateway):
        server.psql(
            "-qc",
            "CREATE SCHEMA known; CREATE TABLE known.t (id int PRIMARY KEY); INSERT INTO known.t VALUES (1);"
            " CREATE TABLE known.t_referring (id int REFERENCES known.t DEFERRABLE INITIALLY DEFERRED)",
        )
    try:
        for script in _aborted_pipelines("known.t"):
            assert_same_answers((oracle, gateway), [*script, *_QUERY])
    finally:
        for server in (oracle, gateway):
            server.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA known CASCADE")


def test_known_of_the_lake(oracle: Server, gateway: Server) -> None:
    for server in (oracle, gateway):
        server.psql("-qc", "CREATE SCHEMA known; CREATE TABLE known.t (id int PRIMARY KEY)")
    try:
        for script in _lake_scripts("known"):
            assert_same_answers((oracle, gateway), [*script, *_QUERY])
    finally:
        for server in (oracle, gateway):
            server.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA known CASCADE")


def test_values_that_look_like_messages(target: Server, target_schema: str) -> None:
    """Rows come in pieces that are cut anywhere, also where a byte could be a message's type."""
    ask = "SELECT id, repeat(letter, 3000000) AS text FROM letters WHERE id = %s::int"
    with psycopg.connect(target.url, autocommit=True, options=f"-c search_path={target_schema}") as connection:
        for kind in ("", "TEMP "):
            connection.execute(f"CREATE {kind}TABLE letters (id int, letter text)".encode())
            for number, letter in enumerate("SNACDEGHIKTZ"):
                connection.execute("INSERT INTO letters VALUES (%s, %s)", (number, letter))
                value = (number, letter * 3_000_000)
                assert connection.execute(ask, (number,)).fetchone() == value
                assert connection.execute(ask.replace("%s", str(number)).encode(), prepare=False).fetchone() == value
                with connection.pipeline():
                    assert connection.execute(ask, (number,)).fetchone() == value
        with connection.cursor().copy("COPY (SELECT repeat('S', 3000000)) TO STDOUT") as copy:
            assert sum(map(len, copy)) == 3_000_001


@pytest.mark.parametrize("table", ["", "TEMP "])
def test_a_message_out_of_place_in_a_copy_ends_the_connection(target: Server, target_schema: str, table: str) -> None:
    connection = Wire(target, search_path=target_schema)
    connection.query(f"CREATE {table}TABLE w (a int)")
    connection.send(frontend.Query("COPY w FROM STDIN"), frontend.Query("SELECT 1"))
    *_, first, second = connection.read_until(backend.ErrorResponse) + connection.read_until(backend.ErrorResponse)
    connection.close()
    assert isinstance(first, backend.ErrorResponse)
    assert isinstance(second, backend.ErrorResponse)
    assert ("M", "unexpected message type 0x51 during COPY from stdin") in first.fields
    assert ("S", "FATAL") in second.fields
    assert ("C", "08P01") in second.fields


def test_more_parameters_than_bind_can_carry(target: Server) -> None:
    text = "VALUES " + ", ".join(f"(${number}::int)" for number in range(1, 65_537))
    with wire(target) as connection:
        connection.send(frontend.Parse("p", text), frontend.Describe(b"S", "p"), _SYNC)
        answers = connection.read_until(backend.ReadyForQuery)
        described = next(each for each in answers if isinstance(each, backend.ParameterDescription))
        assert described.types == (23,) * 65_536
        assert connection.query("SELECT 1")[-1] == backend.ReadyForQuery(b"I")


@pytest.mark.parametrize("table", ["", "TEMP "])
def test_an_error_of_copy_is_told_while_the_client_sends(target: Server, target_schema: str, table: str) -> None:
    with wire(target, search_path=target_schema) as connection:
        connection.query(f"CREATE {table}TABLE w (a text NOT NULL)")
        connection.send(frontend.Query("COPY w FROM STDIN"), CopyData(b"one\n"), CopyData(b"\\N\n"))
        began = time.monotonic()
        *_, error = connection.read_until(backend.ErrorResponse)
        assert time.monotonic() - began < _TOLD_SECONDS_MAX
        assert isinstance(error, backend.ErrorResponse)
        assert ("C", "23502") in error.fields
        connection.read_until(backend.ReadyForQuery)
        connection.send(CopyData(b"more\n"), CopyDone())
        assert connection.query("SELECT count(*) FROM w")[-1] == backend.ReadyForQuery(b"I")


def test_a_session_that_is_ended_within_copy_is_told_at_once(target: Server) -> None:
    with wire(target) as connection, psycopg.connect(target.url, autocommit=True) as other:
        connection.query("CREATE TEMP TABLE w (a int)")
        [[_, pid]] = [
            (each, each.values[0])
            for each in connection.query("SELECT pg_backend_pid()")
            if isinstance(each, backend.DataRow)
        ]
        connection.send(frontend.Query("COPY w FROM STDIN"))
        connection.read()
        assert pid is not None
        other.execute("SELECT pg_terminate_backend(%s)", (int(pid),))
        error = connection.read()
        assert isinstance(error, backend.ErrorResponse)
        assert ("C", "57P01") in error.fields
