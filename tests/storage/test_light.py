"""Light queries: which queries are light, and that Spark plans them without generating code."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.plan import RunnableQuery
from storage.spark.engine import SparkEngine
from storage.spark.small_query import LIGHT_ROWS_MAX, Weight, weight_of
from tests.storage.conftest import Reader
from tests.storage.lake import query, rows, scan, table, write


@pytest.mark.parametrize(
    ("sql", "row_counts", "light"),
    [
        ("SELECT 1", [], True),
        ("SELECT * FROM t", [LIGHT_ROWS_MAX], True),
        ("SELECT * FROM t", [LIGHT_ROWS_MAX + 1], False),
        ("SELECT * FROM t, u", [LIGHT_ROWS_MAX, 1], False),
        ("SELECT * FROM t, u", [1, None], False),
        ("SELECT sum(c1) OVER (ORDER BY c1 RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t", [1], True),
        ("SELECT explode(SEQUENCE(1, c1)) FROM t", [1], False),
        ("WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r", [], False),
    ],
)
def test_few_rows_that_nothing_multiplies_are_light(sql: str, row_counts: list[int | None], light: bool) -> None:
    assert (weight_of(RunnableQuery(sql), row_counts) is Weight.LIGHT) is light


async def test_light_queries_are_not_compiled(
    engine: SparkEngine, reader: Reader, lake_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = table(i4=23)
    version = write(lake_path, of, rows(of, (1,), (2,), (2,)))
    counted = query("SELECT c1, count(*) FROM t GROUP BY c1 ORDER BY c1", scan(version))
    for most, light in ((LIGHT_ROWS_MAX, True), (2, False)):
        monkeypatch.setattr("storage.spark.small_query.LIGHT_ROWS_MAX", most)
        plan = await engine.explain(counted, "explain")
        assert ("AdaptiveSparkPlan" not in plan) is light
        # In either way, and in any order of the two, the answer is the same.
        assert (await reader.table(counted.sql, scan(version))).to_pydict() == {"c1": [1, 2], "count(1)": [1, 2]}
