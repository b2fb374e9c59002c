"""INSERT, UPDATE and DELETE: the rows of the plans against PostgreSQL's changes of the same tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from planner.plans.change_plan import plan_check, plan_delete, plan_insert, plan_update
from planner.spark.plan import Context, OutputColumn, SparkQuery
from tests.planner.differential import Answer, Laboratory, spark_session
from tests.planner.test_allow_list import ordered

SCHEMA = """
CREATE TABLE source (a int, b text, c numeric(10,2), d date);
INSERT INTO source VALUES (1, 'x', 1.5, '2020-01-01'), (2, 'yyyy', 2.5, NULL), (2, 'q', 9.99, 'infinity'), (NULL, NULL, NULL, NULL);
CREATE TABLE target (
    id int, n numeric(10,2) DEFAULT 1.5, v varchar(3), g int GENERATED ALWAYS AS (n::int * 2) STORED, c char(4),
    x numeric, number int GENERATED ALWAYS AS IDENTITY, counter serial, CHECK (n > 0 AND v <> 'bad'));
INSERT INTO target (id, n, v, c, x) VALUES (1, 1, 'a', 'c', 1.50), (2, 2, 'b', NULL, NULL), (3, 3, NULL, 'dd', 10);
"""
LIVE = "id, n, v, g, c, x"


@pytest.fixture(scope="module")
def changes(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    laboratory = Laboratory(postgres.dsn, spark_session(), tmp_path_factory.mktemp("changes"), "changes")
    laboratory.postgres.execute(SCHEMA)
    for name in ("source", "target"):
        laboratory.load(name)
    yield laboratory
    laboratory.close()


def oid_of(laboratory: Laboratory, name: str) -> int:
    (oid,) = laboratory.postgres.execute("SELECT %s::regclass::oid::bigint", (name,)).fetchone() or (0,)
    return int(oid)


def context(laboratory: Laboratory) -> Context:
    rows = laboratory.postgres.execute(
        "SELECT d.adnum::int, d.adbin::text FROM pg_attrdef d JOIN pg_attribute a ON (a.attrelid, a.attnum) = "
        "(d.adrelid, d.adnum) WHERE d.adrelid = 'target'::regclass AND a.attgenerated = 's'"
    ).fetchall()
    base = laboratory.context()
    return Context(base.builtins, base.tables, base.session, (), {oid_of(laboratory, "target"): dict(rows)})


def after(laboratory: Laboratory, sql: str, query: str) -> Answer:
    """What PostgreSQL answers to `query` when it has run `sql`, which is rolled back."""
    laboratory.postgres.execute("BEGIN")
    try:
        changed = laboratory.on_postgres(sql + " RETURNING 1")
        return changed if changed.sqlstate else laboratory.on_postgres(query)
    finally:
        laboratory.postgres.execute("ROLLBACK")


def with_columns(query: SparkQuery, columns: list[OutputColumn]) -> SparkQuery:
    return SparkQuery(query.sql, query.scans, tuple(columns))


def live(laboratory: Laboratory) -> list[OutputColumn]:
    table = laboratory.tables[oid_of(laboratory, "target")]
    return [OutputColumn(item.name, item.type_oid, item.typmod) for item in table.columns]


PLACE = [OutputColumn("_file", 25, -1), OutputColumn("_position", 20, -1)]
INSERTS = [
    "INSERT INTO target (id, v, c, x) SELECT a, left(b, 3), b, c FROM source WHERE a IS NOT NULL",
    "INSERT INTO target (id, n, v) VALUES (10, 1, 'a'), (11, 2.555, 'b  ')",
    "INSERT INTO target (id) VALUES (12)",
    "INSERT INTO target (id, n, x) SELECT a, c, c / 3 FROM source",
    "INSERT INTO target (id, v) SELECT 1, 'long' FROM source",
    "INSERT INTO target (id, v) SELECT a, b FROM source",
    "INSERT INTO target (id, n) SELECT a, c * 1e8 FROM source",
    "WITH w AS (SELECT a FROM source) INSERT INTO target (id) SELECT a + 100 FROM w",
    "INSERT INTO target (id, x) SELECT i, i / 7.0 FROM generate_series(1, 5) i",
]


@pytest.mark.parametrize("sql", INSERTS)
def test_insert(changes: Laboratory, sql: str) -> None:
    try:
        plan = plan_insert(changes.tree(sql), context(changes))
    except SluiceError as error:
        found = Answer(sqlstate=error.sqlstate, message=error.message)
    else:
        assert [item.attnum for item in plan.sequences] == [7, 8]
        assert [(item.name, item.type_oid) for item in plan.query.columns] == [
            (item.name, item.type_oid) for item in live(changes)
        ]
        found = changes.run(plan.query)
        assert all(row[6:] == (None, None) for row in found.rows)
    expected = after(changes, sql, f"SELECT {LIVE} FROM target WHERE number > 3")
    assert (found.sqlstate, found.message) == (expected.sqlstate, expected.message)
    assert ordered(tuple(row[:6] for row in found.rows)) == ordered(expected.rows)


UPDATES = [
    ("UPDATE target SET n = n + 1, v = 'zz'", [2, 3, 4]),
    ("UPDATE target SET x = n / 3, c = 'abc' WHERE id IN (SELECT a FROM source)", [5, 6]),
    ("UPDATE target SET v = source.b FROM source WHERE source.a = target.id AND length(b) = 1", [3]),
    ("UPDATE target SET n = DEFAULT, x = DEFAULT WHERE id = 3", [2, 4, 6]),
    ("UPDATE target SET (n, v) = (7, 'q') WHERE v IS NULL", [2, 3, 4]),
    ("UPDATE target SET n = 123456789 WHERE id = 1", []),
    ("UPDATE target SET v = 'toolong' WHERE id = 1", []),
    (
        "WITH w AS (SELECT a, max(c) AS c FROM source GROUP BY a) UPDATE target SET n = w.c FROM w WHERE w.a = id",
        [2, 4],
    ),
]


@pytest.mark.parametrize(("sql", "assigned"), UPDATES)
def test_update(changes: Laboratory, sql: str, assigned: list[int]) -> None:
    expected = after(changes, sql, f"SELECT {LIVE} FROM target ORDER BY id")
    try:
        plan = plan_update(changes.tree(sql), context(changes))
    except SluiceError as error:
        assert (error.sqlstate, error.message) == (expected.sqlstate, expected.message)  # noqa: PT017  some fail while planning
        return
    found = changes.run(with_columns(plan.query, PLACE + live(changes)))
    assert (found.sqlstate, found.message) == (expected.sqlstate, expected.message)
    assert list(plan.assigned) == assigned
    before = changes.on_postgres(f"SELECT {LIVE} FROM target ORDER BY id").rows
    rows: list[Any] = list(before)
    for row in found.rows:
        rows[int(row[1] or 0)] = row[2:8]
    assert tuple(rows) == expected.rows
    assert len({row[:2] for row in found.rows}) == len(found.rows)


def test_update_takes_each_row_once(changes: Laboratory) -> None:
    plan = plan_update(
        changes.tree("UPDATE target SET x = c.c FROM source c WHERE c.a = id RETURNING id, c.b, old.x, new.x"),
        context(changes),
    )
    found = changes.run(with_columns(plan.query, PLACE + live(changes) + list(plan.query.columns)))
    assert len(found.rows) == 2
    for row in found.rows:
        assert row[10] == row[2]  # RETURNING id is the row's id
        assert (row[10], row[11], row[13]) in {("1", "x", "1.50"), ("2", "yyyy", "2.50"), ("2", "q", "9.99")}
        assert row[7] == row[13]  # RETURNING new.x is the new x


DELETES = [
    "DELETE FROM target WHERE id = 2",
    "DELETE FROM target USING source WHERE source.a = target.id",
    "DELETE FROM target WHERE NOT EXISTS (SELECT 1 FROM source WHERE a = id)",
    "DELETE FROM target WHERE id NOT IN (SELECT a FROM source)",
    "DELETE FROM target",
]


@pytest.mark.parametrize("sql", DELETES)
def test_delete(changes: Laboratory, sql: str) -> None:
    plan = plan_delete(changes.tree(sql), context(changes))
    found = changes.run(with_columns(plan.query, PLACE))
    left = [row for row in range(3) if row not in {int(item[1] or 0) for item in found.rows}]
    expected = after(changes, sql, "SELECT id FROM target ORDER BY id")
    assert [str(row + 1) for row in left] == [row[0] for row in expected.rows]


def test_delete_returning(changes: Laboratory) -> None:
    sql = "DELETE FROM target WHERE id < 3 RETURNING id, n * 2 AS twice, x / 3"
    plan = plan_delete(changes.tree(sql), context(changes))
    found = changes.run(with_columns(plan.query, PLACE + list(plan.query.columns)))
    changes.postgres.execute("BEGIN")
    expected = changes.on_postgres(sql)
    changes.postgres.execute("ROLLBACK")
    assert ordered(tuple(row[2:] for row in found.rows)) == ordered(expected.rows)
    assert tuple(item.type_oid for item in plan.query.columns) == expected.types


def test_insert_returning(changes: Laboratory) -> None:
    sql = "INSERT INTO target (id, n, x) SELECT a, c, 5 FROM source RETURNING id, n * 2, old.n, upper(v)"
    plan = plan_insert(changes.tree(sql), context(changes))
    assert plan.returning is not None
    (scan,) = plan.returning.query.scans
    assert (scan.name, scan.attnums) == ("rows", (1, 2, 3))


def test_a_check(changes: Laboratory) -> None:
    oid = oid_of(changes, "target")
    table = changes.tables[oid]
    (source,) = changes.postgres.execute(
        "SELECT conbin::text FROM pg_constraint WHERE conrelid = %s AND contype = 'c'", (oid,)
    ).fetchone() or ("",)
    assert plan_check(source, table, context(changes)) == "(c2 > 0BD) AND (c3 <> 'bad')"


@pytest.mark.parametrize(
    ("sql", "construct"),
    [
        ("INSERT INTO target (id) VALUES (1) ON CONFLICT DO NOTHING", "ON CONFLICT"),
        ("UPDATE target SET (n, v) = (SELECT c, b FROM source LIMIT 1)", "SET"),
    ],
)
def test_refused(changes: Laboratory, sql: str, construct: str) -> None:
    plan = plan_insert if sql.startswith("INSERT") else plan_update
    with pytest.raises(SluiceError, match=construct) as caught:
        plan(changes.tree(sql), context(changes))
    assert caught.value.sqlstate == "0A000"
