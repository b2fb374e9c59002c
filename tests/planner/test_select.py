"""Golden pairs: SQL in, Spark SQL out, small enough to be read."""

from __future__ import annotations

import pytest

from planner.spark.plan import Scan, SparkQuery
from tests.planner.conftest import GOLDEN
from tests.planner.differential import Laboratory

PAIRS = [block.strip().split("\n") for block in (GOLDEN / "select.txt").read_text().split("\n\n") if block.strip()]


@pytest.mark.parametrize(("sql", "spark"), [(pair[0], "\n".join(pair[1:])) for pair in PAIRS])
def test_golden(probes: Laboratory, sql: str, spark: str) -> None:
    assert probes.plan(sql).sql == spark


def test_scan_names_are_replaced_outside_strings_only() -> None:
    query = SparkQuery("SELECT '`scan_1` it\\'s' FROM `scan_1` AS r1, `other`", (Scan("scan_1", 1, ()),), ())
    assert query.named({"scan_1": "v9"}) == "SELECT '`scan_1` it\\'s' FROM `v9` AS r1, `other`"


def test_columns_are_described(probes: Laboratory) -> None:
    plan = probes.plan(
        "SELECT n AS price, n / 2, t::varchar(3), count(*) FROM decimals JOIN texts USING (id) GROUP BY 1, 2, 3"
    )
    assert [(item.name, item.type_oid, item.typmod) for item in plan.columns] == [
        ("price", 1700, 655367), ("?column?", 1700, -1), ("t", 1043, 7), ("count", 20, -1),
    ]  # fmt: skip
