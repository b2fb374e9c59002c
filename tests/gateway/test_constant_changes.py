"""UPDATE and DELETE of few rows that set constants: the gateway makes the rows, as PostgreSQL would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from tests.gateway.both_sides import both_sides
from tests.servers import Server

_SCHEMA = """
CREATE TABLE constants (
    id integer PRIMARY KEY, small smallint, big bigint NOT NULL DEFAULT 5, flag boolean, note text,
    short varchar(5), fixed char(4), price numeric(8, 2), number numeric, real4 real, real8 double precision,
    day date, moment timestamp, zoned timestamptz(3), code uuid, raw bytea, doc jsonb, many integer[], code_name text
);
CREATE INDEX constants_note ON constants (note, small);
INSERT INTO constants (id, small, big, flag, note, short, fixed, price, number, real4, real8, day, moment, zoned)
    SELECT n, n, n, n % 2 = 0, 'note ' || n, 's' || n, 'f', n, n, n, n, DATE '2020-01-01' + n, '2020-01-01',
        '2020-01-01'
    FROM generate_series(1, 120) n;
UPDATE constants SET big = 9000000000 WHERE id = 120;
CREATE TABLE checked (id integer PRIMARY KEY, n integer CHECK (n < 10));
INSERT INTO checked SELECT n, 1 FROM generate_series(1, 60) n;
CREATE TABLE generated (id integer PRIMARY KEY, n integer, twice integer GENERATED ALWAYS AS (n * 2) STORED);
INSERT INTO generated SELECT n, n FROM generate_series(1, 60) n;
CREATE TABLE indexed (id integer PRIMARY KEY, n integer);
CREATE INDEX indexed_reciprocal ON indexed ((10 / n));
INSERT INTO indexed SELECT n, n FROM generate_series(1, 60) n;
CREATE DOMAIN percent AS integer CHECK (value BETWEEN 0 AND 100);
CREATE TABLE of_domain (id integer PRIMARY KEY, share percent);
INSERT INTO of_domain SELECT n, n FROM generate_series(1, 60) n;
CREATE TABLE parent (id integer PRIMARY KEY, n integer UNIQUE);
INSERT INTO parent SELECT n, n FROM generate_series(1, 60) n;
CREATE TABLE child (id integer PRIMARY KEY, parent integer REFERENCES parent ON DELETE CASCADE,
    n integer REFERENCES parent (n) ON UPDATE CASCADE);
INSERT INTO child SELECT n, n, n FROM generate_series(1, 60) n;
CREATE TABLE keyless (n integer, m integer);
INSERT INTO keyless VALUES (1, 1), (1, 1), (2, 2), (NULL, 3);
CREATE VIEW low AS SELECT id, n FROM checked WHERE id < 50 WITH CHECK OPTION;
CREATE VIEW renamed AS SELECT n AS number, id AS key FROM parent WHERE id > 10;
CREATE TABLE noted (id integer PRIMARY KEY, n integer);
INSERT INTO noted SELECT n, n FROM generate_series(1, 60) n;
CREATE FUNCTION add_one() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.n := NEW.n + 1; RETURN NEW; END';
CREATE TRIGGER adds BEFORE UPDATE ON noted FOR EACH ROW EXECUTE FUNCTION add_one();
"""
_TABLES = ("constants", "checked", "generated", "indexed", "of_domain", "parent", "child", "keyless", "noted")


@pytest.fixture(scope="module")
def sides(oracle: Server, gateway: Server) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    with both_sides(oracle, gateway, "constant_changes", _SCHEMA) as connections:
        yield connections


def _told(connection: psycopg.Connection, statement: str, parameters: list[object] | None) -> list[object]:
    """What a statement answers, and all rows after it."""
    connection.execute("BEGIN")
    try:
        try:
            done = connection.execute(statement.encode(), parameters)
            told: list[object] = [done.statusmessage]
        except psycopg.Error as error:
            connection.execute("ROLLBACK")
            return [error.sqlstate, error.diag.message_primary, error.diag.message_detail]
        for table in _TABLES:
            rows = connection.execute(f"SELECT t::text FROM {table} t".encode()).fetchall()
            told.append(sorted(str(row) for (row,) in rows))
        return told
    finally:
        connection.execute("ROLLBACK")


def _engine(gateway: psycopg.Connection, statement: str, parameters: list[object] | None) -> str:
    plan = gateway.execute(f"EXPLAIN {statement}".encode(), parameters).fetchall()
    return str(plan[0][0]).partition(" ")[0]


_BY_THE_GATEWAY: list[tuple[str, list[object] | None]] = [
    ("UPDATE constants SET big = 7 WHERE id = 3", None),
    ("UPDATE constants SET big = 7 WHERE id = 3 AND flag", None),
    ("UPDATE constants SET small = -32768, big = -9223372036854775808, flag = NULL WHERE id IN (1, 2, 300)", None),
    ("UPDATE constants SET note = 'é\\ %', short = NULL WHERE id = 3 OR id = 5", None),
    ("UPDATE constants SET real8 = 'NaN', real4 = '-0' WHERE id = 3", None),
    ("UPDATE constants SET real8 = '-Infinity', real4 = '3.4028235e38' WHERE id = 3", None),
    ("UPDATE constants SET day = '0001-01-01', moment = '9999-12-31 23:59:59.999999' WHERE id = 3", None),
    ("UPDATE constants SET code = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', raw = '\\x00ff' WHERE id = 3", None),
    ("UPDATE constants SET big = %s, note = %s, flag = %s WHERE id = %s", [12, "told", True, 3]),
    ("UPDATE constants SET note = %s, flag = %s WHERE id = %s", [None, None, 3]),
    ("UPDATE constants SET price = 1.005 WHERE id = 3", None),
    ("UPDATE constants SET big = DEFAULT, note = NULL WHERE id = 3", None),
    ("UPDATE constants SET big = big + 1, small = small - 4::smallint WHERE id IN (3, 5)", None),
    ("UPDATE constants SET big = 9223372036854775800 + big WHERE id < 9", None),
    ("UPDATE constants SET big = big - %s WHERE id = %s", [5, 3]),
    ("UPDATE keyless SET n = n + 1, m = 4 - 5", None),
    ("UPDATE keyless SET n = n + 2147483646", None),
    ("UPDATE keyless SET n = n + NULL", None),
    ("UPDATE parent SET id = id + 1000 WHERE id = 3", None),
    ("UPDATE parent SET n = n + 1 WHERE id = 3", None),
    ("DELETE FROM constants WHERE id = 3", None),
    ("DELETE FROM constants WHERE id = 3 AND note LIKE 'note%'", None),
    ("DELETE FROM constants WHERE id = %s", [3]),
    ("UPDATE parent SET n = 100 WHERE id = 3", None),
    ("UPDATE parent SET n = 4 WHERE id = 3", None),
    ("UPDATE parent SET id = 100 WHERE id = 3", None),
    ("UPDATE child SET parent = 1000 WHERE id = 3", None),
    ("UPDATE child SET parent = NULL, n = 4 WHERE id = 3", None),
    ("DELETE FROM parent WHERE id = 3", None),
    ("DELETE FROM child WHERE id = 3", None),
    ("UPDATE keyless SET m = 9", None),
    ("UPDATE keyless SET m = 9 WHERE n = 1", None),
    ("UPDATE keyless SET m = NULL WHERE n IS NULL", None),
    ("DELETE FROM keyless WHERE n = 1", None),
    ("DELETE FROM keyless", None),
    ("UPDATE renamed SET number = 700 WHERE key = 11", None),
    ("UPDATE renamed SET number = 700 WHERE key = 9", None),
    ("DELETE FROM checked WHERE id = 3", None),
    ("DELETE FROM generated WHERE id = 3", None),
]
_BY_OTHERS: list[tuple[str, list[object] | None]] = [
    ("UPDATE constants SET note = %s, price = %s, moment = %s WHERE id = %s", [None, None, None, 3]),
    ("UPDATE constants SET code = 'a0eebc999c0b4ef8bb6d6bb9bd380a11'::text::uuid WHERE id = 3", None),
    ("UPDATE constants SET note = 5::text || true, short = 'ab   '::char(5) WHERE id = 3", None),
    ("UPDATE constants SET big = big WHERE false", None),
    ("UPDATE constants SET big = NULL WHERE id = 3", None),
    ("UPDATE constants SET big = 3 - big WHERE id = 3", None),
    ("UPDATE constants SET big = big * 2 WHERE id = 3", None),
    ("UPDATE constants SET big = small + 1 WHERE id = 3", None),
    ("UPDATE constants SET small = small + 1 WHERE id = 3", None),
    ("UPDATE constants SET big = big + NULL WHERE id = 3", None),
    ("UPDATE constants SET number = number + 1, price = price - 1 WHERE id = 3", None),
    ("UPDATE constants SET id = NULL WHERE id = 3", None),
    ("UPDATE constants SET short = 'too long' WHERE id = 3", None),
    ("UPDATE constants SET short = %s WHERE id = 3", ["too long"]),
    ("UPDATE constants SET fixed = 'ab' WHERE id = 3", None),
    ("UPDATE constants SET price = 1234567 WHERE id = 3", None),
    ("UPDATE constants SET number = 1.500 WHERE id = 3", None),
    ("UPDATE constants SET day = 'infinity', moment = '-infinity' WHERE id = 3", None),
    ("UPDATE constants SET moment = '4713-01-01 BC' WHERE id = 3", None),
    ("UPDATE constants SET zoned = '2020-01-01 00:00:00.123456+02' WHERE id = 3", None),
    ("UPDATE constants SET doc = '{\"a\": [1]}', many = '{1,NULL}' WHERE id = 3", None),
    ("UPDATE constants SET small = 40000 WHERE id = 3", None),
    ("UPDATE constants SET (big, note) = (SELECT 1, 'x') WHERE id = 3", None),
    ("UPDATE constants SET note = (SELECT max(note) FROM parent p JOIN constants c USING (id)) WHERE id = 3", None),
    ("UPDATE constants SET big = 7 WHERE id = 3 RETURNING id, big", None),
    ("UPDATE constants c SET big = 7 FROM parent p WHERE c.id = p.id AND p.id = 3", None),
    ("DELETE FROM constants c USING parent p WHERE c.id = p.id AND p.id = 3", None),
    ("DELETE FROM constants WHERE id = 3 RETURNING note", None),
    ("WITH gone AS (DELETE FROM child WHERE id = 3 RETURNING id) DELETE FROM constants WHERE id = 3", None),
    ("DELETE FROM constants WHERE id = 3 AND lower(note) = 'note 3'", None),
    ("UPDATE checked SET n = 5 WHERE id = 3", None),
    ("UPDATE checked SET n = 10 WHERE id = 3", None),
    ("UPDATE low SET id = 70 WHERE id = 3", None),
    ("UPDATE low SET n = 3 WHERE id = 3", None),
    ("UPDATE generated SET n = 5 WHERE id = 3", None),
    ("UPDATE indexed SET n = 0 WHERE id = 3", None),
    ("UPDATE indexed SET n = 5 WHERE id = 3", None),
    ("UPDATE of_domain SET share = 101 WHERE id = 3", None),
    ("UPDATE of_domain SET share = 50 WHERE id = 3", None),
    ("UPDATE noted SET n = 5 WHERE id = 3", None),
    ("DELETE FROM noted WHERE id = 3", None),
]


@pytest.mark.turns
@pytest.mark.parametrize(
    ("statement", "parameters", "by_the_gateway"),
    [(*case, True) for case in _BY_THE_GATEWAY] + [(*case, False) for case in _BY_OTHERS],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_outcomes_are_those_of_postgres(
    sides: tuple[psycopg.Connection, psycopg.Connection],
    statement: str,
    parameters: list[object] | None,
    by_the_gateway: bool,
) -> None:
    oracle, gateway = sides
    assert _told(gateway, statement, parameters) == _told(oracle, statement, parameters)
    try:
        engine = _engine(gateway, statement, parameters)
    except psycopg.Error:
        return
    assert (engine == "Gateway") == by_the_gateway


def test_settings_force_an_engine(sides: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    _, gateway = sides
    for engine, first in (("postgres", "PostgreSQL"), ("spark", "Spark"), ("auto", "Gateway")):
        gateway.execute(f"SET sluice.engine = {engine}".encode())
        assert _engine(gateway, "UPDATE constants SET big = 100 WHERE id = 3", None) == first
        assert gateway.execute("UPDATE constants SET big = 3 WHERE id = 3").statusmessage == "UPDATE 1"
    gateway.execute("RESET sluice.engine")


def test_rights_are_those_of_the_client(sides: tuple[psycopg.Connection, psycopg.Connection], gateway: Server) -> None:
    _, owner = sides
    owner.execute("CREATE ROLE meagre LOGIN; GRANT USAGE ON SCHEMA constant_changes TO meagre")
    try:
        owner.execute("GRANT UPDATE (n), SELECT (id) ON parent TO meagre")
        url, options = replace(gateway, user="meagre").url, "-c search_path=constant_changes"
        with psycopg.connect(url, options=options) as connection:
            assert connection.execute("UPDATE parent SET n = 700 WHERE id = 3").statusmessage == "UPDATE 1"
            connection.rollback()
            for statement in (
                "UPDATE parent SET id = 700 WHERE id = 3",
                "UPDATE parent SET n = 700 WHERE n = 3",
                "DELETE FROM parent WHERE id = 3",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.encode())
                connection.rollback()
    finally:
        owner.execute("REVOKE ALL ON parent FROM meagre; REVOKE ALL ON SCHEMA constant_changes FROM meagre")
        owner.execute("DROP ROLE meagre")


def test_a_row_that_another_changes_meanwhile_is_looked_at_again(
    sides: tuple[psycopg.Connection, psycopg.Connection], gateway: Server
) -> None:
    _, first = sides
    with psycopg.connect(gateway.url, autocommit=True, options="-c search_path=constant_changes") as second:
        first.execute("BEGIN")
        first.execute("UPDATE parent SET n = 500 WHERE id = 7")
        with second.pipeline() as pipeline:
            waiting = second.execute("UPDATE parent SET n = 600 WHERE id = 7 AND n = 7")
            first.execute("COMMIT")
            pipeline.sync()
            assert waiting.statusmessage == "UPDATE 0"
        assert second.execute("SELECT n FROM parent WHERE id = 7").fetchall() == [(500,)]
        second.execute("UPDATE parent SET n = 7 WHERE id = 7 AND n = 500")
    assert first.execute("SELECT n FROM parent WHERE id = 7").fetchall() == [(7,)]


_MERGE = "MERGE INTO followed USING (VALUES (1)) v (k) ON id = k WHEN MATCHED THEN UPDATE SET n = 78"


@pytest.mark.parametrize(
    ("columns", "change"),
    [
        ("id integer, n integer", "UPDATE followed SET n = 78 WHERE id = 1"),
        ("id integer PRIMARY KEY, n integer", "UPDATE followed SET n = 78 WHERE id = 1"),
        ("id integer PRIMARY KEY, n integer", "UPDATE followed SET id = 78 WHERE id = 1"),
        ("id integer PRIMARY KEY, n integer", "UPDATE followed SET n = n * 2 WHERE id = 1"),
        ("id integer PRIMARY KEY, n integer", _MERGE),
        ("id integer, n integer", _MERGE),
        ("id integer PRIMARY KEY, n integer", "INSERT INTO followed VALUES (1) ON CONFLICT (id) DO UPDATE SET n = 78"),
    ],
)
def test_a_cursor_follows_its_row(
    sides: tuple[psycopg.Connection, psycopg.Connection], columns: str, change: str
) -> None:
    told = []
    for connection in sides:
        connection.execute(f"BEGIN; CREATE TABLE followed ({columns})".encode())
        connection.execute("COMMIT; INSERT INTO followed VALUES (1, 1), (2, 2)")
        connection.execute("BEGIN; DECLARE c CURSOR FOR SELECT * FROM followed FOR UPDATE; FETCH c")
        connection.execute(change.encode())
        told.append(connection.execute("UPDATE followed SET n = 79 WHERE CURRENT OF c").statusmessage)
        told.append(str(sorted(connection.execute("SELECT * FROM followed").fetchall())))
        connection.execute("ROLLBACK; DROP TABLE followed")
    assert told[:2] == told[2:]


def test_a_cursor_loses_its_row_where_a_merge_also_deletes(
    sides: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    """Nothing says then which row replaced which; a later block's cursor knows nothing of it."""
    _, gateway = sides
    declare = "BEGIN; DECLARE c CURSOR FOR SELECT * FROM one_lost ORDER BY id FOR UPDATE; FETCH c"
    gateway.execute("CREATE TABLE one_lost (id integer PRIMARY KEY, n integer); INSERT INTO one_lost VALUES (1, 1)")
    gateway.execute(declare)
    gateway.execute(
        "MERGE INTO one_lost USING (VALUES (1)) v (k) ON id = k WHEN MATCHED AND n = 9 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET n = 78 WHEN NOT MATCHED THEN INSERT VALUES (9, 9)"
    )
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="replaced untraced"):
        gateway.execute("DELETE FROM one_lost WHERE CURRENT OF c")
    gateway.execute("ROLLBACK")
    gateway.execute(declare)
    gateway.execute("DELETE FROM one_lost WHERE id = 1; INSERT INTO one_lost VALUES (1, 5)")
    assert gateway.execute("DELETE FROM one_lost WHERE CURRENT OF c").statusmessage == "DELETE 0"
    gateway.execute("ROLLBACK; DROP TABLE one_lost")


def test_a_value_that_the_lake_cannot_keep_is_told(sides: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    _, gateway = sides
    for engine in ("auto", "postgres", "spark"):
        gateway.execute(f"SET sluice.engine = {engine}".encode())
        for statement in (
            "UPDATE constants SET price = 'NaN' WHERE id = 3",
            "INSERT INTO constants (id, price) VALUES (3, 1) ON CONFLICT (id) DO UPDATE SET price = 'NaN'",
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                gateway.execute(statement.encode())
    gateway.execute("RESET sluice.engine")
