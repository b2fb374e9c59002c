"""Functions over a large table: keys that plans name are looked up, and what no plan tells is not guessed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from tests.servers import Server

_ROWS = 30_000
_TOO_LARGE = "a function that reads so large a lake table is not supported"

# Bodies of functions that have the argument `k`; with the key 7 each returns 70. They look up keys.
BY_KEYS = {
    "a caught error": "BEGIN INSERT INTO sought (id) VALUES (k); RETURN 0;"
    " EXCEPTION WHEN unique_violation THEN RETURN (SELECT n FROM sought WHERE id = k); END",
    "an INSERT with ON CONFLICT": "DECLARE r integer; BEGIN INSERT INTO sought (id, n) VALUES (k, 1)"
    " ON CONFLICT (id) DO UPDATE SET n = sought.n RETURNING n INTO r; RETURN r; END",
    "what it adds and takes back": "DECLARE r integer; BEGIN BEGIN INSERT INTO sought (id, n) VALUES (-k, k * 10);"
    " SELECT n INTO r FROM sought WHERE id = -k; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN END;"
    " RETURN r + (SELECT count(*) FROM sought WHERE id = -k); END",
    "a variable": "BEGIN RETURN (SELECT n FROM sought WHERE id = k); END",
    "two keys of one table": "BEGIN RETURN (SELECT n FROM sought WHERE id = k AND code = 'c' || k); END",
    "a cursor": "DECLARE c CURSOR FOR SELECT n FROM sought WHERE id = k; r integer;"
    " BEGIN OPEN c; FETCH c INTO r; CLOSE c; RETURN r; END",
    "a loop": "DECLARE r record; s integer := 0;"
    " BEGIN FOR r IN SELECT n FROM sought WHERE id = k LOOP s := s + r.n; END LOOP; RETURN s; END",
    "an upsert": "BEGIN UPDATE sought SET note = 'x' WHERE id = k;"
    " IF NOT FOUND THEN INSERT INTO sought (id) VALUES (k); END IF; RETURN k * 10; END",
    "what it has changed itself": "BEGIN UPDATE sought SET n = n + 1 WHERE id = k;"
    " UPDATE sought SET n = n - 1 WHERE id = k; RETURN (SELECT n FROM sought WHERE id = k); END",
    "a constant": "BEGIN PERFORM n FROM sought WHERE id = 9; RETURN (SELECT n FROM sought WHERE id = k); END",
}
# The same, but no plan tells all keys: the table would have to be copied.
NOT_BY_KEYS = {
    "all rows": "BEGIN RETURN (SELECT max(n) FROM sought WHERE n <= k * 10); END",
    "a key of each row of another": "BEGIN RETURN (SELECT s.n FROM few f LEFT JOIN sought s ON s.id = f.id"
    " WHERE f.id <= k); END",
    "plans that are hidden": "BEGIN SET LOCAL client_min_messages = error;"
    " RETURN (SELECT n FROM sought WHERE id = k); END",
    "plans that are generic": "BEGIN SET LOCAL plan_cache_mode = force_generic_plan;"
    " RETURN (SELECT n FROM sought WHERE id = k); END",
    "plans that are not printed": "BEGIN SET LOCAL debug_print_plan = off;"
    " RETURN (SELECT n FROM sought WHERE id = k); END",
    "more lookups than are worth reading": "DECLARE s integer; BEGIN FOR i IN 1 .. 300 LOOP"
    " SELECT n INTO s FROM sought WHERE id = k + i % 2; END LOOP; RETURN (SELECT n FROM sought WHERE id = k); END",
}


@pytest.fixture(scope="module")
def lake(gateway: Server) -> Iterator[Server]:
    gateway.psql(
        "-qc", "CREATE TABLE sought (id integer PRIMARY KEY, code text UNIQUE, n integer, note text)",
        "-c", f"INSERT INTO sought SELECT g, 'c' || g, g * 10 FROM generate_series(1, {_ROWS}) g",
        "-c", "CREATE TABLE few (id integer); INSERT INTO few VALUES (7)",
    )  # fmt: skip
    yield gateway
    gateway.psql("-qc", "DROP TABLE sought, few")


@pytest.fixture
def session(lake: Server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(lake.url, options="-c sluice.load_limit=20kB") as session:
        yield session
        session.rollback()


_NUMBERS = count(1)


def _made(session: psycopg.Connection, body: str) -> str:
    """Make the function; return a query of it that the gateway has not met: it remembers what a text has read."""
    name = f"pg_temp.f{next(_NUMBERS)}"
    session.execute(f"CREATE FUNCTION {name}(k integer) RETURNS integer LANGUAGE plpgsql AS $$ {body} $$".encode())
    return f"SELECT {name}(7)"


@pytest.mark.turns
@pytest.mark.parametrize("body", BY_KEYS)
def test_only_rows_with_the_keys_are_copied(session: psycopg.Connection, body: str) -> None:
    asked = _made(session, BY_KEYS[body])
    for _ in range(2):
        assert session.execute(asked.encode()).fetchall() == [(70,)]
    for name, value in (("client_min_messages", "notice"), ("plan_cache_mode", "auto"), ("debug_print_plan", "off")):
        assert session.execute(f"SHOW {name}".encode()).fetchall() == [(value,)]
    assert session.execute("SELECT n FROM sought WHERE id = 7").fetchall() == [(70,)]


@pytest.mark.parametrize("body", NOT_BY_KEYS)
def test_what_no_plan_tells_is_not_guessed(session: psycopg.Connection, body: str) -> None:
    asked = _made(session, NOT_BY_KEYS[body])
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=_TOO_LARGE), session.transaction():
        session.execute(asked.encode())
    session.execute("SET sluice.load_limit = '256MB'")
    assert session.execute(asked.encode()).fetchall() == [(70,)]


def test_a_hidden_plan_is_not_taken_for_one_that_never_runs(lake: Server) -> None:
    """As many scans are counted as were planned, but of other keys."""
    body = (
        "DECLARE c integer; BEGIN c := CASE WHEN random() < 0 THEN (SELECT n FROM sought WHERE id = k + 1) ELSE 0 END;"
        " SET LOCAL client_min_messages = error; RETURN (SELECT n FROM sought WHERE id = k + 0 * c); END"
    )
    with psycopg.connect(lake.url, autocommit=True) as session:
        asked = _made(session, body)
        assert session.execute(asked.encode()).fetchall() == [(70,)]


@pytest.mark.parametrize(
    "function",
    [
        "FUNCTION hides() RETURNS void LANGUAGE plpgsql AS $$ BEGIN SET LOCAL client_min_messages = error; END $$",
        "FUNCTION hides() RETURNS void BEGIN ATOMIC SELECT set_config('client_min_messages', 'error', true); END",
    ],
    ids=["text", "SQL-standard body"],
)
def test_only_functions_that_are_called_hide_plans(lake: Server, function: str) -> None:
    """A function that others make slows nobody down."""
    lake.psql("-qc", f"CREATE {function}")
    try:
        with psycopg.connect(lake.url, options="-c sluice.load_limit=20kB") as session:
            asked = _made(session, BY_KEYS["a variable"])
            assert session.execute(asked.encode()).fetchall() == [(70,)]
            asked = _made(session, "BEGIN PERFORM hides(); RETURN (SELECT n FROM sought WHERE id = k); END")
            with pytest.raises(psycopg.errors.FeatureNotSupported, match=_TOO_LARGE):
                session.execute(asked.encode())
    finally:
        lake.psql("-qc", "DROP FUNCTION hides")


def test_of_many_new_rows_no_keys_are_looked_up(lake: Server) -> None:
    """The table is copied, so that the function catches the violation."""
    body = (
        "BEGIN INSERT INTO sought (id) SELECT g FROM generate_series(29000, 31000) g; RETURN 0;"
        " EXCEPTION WHEN unique_violation THEN RETURN k * 10; END"
    )
    with psycopg.connect(lake.url, autocommit=True) as session:
        asked = _made(session, body)
        assert session.execute(asked.encode()).fetchall() == [(70,)]
        assert session.execute("SELECT count(*) FROM sought WHERE id > 28999").fetchall() == [(_ROWS - 28_999,)]


def test_keys_that_are_others_each_time(session: psycopg.Connection) -> None:
    session.execute("CREATE TEMPORARY SEQUENCE numbers")
    asked = _made(session, "BEGIN RETURN (SELECT n FROM sought WHERE id = k * 0 + nextval('numbers')); END")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=_TOO_LARGE), session.transaction():
        session.execute(asked.encode())


def test_the_client_gets_its_own_messages_alone(lake: Server) -> None:
    """A session that asks for messages of level LOG gets no plans; one that wants few gets no more than these."""
    body = (
        "BEGIN RAISE LOG 'a log'; RAISE NOTICE 'a notice'; RAISE WARNING 'a warning'; RAISE INFO 'an info';"
        " RETURN (SELECT n FROM sought WHERE id = k); END"
    )
    expected = {
        "log": ["a log", "a notice", "a warning", "an info"],
        "notice": ["a notice", "a warning", "an info"],
        "warning": ["a warning", "an info"],
        "error": ["an info"],
    }
    for level, messages in expected.items():
        with psycopg.connect(lake.url) as session:
            asked = _made(session, body)
            told: list[str | None] = []
            session.add_notice_handler(lambda notice: told.append(notice.message_primary))  # noqa: B023
            session.execute(f"SET client_min_messages = {level}".encode())
            assert session.execute(asked.encode()).fetchall() == [(70,)]
            assert told == messages
            session.rollback()


def test_a_printed_plan_is_not_forged(session: psycopg.Connection) -> None:
    """RAISE says what PostgreSQL says, in the name of another routine."""
    plan = "{PLANNEDSTMT :permInfos <> :rtable <> :planTree <>}"
    asked = _made(
        session,
        f"BEGIN RAISE LOG 'plan:' USING DETAIL = '{plan}'; SET LOCAL debug_print_plan = off;"
        " RETURN (SELECT n FROM sought WHERE id = k); END",
    )
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=_TOO_LARGE):
        session.execute(asked.encode())
