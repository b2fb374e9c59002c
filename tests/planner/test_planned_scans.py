"""Plans that PostgreSQL prints for statements within functions: which rows of a table they can need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import psycopg
import pytest

from catalog.constraints import Key
from planner.plans.planned_scans import PlannedStatement, planned_statement
from planner.plans.row_filter import WantedKeys
from planner.tree.nodes import parse
from tests.planner.differential import Laboratory

_ID, _CODE = 1, 3

# A statement of a function with arguments a = 7 and b = 8, and the keys by which its scans find rows of `looked_up`.
# None stands for any row.
SCANS: dict[str, list[tuple[tuple[int, ...], list[tuple[int | str, ...]]] | None]] = {
    "PERFORM n FROM looked_up WHERE id = a": [((_ID,), [(7,)])],
    "PERFORM n FROM looked_up WHERE a = id AND n > 3": [((_ID,), [(7,)])],
    "PERFORM id FROM looked_up WHERE id = a": [((_ID,), [(7,)])],
    "PERFORM n FROM looked_up WHERE id = a::bigint": [((_ID,), [(7,)])],
    "PERFORM n FROM looked_up WHERE id IN (a, b)": [((_ID,), [(7,), (8,)])],
    "PERFORM n FROM looked_up WHERE id = ANY (ARRAY[a, b, NULL])": [((_ID,), [(7,), (8,)])],
    "PERFORM n FROM looked_up WHERE code = 'x' || a": [((_CODE,), [("x7",)])],
    "PERFORM 1 FROM looked_up x, looked_up y WHERE x.id = a AND y.code = 'b'": [
        ((_ID,), [(7,)]), ((_CODE,), [("b",)]),
    ],
    "PERFORM (SELECT n FROM looked_up WHERE id = a) FROM generate_series(1, 2)": [((_ID,), [(7,)])],
    "UPDATE looked_up SET n = n + 1 WHERE id = a": [((_ID,), [(7,)])],
    "DELETE FROM looked_up WHERE id = b AND n = 1": [((_ID,), [(8,)])],
    "PERFORM 1 FROM looked_up WHERE id = a FOR UPDATE": [((_ID,), [(7,)])],
    "EXECUTE 'SELECT n FROM looked_up WHERE id = $1' USING a": [((_ID,), [(7,)])],
    "EXECUTE 'SELECT n FROM looked_up WHERE id = ' || a": [((_ID,), [(7,)])],
    "PERFORM n FROM looked_up_view WHERE id = a": [((_ID,), [(7,)])],
    "INSERT INTO refers VALUES (a)": [((_ID,), [(7,)])],
    "INSERT INTO looked_up VALUES (a) ON CONFLICT DO NOTHING": [((_ID,), [(7,)])],
    "INSERT INTO looked_up VALUES (a) ON CONFLICT (id) DO UPDATE SET n = 1": [((_ID,), [(7,)])],
    "INSERT INTO looked_up (id, code) VALUES (a, 'x') ON CONFLICT DO NOTHING": [None],
    "INSERT INTO looked_up SELECT g FROM generate_series(a, b) g ON CONFLICT DO NOTHING": [None],
    "INSERT INTO looked_up VALUES (a), (b) ON CONFLICT DO NOTHING": [None],
    "PERFORM n FROM looked_up WHERE id = NULL::integer": [],
    "PERFORM n FROM looked_up": [None],
    "PERFORM n FROM looked_up WHERE id > a": [None],
    "PERFORM n FROM looked_up WHERE n = a": [None],
    "PERFORM n FROM looked_up WHERE id = a OR n = b": [None],
    "PERFORM n FROM looked_up WHERE id = a OR id = b": [None],
    "PERFORM n FROM looked_up WHERE id <> a": [None],
    "PERFORM n FROM looked_up TABLESAMPLE system (100) WHERE id = a": [None],
    "PERFORM n FROM looked_up WHERE id = (SELECT max(g) FROM generate_series(1, a) g)": [None],
    "PERFORM n FROM looked_up WHERE id = (random() * a)::integer": [None],
    "PERFORM l.n FROM generate_series(1, a) g LEFT JOIN looked_up l ON l.id = g": [None],
    "PERFORM n FROM looked_up WHERE ctid = '(0,1)' AND id = a": [None],
}  # fmt: skip


@pytest.fixture(scope="module")
def connection(probes: Laboratory) -> Iterator[psycopg.Connection]:
    connection = psycopg.connect(probes.postgres.info.dsn, autocommit=True)
    connection.execute(
        "CREATE TABLE looked_up (id integer PRIMARY KEY, n integer, code text UNIQUE);"
        "CREATE VIEW looked_up_view AS SELECT * FROM looked_up;"
        "CREATE TABLE refers (id integer REFERENCES looked_up);"
        "SET plan_cache_mode = force_custom_plan; SET client_min_messages = log; SET debug_pretty_print = off"
    )
    yield connection
    connection.execute("DROP TABLE looked_up, refers CASCADE")
    connection.close()


def _planned(connection: psycopg.Connection, probes: Laboratory, statement: str) -> list[PlannedStatement]:
    """What PostgreSQL plans for a function whose body is the statement."""
    told: list[str] = []
    [(oid,)] = connection.execute("SELECT 'looked_up'::regclass::oid").fetchall()
    [integers] = [table for table in probes.tables.values() if table.name == "integers"]
    number, text = integers.columns[0], next(c for t in probes.tables.values() if t.name == "texts" for c in t.columns)
    columns = (replace(number, attnum=1, name="id"), replace(number, attnum=2, name="n"))
    table = replace(integers, oid=oid, columns=(*columns, replace(text, attnum=3, name="code")))
    table = replace(table, keys=tuple(Key(1, "k", attnums, True, False, False) for attnums in ((_ID,), (_CODE,))))
    body = f"BEGIN {statement}; END"
    connection.execute(
        f"CREATE OR REPLACE FUNCTION asking(a integer, b integer) RETURNS void LANGUAGE plpgsql AS $$ {body} $$".encode()
    )
    handler = lambda notice: told.append(notice.message_detail or "")  # noqa: E731
    connection.add_notice_handler(handler)
    try:
        connection.execute("SET debug_print_plan = on")
        with suppress(psycopg.errors.ForeignKeyViolation):
            connection.execute("SELECT asking(7, 8)")
        connection.execute("SET debug_print_plan = off")
    finally:
        connection.remove_notice_handler(handler)
    plans = [parse(each) for each in told if each.startswith("{PLANNEDSTMT")]
    return [planned_statement(plan, {oid: table}, probes.context().builtins) for plan in plans]


# And the keys of the rows that it adds.
ADDED: dict[str, list[tuple[tuple[int, ...], list[tuple[int | str, ...]]] | None]] = {
    "INSERT INTO looked_up VALUES (a)": [((_ID,), [(7,)])],
    "INSERT INTO looked_up (id, n) VALUES (a + b, 3)": [((_ID,), [(15,)])],
    "INSERT INTO looked_up (id, code) VALUES (a, NULL)": [((_ID,), [(7,)])],
    "INSERT INTO looked_up (id, code) VALUES (a, 'x')": [None],
    "INSERT INTO looked_up VALUES (a), (b)": [None],
    "INSERT INTO looked_up SELECT g FROM generate_series(a, b) g": [None],
    "MERGE INTO looked_up l USING (SELECT a AS x) s ON l.id = s.x WHEN NOT MATCHED THEN INSERT VALUES (x)": [None],
    "UPDATE looked_up SET id = 3 WHERE id = a": [],
    "DELETE FROM looked_up WHERE id = a": [],
}


@pytest.mark.parametrize("statement", ADDED)
def test_rows_that_are_added_have_keys(connection: psycopg.Connection, probes: Laboratory, statement: str) -> None:
    found = [keys for plan in _planned(connection, probes, statement) for _, keys in plan.added]
    assert found == [None if each is None else WantedKeys(*each) for each in ADDED[statement]]
    connection.execute("TRUNCATE looked_up CASCADE")


@pytest.mark.turns
@pytest.mark.parametrize("statement", SCANS)
def test_scans_name_keys(connection: psycopg.Connection, probes: Laboratory, statement: str) -> None:
    found = [scan.wanted for plan in _planned(connection, probes, statement) for scan in plan.scans]
    expected = [None if each is None else WantedKeys(*each) for each in SCANS[statement]]
    assert sorted(found, key=str) == sorted(expected, key=str)
    connection.execute("TRUNCATE looked_up CASCADE")
