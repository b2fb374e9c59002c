"""Cursors with their rows' places: the queries that PostgreSQL permits, and the places."""

from __future__ import annotations

import psycopg
import pytest

from planner.plans.updatable_cursor import plan_updatable, updatable_table
from planner.spark.plan import SparkQuery
from planner.translate.row_marks import unpacked_place
from tests.planner.differential import Laboratory

# Scans of `integers` under nothing but what hands rows on.
SCANS = (
    "SELECT * FROM integers",
    "SELECT id + 1, i FROM ONLY integers WHERE id > 2",
    "SELECT FROM integers WHERE id = 3",
    "SELECT id FROM integers WHERE id > 1 LIMIT 2 OFFSET 1",
    "SELECT id FROM (SELECT i, id FROM integers WHERE id > 1) x WHERE id < 9",
    "SELECT id FROM (SELECT s, i, id FROM integers WHERE id > 1 OFFSET 1) x WHERE id > 2 LIMIT 3",
    "SELECT a / 7 FROM (SELECT id::numeric / 3 AS a FROM integers OFFSET 0) x",
    "WITH w AS (SELECT i, id FROM integers WHERE id > 2) SELECT id FROM w",
    "WITH w AS NOT MATERIALIZED (SELECT id FROM integers LIMIT 3) SELECT * FROM w",
    "SELECT id, (SELECT count(*) FROM texts) FROM integers WHERE id > (SELECT min(id) FROM integers)",
    "SELECT id FROM integers WHERE id NOT IN (SELECT id FROM texts WHERE id = 2)",
    "SELECT id FROM integers WHERE id = 3 OR id IN (SELECT id FROM texts)",
    "SELECT id FROM integers WHERE EXISTS (SELECT FROM texts)",
    "SELECT id FROM integers WHERE 1 IN (SELECT id FROM texts)",
)
OTHERS = (
    "SELECT * FROM texts",
    "SELECT * FROM integers ORDER BY i",
    "SELECT * FROM (SELECT * FROM integers ORDER BY i) x",
    "SELECT x.id FROM integers x, texts y",
    "SELECT x.id FROM integers x JOIN texts y ON x.id = y.id",
    "SELECT x.id FROM integers x LEFT JOIN texts y ON x.i = y.id",
    "SELECT x.id FROM integers x, LATERAL (SELECT FROM texts y WHERE y.id = x.i OFFSET 0) z",
    "SELECT id FROM integers WHERE id IN (SELECT id FROM texts)",
    "SELECT id FROM integers WHERE id > 0 AND EXISTS (SELECT FROM texts WHERE texts.id = integers.id)",
    "SELECT id FROM integers WHERE NOT EXISTS (SELECT FROM texts WHERE texts.id = integers.id + 100)",
    "SELECT DISTINCT i FROM integers",
    "SELECT count(*) FROM integers",
    "SELECT i FROM integers GROUP BY i",
    "SELECT 1 FROM integers HAVING true",
    "SELECT i FROM integers GROUP BY GROUPING SETS ((i), ())",
    "SELECT row_number() OVER () FROM integers",
    "SELECT generate_series(1, 2), id FROM integers",
    "SELECT id FROM integers UNION ALL SELECT id FROM integers",
    "SELECT * FROM (SELECT id FROM integers EXCEPT SELECT id + 100 FROM texts) x",
    "WITH w AS MATERIALIZED (SELECT * FROM integers) SELECT * FROM w",
    "WITH w AS (SELECT id FROM integers) SELECT x.id FROM w x WHERE id > (SELECT min(id) FROM w)",
    "WITH RECURSIVE w AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM w WHERE id < 3) SELECT id FROM w",
    "SELECT 1",
    "VALUES (1)",
)


def places(laboratory: Laboratory, sql: str) -> list[int] | None:
    """The positions of the rows that PostgreSQL finds by WHERE CURRENT OF; None where it says that there are none."""
    found: list[int] = []
    with laboratory.postgres.transaction(force_rollback=True):
        order = [row for (row,) in laboratory.postgres.execute("SELECT ctid FROM integers").fetchall()]
        laboratory.postgres.execute(f"DECLARE c CURSOR FOR {sql}".encode())
        while laboratory.postgres.execute("MOVE c").statusmessage == "MOVE 1":
            try:
                with laboratory.postgres.transaction():
                    deleted = laboratory.postgres.execute("DELETE FROM integers WHERE CURRENT OF c RETURNING ctid")
                    found += [order.index(place) for (place,) in deleted.fetchall()]
            except psycopg.errors.InvalidCursorState:
                return None
    return found


def planned(laboratory: Laboratory, sql: str) -> SparkQuery:
    return plan_updatable(laboratory.tree(sql), laboratory.context())


@pytest.mark.parametrize("sql", SCANS)
def test_tells_where_rows_are(probes: Laboratory, sql: str) -> None:
    """The rows are those of the query itself, and each is where PostgreSQL finds it."""
    oid = updatable_table(probes.tree(sql))
    assert oid is not None
    assert probes.tables[oid].name == "integers"
    located, plain = probes.run(planned(probes, sql)), probes.on_spark(sql)
    assert located.sqlstate is None
    assert [row[:-1] for row in located.rows] == [row[: len(plain.types)] for row in plain.rows]
    found = [unpacked_place(int(row[-1] or 0), ["file", "another"]) for row in located.rows]
    assert [place and place[0] for place in found] == ["file"] * len(found)
    assert [place and place[1] for place in found] == places(probes, sql)


@pytest.mark.parametrize("sql", OTHERS)
def test_others_do_not(probes: Laboratory, sql: str) -> None:
    oid = updatable_table(probes.tree(sql))
    assert oid is None or probes.tables[oid].name == "texts"
    assert places(probes, sql) is None


@pytest.mark.parametrize("sql", SCANS)
def test_reads_no_more_than_the_query(probes: Laboratory, sql: str) -> None:
    """The same files can be skipped, and only the one scan tells where its rows are."""
    located, plain = planned(probes, sql), probes.plan(sql)
    assert [scan.predicate for scan in located.scans] == [scan.predicate for scan in plain.scans]
    assert [scan.attnums for scan in located.scans] == [scan.attnums for scan in plain.scans]
    assert sum(scan.needs_position for scan in located.scans) == 1


def test_files_that_cannot_be_told_apart() -> None:
    """Names with the same checksum."""
    first, second = "plumless", "buckeroo"
    place = 0x4DDB0C25 << 32 | 7
    assert unpacked_place(place, [first, "other"]) == (first, 7)
    assert unpacked_place(place, [second]) == (second, 7)
    assert unpacked_place(place, [first, second]) is None
    negative = (0xFFFFFFFF << 32 | 5) - (1 << 64)
    assert unpacked_place(negative, [first]) is None
