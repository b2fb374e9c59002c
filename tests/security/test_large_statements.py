"""No work that grows with a statement's size blocks others: the event loop is free while one is read and planned.

Each statement returns PostgreSQL's result. PostgreSQL's own parser decides how deep a statement may nest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.conftest import Watcher
from tests.servers import Server

# The longest that others wait: less than a third of what each of these statements made them wait for on the loop. The
# machine may be busy with other things, so the best of a few attempts counts, and so much more than beside nothing.
_WAIT_SECONDS_MAX = 0.3
_TIMES_MAX = 5
_ATTEMPTS = 4
# Megabytes of a context: PostgreSQL itself takes a second to make and to send them.
_CONTEXT_SECONDS_MAX = 1.5
_ANSWER_SECONDS_MAX = 8
_BESIDE_NOTHING = "SELECT FROM pg_sleep(1)"


def _listed(count: int, form: str = "{}", separator: str = ",") -> str:
    return separator.join(form.format(number) for number in range(count))


_ROW, _TEXT, _BOTH, _QUOTED = "({0}, 'v{0}')", "'v{}'", "(id = {0} AND v = 'v{0}')", "it''s"
_MANY = list(range(100_000))
LARGE: dict[str, tuple[str, list[Any]]] = {
    "a literal that is relayed": (f"SELECT length('{'x' * 2**23}')", []),
    "a literal with quotes in it": (f"SELECT length('{_QUOTED * 2**20}')", []),
    "a literal that is compared": (f"SELECT id FROM large WHERE v <> '{'x' * 2**22}' ORDER BY id", []),
    "rows of VALUES": (f"INSERT INTO made VALUES {_listed(40_000, _ROW)}", []),
    "VALUES that are joined": (
        f"SELECT id, w.t FROM large JOIN (VALUES {_listed(5_000, _ROW)}) w (i, t) ON w.i = id ORDER BY id",
        [],
    ),
    "IN of integers": (f"SELECT id FROM large WHERE id IN ({_listed(40_000)}) ORDER BY id", []),
    "IN of texts": (f"SELECT id FROM large WHERE v IN ({_listed(40_000, _TEXT)}) ORDER BY id", []),
    "NOT IN": (f"SELECT id FROM large WHERE id NOT IN ({_listed(20_000, '1{}')}) ORDER BY id", []),
    "ANY of a parameter": ("SELECT id FROM large WHERE id = ANY (%s) ORDER BY id", [_MANY]),
    "OR of one column": (f"SELECT id FROM large WHERE {_listed(5_000, 'id = {}', ' OR ')} ORDER BY id", []),
    "OR of two columns": (
        f"SELECT id FROM large WHERE {_listed(1_000, _BOTH, ' OR ')} ORDER BY id",
        [],
    ),
    "AND": (f"SELECT id FROM large WHERE {_listed(2_000, 'id <> 1{}', ' AND ')} ORDER BY id", []),
}


@pytest.fixture(scope="module")
def servers(gateway: Server, oracle: Server) -> Iterator[tuple[Server, Server]]:
    for server in (gateway, oracle):
        server.psql(
            "-qc",
            "CREATE SCHEMA large; CREATE TABLE large.large (id int, v text); CREATE TABLE large.made (id int, v text);"
            " CREATE TABLE large.floats (x float8);"
            " INSERT INTO large.floats VALUES ('-0'), ('0'), ('NaN'), (1), (1.5), (NULL);"
            " INSERT INTO large.large SELECT n, 'v' || n FROM generate_series(0, 40) n;"
            " INSERT INTO large.large VALUES (NULL, NULL), (100001, 'v100001')",
        )
    yield gateway, oracle
    for server in (gateway, oracle):
        server.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA large CASCADE")


def _answer(server: Server, sql: str, parameters: list[Any] | None = None, setting: str = "") -> list[Any]:
    """The rows of the statement, or how many it changed."""
    with psycopg.connect(server.url, autocommit=True, options=f"-c search_path=large {setting}") as connection:
        cursor = connection.execute(sql.encode(), parameters or None)
        return [cursor.rowcount] if cursor.description is None else cursor.fetchall()


def _waited(gateway: Server, sql: str, parameters: list[Any]) -> tuple[list[Any], float]:
    """The statement's answer, and how long others waited meanwhile."""
    watcher = Watcher(gateway)
    try:
        answer = _answer(gateway, sql, parameters)
    finally:
        watcher.stop()
    return answer, watcher.slowest_seconds


@pytest.mark.parametrize("kind", LARGE)
def test_others_do_not_wait(servers: tuple[Server, Server], kind: str) -> None:
    gateway, oracle = servers
    expected = _answer(oracle, *LARGE[kind])
    waits = []
    for _ in range(_ATTEMPTS):
        _, usual = _waited(gateway, _BESIDE_NOTHING, [])
        found, waited = _waited(gateway, *LARGE[kind])
        assert found == expected
        if waited < max(_WAIT_SECONDS_MAX, _TIMES_MAX * usual):
            return
        waits.append((waited, usual))
    pytest.fail(f"others waited, with the statement and without it, in seconds: {waits}")


def test_others_do_not_wait_for_rules_of_a_table(gateway: Server, schema: str) -> None:
    """Nor do they for a CHECK of thousands of terms, which a short UPDATE has planned."""
    terms = " + ".join(["a"] * 1500)
    options = f"-c search_path={schema} -c sluice.engine=spark -c sluice.hot_rows=0"
    with psycopg.connect(gateway.url, autocommit=True, options=options) as connection:
        connection.execute("CREATE TABLE ruled (a integer)")
        connection.execute("INSERT INTO ruled VALUES (1)")
        connection.execute(f"ALTER TABLE ruled ADD CHECK ({terms} > 0)".encode())
        watcher = Watcher(gateway)
        try:
            connection.execute("UPDATE ruled SET a = 2")
        finally:
            watcher.stop()
    assert watcher.slowest_seconds < 1  # 2.8 on the loop


def test_others_do_not_wait_for_a_context(gateway: Server) -> None:
    """A message of a hundred bytes makes a statement of 20 MB, which PostgreSQL puts into the error's context."""
    sql = "DO $$ BEGIN EXECUTE 'SELECT pg_sluice.stage(NULL) --' || repeat('x', 20000000); END $$"
    watcher = Watcher(gateway)
    began = time.monotonic()
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as raised:
            _answer(gateway, sql)
    finally:
        watcher.stop()
    assert "pg_sluice.stage(NULL)" in str(raised.value.diag.context)
    assert "function pg_sluice." not in str(raised.value.diag.context)
    assert watcher.slowest_seconds < _CONTEXT_SECONDS_MAX
    assert time.monotonic() - began < _ANSWER_SECONDS_MAX


@pytest.mark.turns
@pytest.mark.parametrize("zero", ["0", "-0"])
@pytest.mark.parametrize(
    "condition",
    ["x IN ({})", "x NOT IN ({})", "x = ANY (ARRAY[{}])", "x <> ALL (ARRAY[{}])", "NOT x IN ({})"],
)
def test_lists_of_floats(servers: tuple[Server, Server], condition: str, zero: str) -> None:
    """Zero has a sign, which does not count; NaN equals itself."""
    listed = ", ".join(f"'{text}'::float8" for text in (zero, "NaN", *(f"{number}.5" for number in range(2, 30))))
    sql = f"SELECT x FROM floats WHERE {condition.format(listed)} ORDER BY x, x::text"
    gateway, oracle = servers
    assert list(map(str, _answer(gateway, sql))) == list(map(str, _answer(oracle, sql)))


@pytest.mark.turns
@pytest.mark.parametrize("count", [1_664, 1_665, 5_000, 65_535])
@pytest.mark.parametrize(
    "form", ["SELECT id FROM large WHERE id IN ({}) ORDER BY id", "DELETE FROM made WHERE id IN ({}) AND id < 0"]
)
def test_many_parameters(servers: tuple[Server, Server], form: str, count: int) -> None:
    sql, parameters = form.format(_listed(count, "%s")), list(range(count))
    gateway, oracle = servers
    assert _answer(gateway, sql, parameters) == _answer(oracle, sql, parameters)


def test_many_arguments_of_execute(servers: tuple[Server, Server]) -> None:
    """They are evaluated by PostgreSQL, whatever they are."""
    count = 2_000
    arguments = ", ".join(f"{number} + 0" if number % 7 else "NULL" for number in range(count))
    found = []
    for server in servers:
        with psycopg.connect(server.url, autocommit=True, options="-c search_path=large") as connection:
            listed = ", ".join(f"${number}" for number in range(1, count + 1))
            connection.execute(f"PREPARE many AS SELECT id FROM large WHERE id IN ({listed}) ORDER BY id".encode())
            found.append(connection.execute(f"EXECUTE many ({arguments})".encode()).fetchall())
    assert found[0] == found[1]
    assert (1,) in found[0]
    assert (7,) not in found[0]


DEEP = {
    "UNION ALL": f"SELECT count(*) FROM ({' UNION ALL '.join(['SELECT id FROM large'] * 200)}) q",
    "UNION ALL of several types": "SELECT sum(x) FROM ("
    + " UNION ALL ".join(["SELECT id AS x FROM large", "SELECT 1.5 FROM large", "SELECT id::int8 FROM large"] * 10)
    + ") q",
    "operators": f"SELECT id{'+1' * 1_000} FROM large ORDER BY id",
    "CASE": f"SELECT {'CASE WHEN id > 0 THEN ' * 500}1{' ELSE 2 END' * 500} FROM large ORDER BY 1",
    "subqueries": f"SELECT * FROM {'(SELECT id FROM ' * 400}large{') q' * 400} ORDER BY id",
    "WITH": "WITH c0 AS (SELECT id FROM large), "
    + ", ".join(f"c{number} AS (SELECT id FROM c{number - 1})" for number in range(1, 200))
    + " SELECT count(*) FROM c199",
    "NOT and AND": f"SELECT count(*) FROM large WHERE {'NOT (id = 1 AND ' * 300}true{')' * 300}",
    "||": f"SELECT {' || '.join(['id::text'] * 300)} FROM large ORDER BY id",
    "coalesce": f"SELECT {'coalesce(id, ' * 1_000}1{')' * 1_000} FROM large ORDER BY 1",
}


@pytest.mark.parametrize("kind", DEEP)
def test_deep_statements(servers: tuple[Server, Server], kind: str) -> None:
    gateway, oracle = servers
    assert _answer(gateway, DEEP[kind]) == _answer(oracle, DEEP[kind])


def test_deeper_than_postgresql_goes(servers: tuple[Server, Server]) -> None:
    """The connection, and what was done before in the block, live on."""
    gateway, _ = servers
    with psycopg.connect(gateway.url, options="-c search_path=large") as connection:
        connection.execute("INSERT INTO made VALUES (-1, 'kept')")
        too_deep = pytest.raises(psycopg.errors.StatementTooComplex, match="stack depth limit exceeded")
        with too_deep, connection.transaction():
            connection.execute(f"SELECT id{'+1' * 20_000} FROM large".encode())
        assert connection.execute("SELECT v FROM made WHERE id = -1").fetchone() == ("kept",)
        connection.rollback()


SLOW = f"SELECT id FROM large WHERE {_listed(20_000, _BOTH, ' OR ')}"


def test_planning_ends_with_the_timeout(servers: tuple[Server, Server]) -> None:
    gateway, _ = servers
    begin = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
        _answer(gateway, SLOW, setting="-c statement_timeout=1500")
    assert time.monotonic() - begin < 15


def test_planning_ends_with_a_cancel_request(servers: tuple[Server, Server]) -> None:
    gateway, _ = servers
    with psycopg.connect(gateway.url, autocommit=True, options="-c search_path=large") as connection:
        timer = threading.Timer(1.5, connection.cancel)
        timer.start()
        begin = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
            connection.execute(SLOW.encode())
        assert time.monotonic() - begin < 10
        timer.join()
        assert connection.execute("SELECT 1").fetchone() == (1,)
