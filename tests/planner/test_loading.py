"""The rows copied for a query that PostgreSQL computes: enough of them, and no more than the conditions allow."""

from __future__ import annotations

import pytest

from planner.plans.row_filter import needed_rows
from planner.plans.select import single_query
from tests.planner.differential import Laboratory

# The query, and the rows of "integers" that it needs, as PostgreSQL tells it.
CHOSEN = {
    "SELECT i FROM integers i WHERE id > 5 AND s < 4": "id > 5 AND s < 4",
    "SELECT i FROM integers i WHERE id > 5 AND i.s + 0 = ANY (SELECT id FROM texts)": "id > 5",
    "SELECT i FROM integers i WHERE id > 5 OR s = 7": "id > 5 OR s = 7",
    "SELECT i FROM integers i, texts t WHERE i.id = t.id AND i.b = 7 AND t.t = 'abc'": "b = 7",
    "SELECT i FROM integers i JOIN texts t ON i.id = t.id AND i.s IS NULL WHERE t.id > 0": "s IS NULL",
    "SELECT i FROM integers i LEFT JOIN texts t ON i.id = t.id AND i.s > 3 WHERE i.id < 4": "id < 4",
    "SELECT i FROM texts t RIGHT JOIN integers i ON i.id = t.id WHERE i.id < 4 AND t.t IS NULL": "id < 4",
    "SELECT x FROM (SELECT * FROM integers WHERE id = 3) x": "id = 3",
    "WITH w AS (SELECT i FROM integers i WHERE id IN (1, 2)) SELECT * FROM w a, w b": "id IN (1, 2)",
    "SELECT t FROM texts t WHERE EXISTS (SELECT 1 FROM integers i WHERE i.id = t.id AND i.s = 7)": "s = 7",
    "SELECT i FROM integers i WHERE id = 2 AND power(s, 2) > 1": "id = 2",
    "SELECT max(i.id) FROM integers i WHERE s > 0 GROUP BY i.b HAVING max(i.id) > 2": "s > 0",
}
# What says nothing about the rows of "integers" that may be needed.
ANY = (
    "SELECT i FROM integers i",
    "SELECT i FROM integers i WHERE power(id, 2) > 4",
    "SELECT i FROM texts t LEFT JOIN integers i ON i.id = t.id WHERE i.s = 7",
    "SELECT i FROM texts t LEFT JOIN integers i ON i.id = t.id AND i.s = 7",
    "SELECT i FROM texts t FULL JOIN integers i ON i.id = t.id WHERE i.s = 7",
    "SELECT i FROM integers i RIGHT JOIN texts t ON i.id = t.id WHERE i.s IS NULL",
    "SELECT i FROM integers i WHERE id = 3 UNION ALL SELECT i FROM integers i WHERE id = 4",
    "SELECT i FROM integers i, texts t WHERE i.id = t.id OR i.s = 7",
    "SELECT i FROM integers i LEFT JOIN texts t ON i.s = 7",
    "SELECT i FROM integers i WHERE random() < 0.5",
)


def _oid(probes: Laboratory) -> int:
    return next(oid for oid, table in probes.tables.items() if table.name == "integers")


@pytest.mark.parametrize("sql", CHOSEN)
def test_the_rows_that_meet_the_conditions(probes: Laboratory, sql: str) -> None:
    plan = needed_rows(single_query(probes.tree(sql)), _oid(probes), probes.context())
    assert plan is not None
    assert [column.name for column in plan.columns] == ["id", "s", "i", "b"]
    expected = probes.on_postgres(f"SELECT * FROM integers WHERE {CHOSEN[sql]}")
    assert sorted(probes.run(plan).rows, key=str) == sorted(expected.rows, key=str)


@pytest.mark.parametrize("sql", ANY)
def test_any_row_may_be_needed(probes: Laboratory, sql: str) -> None:
    assert probes.on_postgres(sql).sqlstate is None
    assert needed_rows(single_query(probes.tree(sql)), _oid(probes), probes.context()) is None


def test_conditions_skip_files(probes: Laboratory) -> None:
    sql = "SELECT i FROM integers i WHERE id = 5"
    plan = needed_rows(single_query(probes.tree(sql)), _oid(probes), probes.context())
    assert plan is not None
    [scan] = plan.scans
    assert [(item.attnum, item.operator, item.values) for item in scan.predicate] == [(1, "=", (5,))]
