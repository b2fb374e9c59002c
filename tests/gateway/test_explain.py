"""EXPLAIN of lake statements; with ANALYZE they are executed, by the rules of the statements alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import psycopg
import pytest

from tests.servers import Server

_RULES = "CREATE TABLE explained (n integer PRIMARY KEY, t text NOT NULL CHECK (t <> ''), k integer DEFAULT 5)"


@pytest.fixture
def explained(target: Server) -> Iterator[Server]:
    """A small table, on PostgreSQL and on the gateway."""
    target.psql("-qc", _RULES, "-c", "INSERT INTO explained SELECT g, 'row ' || g FROM generate_series(1, 10) g")
    yield target
    target.psql("-qc", "DROP TABLE explained")


def _plan(server: Server, sql: str, engine: str = "spark") -> str:
    with psycopg.connect(server.url, autocommit=True, options=f"-c sluice.engine={engine}") as connection:
        return "\n".join(row[0] for row in connection.execute(sql.encode()))


CHANGES = {
    "INSERT INTO explained (n, t) VALUES (11, 'a'), (12, 'b')": 12,
    "INSERT INTO explained (n, t) SELECT n + 20, t FROM explained WHERE n > 5 RETURNING *": 15,
    "INSERT INTO explained (n, t) VALUES (1, 'a'), (13, 'b') ON CONFLICT (n) DO UPDATE SET t = 'upserted'": 11,
    "UPDATE explained SET t = 'changed' WHERE n % 2 = 0 RETURNING n": 10,
    "DELETE FROM explained WHERE n > 7": 7,
    "DELETE FROM explained USING (SELECT 3 AS m) x WHERE n = m": 9,
    "MERGE INTO explained e USING (VALUES (1, 'm'), (99, 'm')) AS v (n, t) ON e.n = v.n "
    "WHEN MATCHED THEN UPDATE SET t = v.t WHEN NOT MATCHED THEN INSERT (n, t) VALUES (v.n, v.t)": 11,
    "SELECT * FROM explained FOR UPDATE": 10,
    "INSERT INTO explained (n, t) SELECT n + 30, to_json(e)::text FROM explained e": 20,
    "UPDATE explained e SET t = to_json(e)::text WHERE n < 3": 10,
    "DELETE FROM explained e WHERE to_json(e) ->> 't' = 'row 4'": 9,
}


_MAKING = {
    "CREATE TABLE made AS SELECT n, t FROM explained WHERE n > 4": (6, "Spark Select"),
    "CREATE TABLE made AS SELECT to_json(e)::text AS j FROM explained e": (10, "PostgreSQL Select"),
    "CREATE TABLE made AS SELECT g FROM generate_series(1, 3) g": (3, "PostgreSQL Create Table As"),
    "CREATE TEMP TABLE made AS SELECT n, t FROM explained WHERE n > 4": (6, "Spark Select"),
    "CREATE TEMP TABLE made AS SELECT e FROM explained e": (10, "PostgreSQL Select"),
    "CREATE TEMP TABLE made AS EXECUTE p (3)": (7, "Spark Select"),
    "CREATE TABLE made AS EXECUTE p (3)": (7, "Spark Select"),
    "CREATE TABLE made AS EXECUTE q": (1, "PostgreSQL Create Table As"),
}


@pytest.mark.turns
@pytest.mark.parametrize("sql", _MAKING)
def test_of_a_table_that_is_made(gateway: Server, explained: Server, sql: str) -> None:
    rows, plan = _MAKING[sql]
    if explained is not gateway:
        pytest.skip("PostgreSQL's own plans are others")
    with psycopg.connect(explained.url) as connection:
        connection.execute("PREPARE p (integer) AS SELECT n, t FROM explained WHERE n > $1")
        connection.execute("PREPARE q AS SELECT 1 AS one")
        assert connection.execute(f"EXPLAIN (COSTS OFF) {sql}".encode()).fetchone() == (plan,)
        assert connection.execute("SELECT to_regclass('made')").fetchone() == (None,)
        said = connection.execute(f"EXPLAIN (ANALYZE, COSTS OFF) {sql}".encode()).fetchall()
        assert said[0] == (plan,)
        assert (f"Actual Rows: {rows}",) in said
        assert connection.execute("SELECT count(*) FROM made").fetchone() == (rows,)
        connection.rollback()


_TEMPORARY = {
    "INSERT INTO own SELECT n, t FROM explained WHERE n > 3": (7, "PostgreSQL Insert"),
    "UPDATE own SET t = e.t FROM explained e WHERE e.n = own.n": (1, "PostgreSQL Update"),
    "DELETE FROM own USING explained e WHERE e.n = own.n": (1, "PostgreSQL Delete"),
    "MERGE INTO own USING explained e ON e.n = own.n WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT VALUES (e.n, e.t)": (10, "PostgreSQL Merge"),
}


@pytest.mark.turns
@pytest.mark.parametrize("sql", _TEMPORARY)
def test_of_a_temporary_table_that_is_changed(gateway: Server, explained: Server, sql: str) -> None:
    rows, plan = _TEMPORARY[sql]
    if explained is not gateway:
        pytest.skip("PostgreSQL's own plans are others")
    with psycopg.connect(explained.url) as connection:
        connection.execute("CREATE TEMP TABLE own (n integer, t text)")
        connection.execute("INSERT INTO own VALUES (1, 'mine')")
        said = connection.execute(f"EXPLAIN (COSTS OFF) {sql}".encode()).fetchall()
        assert said[:2] == [(plan,), ("  ->  Lake Rows on public.explained",)]
        assert connection.execute("SELECT * FROM own").fetchall() == [(1, "mine")]
        said = connection.execute(f"EXPLAIN (ANALYZE, COSTS OFF) {sql}".encode()).fetchall()
        assert (f"Actual Rows: {rows}",) in said
        assert connection.execute("SELECT * FROM own").fetchall() != [(1, "mine")]
        connection.rollback()


@pytest.mark.turns
@pytest.mark.parametrize("sql", CHANGES)
def test_analyze_carries_a_change_out(explained: Server, sql: str) -> None:
    plan = _plan(explained, f"EXPLAIN (ANALYZE, COSTS OFF) {sql}")
    assert re.search(r"Planning Time: \d+\.\d+ ms\n(.*\n)*?Execution Time: \d+\.\d+ ms", plan)
    assert explained.query("SELECT count(*) FROM explained") == [[str(CHANGES[sql])]]
    if "UPDATE SET t = 'upserted'" in sql:
        assert explained.query("SELECT t FROM explained WHERE n = 1") == [["upserted"]]


@pytest.mark.turns
@pytest.mark.parametrize("sql", CHANGES)
def test_without_analyze_nothing_happens(explained: Server, sql: str) -> None:
    before = explained.query("SELECT * FROM explained ORDER BY n")
    assert "Execution Time" not in _plan(explained, f"EXPLAIN {sql}")
    assert "Execution Time" not in _plan(explained, f"EXPLAIN (ANALYZE false, COSTS off) {sql}")
    assert explained.query("SELECT * FROM explained ORDER BY n") == before


def test_the_row_that_a_cursor_is_on(explained: Server) -> None:
    with psycopg.connect(explained.url) as connection:
        connection.execute("DECLARE c CURSOR FOR SELECT t FROM explained WHERE n = 4")
        connection.execute("EXPLAIN DELETE FROM explained WHERE CURRENT OF c")
        connection.execute("FETCH c")
        connection.execute("EXPLAIN ANALYZE UPDATE explained SET t = t || '!' WHERE CURRENT OF c")
        assert connection.execute("SELECT n, t FROM explained WHERE t ~ '!'").fetchall() == [(4, "row 4!")]
        connection.execute("EXPLAIN ANALYZE DELETE FROM explained WHERE CURRENT OF c")
        assert connection.execute("SELECT count(*) FROM explained").fetchone() == (9,)


def test_its_transaction_is_the_clients(explained: Server) -> None:
    with psycopg.connect(explained.url) as connection:
        connection.execute("EXPLAIN ANALYZE DELETE FROM explained WHERE n = 1")
        connection.execute("SAVEPOINT s")
        connection.execute("EXPLAIN ANALYZE UPDATE explained SET t = 'gone' WHERE n = 2")
        assert connection.execute("SELECT t FROM explained WHERE n = 2").fetchone() == ("gone",)
        connection.execute("ROLLBACK TO s")
        assert connection.execute("SELECT t FROM explained WHERE n = 2").fetchone() == ("row 2",)
        assert explained.query("SELECT count(*) FROM explained") == [["10"]]
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM explained").fetchone() == (10,)
        connection.execute("EXPLAIN ANALYZE INSERT INTO explained (n, t) VALUES (50, 'x')")
        connection.commit()
    assert explained.query("SELECT count(*) FROM explained") == [["11"]]


def test_parameters(explained: Server) -> None:
    with psycopg.connect(explained.url, autocommit=True) as connection:
        connection.execute("EXPLAIN ANALYZE INSERT INTO explained (n, t) VALUES (%s, %s)", (77, "seventy"))
        connection.execute("EXPLAIN (ANALYZE) UPDATE explained SET t = %s WHERE n = %s", ("changed", 3))
    assert explained.query("SELECT n, t FROM explained WHERE n IN (3, 77) ORDER BY n") == [
        ["3", "changed"], ["77", "seventy"],
    ]  # fmt: skip


@pytest.mark.turns
@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("INSERT INTO explained (n, t) VALUES (1, 'twice')", "23505"),
        ("INSERT INTO explained (n, t) VALUES (60, '')", "23514"),
        ("UPDATE explained SET t = NULL WHERE n = 1", "23502"),
        ("DELETE FROM explained WHERE 1 / (n - 5) > 0", "22012"),
        ("SELECT 1 / (n - 5) FROM explained", "22012"),
    ],
)
def test_errors_are_those_of_the_statement(explained: Server, sql: str, sqlstate: str) -> None:
    with psycopg.connect(explained.url, autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(f"EXPLAIN ANALYZE {sql}".encode())
        assert raised.value.sqlstate == sqlstate
        assert connection.execute("SELECT count(*) FROM explained").fetchone() == (10,)


def test_json(explained: Server) -> None:
    [[plan]] = explained.query("EXPLAIN (ANALYZE, FORMAT JSON) SELECT n FROM explained WHERE n > 3")
    [found] = json.loads(plan)
    assert found["Plan"]["Node Type"]
    assert found["Plan"]["Actual Rows"] == 7
    assert found["Execution Time"] > 0
    assert found["Planning Time"] > 0


def test_xml(explained: Server) -> None:
    [[plan]] = explained.query("EXPLAIN (ANALYZE, FORMAT XML) SELECT n FROM explained WHERE n > 3 AND t <> '<&>'")
    space = "{http://www.postgresql.org/2009/explain}"
    found = ElementTree.fromstring(plan)
    assert found.tag == f"{space}explain"
    assert found.findtext(f"{space}Query/{space}Plan/{space}Node-Type")
    assert float(found.findtext(f"{space}Query/{space}Execution-Time") or 0) > 0
    assert float(found.findtext(f"{space}Query/{space}Plan/{space}Actual-Rows") or 0) == 7


def test_yaml(explained: Server) -> None:
    [[plan]] = explained.query("EXPLAIN (ANALYZE, FORMAT YAML) SELECT n FROM explained WHERE n > 3")
    lines = plan.split("\n")
    assert lines[0] == "- Plan: "
    assert lines[1].startswith('    Node Type: "')
    assert any(line.startswith("    Actual Rows: 7") for line in lines)
    assert any(line.startswith("  Execution Time: ") for line in lines)


def test_read_only(explained: Server) -> None:
    with psycopg.connect(explained.url) as connection:
        connection.read_only = True
        connection.execute("EXPLAIN DELETE FROM explained")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("EXPLAIN ANALYZE DELETE FROM explained")


def test_it_says_who_computes(gateway: Server) -> None:
    gateway.psql("-qc", "CREATE TABLE explained_here (n integer)", "-c", "INSERT INTO explained_here VALUES (1), (2)")
    try:
        assert "Spark Select" in _plan(gateway, "EXPLAIN SELECT n FROM explained_here WHERE n > 1")
        by_itself = _plan(gateway, "EXPLAIN SELECT n + 1 FROM explained_here WHERE n > 1", engine="auto")
        assert "PostgreSQL Select" in by_itself
        assert "Placed By: few rows" in by_itself
        stored = _plan(gateway, "EXPLAIN SELECT n FROM explained_here LIMIT 1", engine="auto")
        assert "Gateway Select" in stored
        assert "Placed By: columns as files store them" in stored
        assert "Files: 1 scanned, 0 skipped" in stored
        chosen = _plan(gateway, "EXPLAIN SELECT n FROM explained_here WHERE n > 1 AND n <> 5", engine="auto")
        assert "Gateway Select" in chosen
        assert "File Filter: n > 1" in chosen
        none = _plan(gateway, "EXPLAIN SELECT n FROM explained_here WHERE n > 2", engine="auto")
        assert "Files: 0 scanned, 1 skipped" in none
        counted = _plan(gateway, "EXPLAIN SELECT count(*) FROM explained_here", engine="auto")
        assert "Gateway Select" in counted
        assert "Catalog Scan on public.explained_here" in counted
        assert "Files" not in counted
        assert "Files: 1 scanned" in _plan(
            gateway, "EXPLAIN SELECT count(*) FROM explained_here WHERE n = 1", engine="auto"
        )
        computed = _plan(gateway, "EXPLAIN ANALYZE SELECT e FROM explained_here e")
        assert "PostgreSQL Select" in computed
        assert "Lake Rows on public.explained_here" in computed
        assert "Rows Copied: 2" in computed
        assert "Actual Rows: 2" in computed
    finally:
        gateway.psql("-qc", "DROP TABLE explained_here")


def test_generic_plan(explained: Server) -> None:
    for options in ("GENERIC_PLAN", "GENERIC_PLAN off, COSTS off", "GENERIC_PLAN, FORMAT TEXT"):
        assert "explained" in _plan(explained, f"EXPLAIN ({options}) SELECT n, t FROM explained")
    with psycopg.connect(explained.url, autocommit=True) as connection:
        for text in ("SELECT n FROM explained WHERE n = %s", "UPDATE explained SET t = 'x' WHERE n = %s"):
            assert "explained" in str(connection.execute(f"EXPLAIN (GENERIC_PLAN) {text}".encode(), (1,)).fetchall())
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="ANALYZE and GENERIC_PLAN cannot be used"):
            connection.execute("EXPLAIN (GENERIC_PLAN, ANALYZE) SELECT n FROM explained")
        assert connection.execute("SELECT count(*) FROM explained WHERE t = 'x'").fetchone() == (0,)


# The kilobytes of the result, as text and as binary.
_SERIALIZED = {
    "SELECT n, t FROM explained": (1, 1),
    "SELECT n, t FROM explained WHERE n < 0": (0, 0),
    "SELECT repeat(t, 1000) FROM explained": (50, 50),
    "SELECT a.n FROM explained a, explained b, explained c, explained d": (70, 98),
    "SELECT a.n, to_json(b) FROM explained a, explained b, explained c": (36, 39),
    "UPDATE explained SET t = repeat(t, 1000) RETURNING n, t": (50, 50),
    "DELETE FROM explained": (0, 0),
}


@pytest.mark.parametrize("engine", ["spark", "auto"])
def test_serialize(explained: Server, engine: str) -> None:
    with psycopg.connect(explained.url, options=f"-c sluice.engine={engine}") as connection:
        for sql, volumes in _SERIALIZED.items():
            for form, volume in zip(("text", "binary"), volumes, strict=True):
                options = f"ANALYZE, SERIALIZE {form}, TIMING OFF, BUFFERS OFF"
                lines = [row[0].strip() for row in connection.execute(f"EXPLAIN ({options}) {sql}".encode())]
                assert f"Serialization: output={volume}kB  format={form}" in lines, sql
                asked = f"EXPLAIN (ANALYZE, SERIALIZE {form}, FORMAT JSON) {sql}".encode()
                connection.rollback()
                [[[found]]] = connection.execute(asked).fetchall()
                assert found["Serialization"]["Output Volume"] == volume
                assert found["Serialization"]["Format"] == form
                connection.rollback()
    for options in ("SERIALIZE off", "ANALYZE, SERIALIZE none"):
        assert "Serialization" not in _plan(explained, f"EXPLAIN ({options}) SELECT n FROM explained", engine)
    assert "format=text" in _plan(explained, "EXPLAIN (ANALYZE, SERIALIZE) SELECT n FROM explained", engine)
    for wrong in ("SERIALIZE", "ANALYZE, SERIALIZE nonsense"):
        with pytest.raises(psycopg.Error) as error:
            _plan(explained, f"EXPLAIN ({wrong}) SELECT n FROM explained", engine)
        assert error.value.sqlstate == "22023"


def test_estimates(explained: Server) -> None:
    first, *_ = _plan(explained, "EXPLAIN SELECT n, t FROM explained").split("\n")
    assert re.search(r"  \(cost=\d+\.\d\d\.\.\d+\.\d\d rows=\d+ width=36\)$", first)
    assert "cost=" not in _plan(explained, "EXPLAIN (COSTS OFF) SELECT n FROM explained")
    for engine in ("spark", "auto"):
        with psycopg.connect(explained.url, autocommit=True, options=f"-c sluice.engine={engine}") as connection:

            def top(sql: str, on: psycopg.Connection = connection) -> Any:
                [[[found]]] = on.execute(f"EXPLAIN (FORMAT JSON) {sql}".encode()).fetchall()
                return found["Plan"]

            one = top("SELECT * FROM explained WHERE n = 7")
            assert {"Startup Cost", "Total Cost", "Plan Width"} <= one.keys()
            assert one["Plan Rows"] == 1
            assert top("SELECT count(*) FROM explained")["Plan Rows"] == 1
            assert top("SELECT * FROM explained LIMIT 3")["Plan Rows"] == 3
            change = top("DELETE FROM explained")
            assert (change["Plan Rows"], change["Operation"]) == (0, "Delete")


def test_rows_that_fail_fail_no_plan(gateway: Server, schema: str) -> None:
    """Spark computes a few rows while it plans."""
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute("CREATE TABLE failing (id integer PRIMARY KEY, s text, b jsonb)")
        connection.execute("""INSERT INTO failing VALUES (1, 'a', '{"a":{"x":1}}'), (2, '{', '{"a":1}')""")
        for engine in ("spark", "auto"):
            connection.execute(f"SET sluice.engine = {engine}".encode())
            for sql in (
                "SELECT 1 FROM failing WHERE id / (id - 1) > 0",
                "SELECT s::integer FROM failing WHERE s = 'a'",
                "UPDATE failing SET id = id + 5 WHERE b ->> 'a' = '1'",
            ):
                assert connection.execute(f"EXPLAIN {sql}".encode()).fetchall()
