"""The 22 TPC-H queries: Spark's answers are PostgreSQL's, character for character."""

from __future__ import annotations

import pytest

from tests.planner.conftest import GOLDEN
from tests.planner.differential import Laboratory

QUERIES = sorted(path.name for path in (GOLDEN / "tpch").glob("q*.sql"))


def test_all_queries_are_there() -> None:
    assert [f"q{number:02d}.sql" for number in range(1, 23)] == QUERIES


@pytest.mark.turns
@pytest.mark.parametrize("name", QUERIES)
def test_query(tpch: Laboratory, name: str) -> None:
    sql = (GOLDEN / "tpch" / name).read_text()
    expected = tpch.on_postgres(sql)
    assert expected.rows
    assert tpch.on_spark(sql) == expected


def test_files_can_be_skipped_by_query_six(tpch: Laboratory) -> None:
    plan = tpch.plan((GOLDEN / "tpch" / "q06.sql").read_text())
    (scan,) = plan.scans
    assert [(item.attnum, item.operator) for item in scan.predicate] == [
        (11, ">="), (11, "<"), (7, ">="), (7, "<="), (5, "<"),
    ]  # fmt: skip
    assert [str(item.values[0]) for item in scan.predicate] == ["1994-01-01", "1995-01-01", "0.05", "0.07", "24"]
