"""`SET sluice.as_of`: a snapshot's rows are read again at any later time, or refused; never others."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.servers import Server

_SNAPSHOT = "SELECT max(snapshot_id) FROM pg_sluice.snapshots"
# What is read at every snapshot: views, joins, aggregates, conditions that statistics can prune by.
_QUERIES = (
    "SELECT n, t FROM entry ORDER BY n",
    "SELECT count(*), sum(n), min(t) FROM entry",
    "SELECT n FROM entry WHERE n > 3 ORDER BY n",
    "SELECT e.t, k.word FROM entry e JOIN kind k ON k.n = e.n ORDER BY e.t",
    "SELECT * FROM long_entry ORDER BY 1",
    "WITH a AS (SELECT n FROM entry) SELECT count(*) FROM a, kind",
)
_CHANGES = (
    "INSERT INTO entry SELECT n, 'row ' || n FROM generate_series(1, 5) n",
    "INSERT INTO kind VALUES (1, 'one'), (2, 'two')",
    "UPDATE entry SET t = upper(t) WHERE n < 3",
    "DELETE FROM entry WHERE n = 4",
    "BEGIN; INSERT INTO entry VALUES (6, 'six'); DELETE FROM kind; INSERT INTO kind VALUES (5, 'five'); COMMIT",
    "TRUNCATE entry",
    "INSERT INTO entry VALUES (7, 'seven'), (5, 'again')",
    "ALTER TABLE entry ADD later text DEFAULT 'x'",
    "UPDATE entry SET later = t",
)

Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def lake(gateway: Server, schema: str) -> Iterator[Connection]:
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))
        yield connection


def _one(connection: Connection, query: str) -> object:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def _answers(connection: Connection) -> list[list[tuple[object, ...]]]:
    return [connection.execute(query.encode()).fetchall() for query in _QUERIES]


def _error(connection: Connection, query: str) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(query.encode())
    return caught.value.diag.sqlstate, caught.value.diag.message_primary


def test_every_snapshot_reads_as_it_was(lake: Connection) -> None:
    lake.execute("CREATE TABLE entry (n integer NOT NULL, t text)")
    lake.execute("CREATE TABLE kind (n integer, word text)")
    lake.execute("CREATE VIEW long_entry AS SELECT t, n FROM entry WHERE length(t) > 3")
    then: dict[object, list[list[tuple[object, ...]]]] = {_one(lake, _SNAPSHOT): _answers(lake)}
    times = {_one(lake, "SELECT clock_timestamp()::text"): next(iter(then.values()))}
    for change in _CHANGES:
        lake.execute(change.encode())
        answers = _answers(lake)
        then[_one(lake, _SNAPSHOT)] = answers
        times[_one(lake, "SELECT clock_timestamp()::text")] = answers
    assert len(then) == len(_CHANGES) + 1
    for number, answers in reversed(then.items()):
        lake.execute(f"SET sluice.as_of = {number}".encode())
        assert _one(lake, "SHOW sluice.as_of") == str(number)
        assert _answers(lake) == answers, number
    for moment, answers in times.items():
        lake.execute(f"SET sluice.as_of = '{moment}'".encode())
        assert lake.execute(_QUERIES[0].encode()).fetchall() == answers[0], moment
    with lake.cursor() as cursor, cursor.copy("COPY (SELECT n, t FROM entry ORDER BY n) TO STDOUT") as copy:
        assert b"".join(copy) == b"5\tagain\n7\tseven\n"
    lake.execute("RESET sluice.as_of")
    assert _one(lake, "SELECT count(*) FROM entry WHERE later = t") == 2
    # Bound parameters, prepared statements and cursors read it too.
    first = list(then)[1]
    lake.execute(f"SET sluice.as_of = {first}".encode())
    assert lake.execute("SELECT t FROM entry WHERE n = %s", (4,), prepare=True).fetchall() == [("row 4",)]
    with lake.transaction():
        lake.execute("DECLARE c CURSOR FOR SELECT n FROM entry ORDER BY n")
        lake.execute("SET sluice.as_of = ''")
        assert lake.execute("FETCH 2 FROM c").fetchall() == [(1,), (2,)]
        assert lake.execute("SELECT n FROM entry ORDER BY n").fetchall() == [(5,), (7,)]


def test_columns_that_were_others_are_refused(lake: Connection) -> None:
    lake.execute("CREATE TABLE kept (n integer, t text)")
    lake.execute("INSERT INTO kept VALUES (1, 'a'), (2, 'b')")
    before = _one(lake, _SNAPSHOT)

    def as_of(query: str) -> object:
        lake.execute(f"SET sluice.as_of = {before}".encode())
        try:
            return lake.execute(query.encode()).fetchall()
        except psycopg.Error as error:
            return error.diag.sqlstate, error.diag.message_primary
        finally:
            lake.execute("RESET sluice.as_of")

    refused = f'table "kept" cannot be read as of snapshot {before}: its column'
    lake.execute("ALTER TABLE kept ADD u integer DEFAULT 9")
    lake.execute("INSERT INTO kept VALUES (3, 'c', 3)")
    lake.execute("CREATE VIEW all_kept AS SELECT * FROM kept")
    added = ("0A000", f'{refused} "u" was added later')
    assert as_of("SELECT n, t FROM kept ORDER BY n") == [(1, "a"), (2, "b")]
    assert as_of("SELECT count(*) FROM kept") == [(2,)]
    assert as_of("SELECT kept.t FROM kept JOIN (SELECT 2 AS n) s USING (n)") == [("b",)]
    for query in (
        "SELECT * FROM kept",
        "SELECT n FROM kept WHERE u = 9",
        "SELECT n FROM all_kept",
        "SELECT n FROM kept NATURAL JOIN (SELECT 9 AS u) s",
        "SELECT count(kept) FROM kept",
        "SELECT (SELECT max(u) FROM kept)",
        "TABLE kept",
    ):
        assert as_of(query) == added, query
    lake.execute("DROP VIEW all_kept")
    lake.execute("ALTER TABLE kept DROP u")
    assert as_of("SELECT * FROM kept ORDER BY n") == [(1, "a"), (2, "b")]
    lake.execute("ALTER TABLE kept RENAME t TO v")
    assert as_of("SELECT n FROM kept") == ("0A000", f'{refused} "v" was called "t" then')
    lake.execute("ALTER TABLE kept RENAME v TO t")
    assert as_of("SELECT t FROM kept WHERE n = 2") == [("b",)]
    lake.execute("ALTER TABLE kept RENAME TO called")
    assert as_of("SELECT t FROM called")[0] == "0A000"  # type: ignore[index]
    assert as_of("SELECT t FROM kept")[0] == "42P01"  # type: ignore[index]
    lake.execute("CREATE TABLE kept (n integer, t text)")
    assert as_of("SELECT t FROM kept") == ("42P01", f'relation "kept" did not exist at snapshot {before}')
    lake.execute("DROP TABLE kept")
    lake.execute("ALTER TABLE called RENAME TO kept")
    lake.execute("ALTER TABLE kept DROP t")
    assert as_of("SELECT n FROM kept") == ("0A000", f'{refused} "t" was dropped since')
    lake.execute("ALTER TABLE kept ADD t text")
    assert as_of("SELECT n FROM kept") == ("0A000", f'{refused} "t" was dropped since')


def test_the_setting_is_as_any_other(gateway: Server, schema: str, lake: Connection) -> None:
    lake.execute("CREATE TABLE seen (n integer)")
    empty = _one(lake, _SNAPSHOT)
    lake.execute("INSERT INTO seen VALUES (1)")
    one = _one(lake, _SNAPSHOT)
    lake.execute("INSERT INTO seen VALUES (2)")
    count = "SELECT count(*) FROM seen"
    assert _one(lake, "SHOW sluice.as_of") == ""
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        lake.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        assert _one(lake, count) == 2
        lake.execute(f"SET LOCAL sluice.as_of = {one}".encode())
        assert _one(lake, count) == 1
        lake.execute("SAVEPOINT s")
        lake.execute(f"SET LOCAL sluice.as_of TO '{empty}'".encode())
        assert _one(lake, count) == 0
        lake.execute("ROLLBACK TO s")
        assert _one(lake, count) == 1
        lake.execute("COMMIT")
        assert _one(lake, count) == 2
    # The transaction's own rows are not seen in the past, and are there again afterwards.
    lake.execute("BEGIN")
    lake.execute("INSERT INTO seen VALUES (3)")
    lake.execute("CREATE TABLE own (n integer)")
    lake.execute(f"SET LOCAL sluice.as_of = {one}".encode())
    assert _one(lake, count) == 1
    lake.execute("SAVEPOINT s")
    assert _error(lake, "SELECT * FROM own") == ("42P01", f'relation "own" did not exist at snapshot {one}')
    lake.execute("ROLLBACK TO s")
    lake.execute("SET LOCAL sluice.as_of TO DEFAULT")
    assert _one(lake, count) == 3
    lake.execute("ROLLBACK")
    lake.execute(f"SELECT set_config('sluice.as_of', '{one}', false)".encode())
    assert _one(lake, count) == 1
    lake.execute("DISCARD ALL")
    assert _one(lake, "SHOW sluice.as_of") == ""
    options = f"-c sluice.as_of={one} -c search_path={schema}"
    with psycopg.connect(gateway.url, autocommit=True, options=options) as connection:
        assert (_one(connection, "SHOW sluice.as_of"), _one(connection, count)) == (str(one), 1)
        connection.execute("SET sluice.as_of = ''")
        assert _one(connection, count) == 2
        connection.execute("RESET sluice.as_of")
        assert _one(connection, count) == 1


def test_a_role_may_carry_it(gateway: Server, schema: str, lake: Connection) -> None:
    lake.execute("CREATE TABLE seen (n integer)")
    empty = _one(lake, _SNAPSHOT)
    lake.execute("INSERT INTO seen VALUES (1)")
    count = f"SELECT count(*) FROM {schema}.seen"
    lake.execute(f"ALTER ROLE CURRENT_USER SET sluice.as_of = '{empty}'".encode())
    try:
        with psycopg.connect(gateway.url, autocommit=True) as connection:
            assert (_one(connection, "SHOW sluice.as_of"), _one(connection, count)) == (str(empty), 0)
    finally:
        lake.execute("ALTER ROLE CURRENT_USER RESET sluice.as_of")
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        assert (_one(connection, "SHOW sluice.as_of"), _one(connection, count)) == ("", 1)


def test_the_extended_protocol_sets_it(lake: Connection) -> None:
    lake.execute("CREATE TABLE seen (n integer)")
    empty = _one(lake, _SNAPSHOT)
    lake.execute("INSERT INTO seen VALUES (1)")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="invalid value for parameter"):
        lake.execute("SET sluice.as_of = 'nonsense'", prepare=True)
    with lake.transaction():
        lake.execute(f"SET LOCAL sluice.as_of = {empty}".encode(), prepare=True)
        assert _one(lake, "SELECT count(*) FROM seen") == 0
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="no snapshot"), lake.transaction():
            lake.execute("SET LOCAL sluice.as_of = 123456789", prepare=True)
        assert _one(lake, "SELECT count(*) FROM seen") == 0
    assert _one(lake, "SELECT count(*) FROM seen") == 1


def test_the_past_is_read_only(lake: Connection) -> None:
    lake.execute("CREATE TABLE past (n integer)")
    lake.execute(f"SET sluice.as_of = {_one(lake, _SNAPSHOT)}".encode())
    changing = ("25006", "cannot change lake tables while sluice.as_of is set")
    for statement in (
        "INSERT INTO past VALUES (1)",
        "INSERT INTO past SELECT * FROM past",
        "UPDATE past SET n = 2",
        "DELETE FROM past",
        "TRUNCATE past",
        "CREATE TABLE other AS SELECT 1 AS n",
    ):
        assert _error(lake, statement) == changing, statement
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), lake.cursor().copy("COPY past FROM STDIN") as copy:
        copy.write(b"1\n")
    for statement, word in (
        ("CREATE TABLE other (n integer)", "CREATE TABLE"),
        ("ALTER TABLE past ADD m integer", "ALTER TABLE"),
        ("DROP TABLE past", "DROP TABLE"),
        ("CREATE VIEW v AS SELECT 1", "CREATE VIEW"),
    ):
        assert _error(lake, statement) == ("25006", f"cannot execute {word} while sluice.as_of is set")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), lake.transaction():
        lake.execute("INSERT INTO past VALUES (1)")
    lake.execute("RESET sluice.as_of")
    lake.execute("INSERT INTO past VALUES (1)")
    assert _one(lake, "SELECT count(*) FROM past") == 1


def test_values_that_name_no_snapshot(lake: Connection) -> None:
    newest = _one(lake, _SNAPSHOT)
    assert isinstance(newest, int)
    wrong = {
        "yesterdayish": 'invalid value for parameter "sluice.as_of": "yesterdayish"',
        "-3": 'invalid value for parameter "sluice.as_of": "-3"',
        str(newest + 1_000_000): f"there is no snapshot {newest + 1_000_000}",
        "9" * 40: f"there is no snapshot {'9' * 40}",
        "2000-01-01": "the lake did not exist at that time",
        "-infinity": "the lake did not exist at that time",
        "0044-03-15 BC": "the lake did not exist at that time",
        "infinity": "the lake cannot be read as of a time in the future",
        "tomorrow": "the lake cannot be read as of a time in the future",
    }
    lake.execute("CREATE TABLE any_table (n integer)")
    for value, message in wrong.items():
        assert _error(lake, f"SET sluice.as_of = '{value}'") == ("22023", message)
        assert _error(lake, f"SET LOCAL sluice.as_of TO '{value}'") == ("22023", message)
        assert _one(lake, "SHOW sluice.as_of") == ""
        # Where nobody looked when it was set, reading says so.
        lake.execute("SELECT set_config('sluice.as_of', %s, false)", (value,))
        assert _error(lake, "SELECT * FROM any_table") == ("22023", message)
        lake.execute("RESET sluice.as_of")
    for value in (str(newest), "now", "", "  "):
        lake.execute(sql.SQL("SET sluice.as_of = {}").format(value))
        lake.execute("RESET sluice.as_of")
    lake.execute("SET TimeZone = 'Asia/Tokyo'")
    lake.execute("SELECT pg_sleep(0.01)")
    moment = _one(lake, "SELECT clock_timestamp()::timestamp::text")
    time.sleep(0.01)
    lake.execute("INSERT INTO any_table VALUES (1)")
    lake.execute(f"SET sluice.as_of = '{moment}'".encode())
    assert _one(lake, "SELECT count(*) FROM any_table") == 0
