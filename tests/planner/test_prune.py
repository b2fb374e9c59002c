"""The predicates by which scans may skip files."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from tests.planner.differential import Laboratory

# The attnum of each column, the operator, the values, for the first scan of the query.
PREDICATES: list[tuple[str, list[tuple[int, str, tuple[object, ...]]]]] = [
    ("SELECT 1 FROM integers WHERE i = 7 AND 5 > s AND b IS NOT NULL",
     [(3, "=", (7,)), (2, "<", (5,)), (4, "is not null", ())]),
    ("SELECT 1 FROM integers WHERE i IN (1, 2) AND s IS NULL", [(3, "in", (1, 2)), (2, "is null", ())]),
    ("SELECT 1 FROM integers WHERE i = 7 OR s = 1", []),
    ("SELECT 1 FROM integers WHERE i <> 7 AND i + 1 = 8 AND i = s AND NOT (i = 3)", []),
    ("SELECT 1 FROM dates WHERE d >= date '2020-01-01' AND d < date '2020-01-01' + interval '1 month'",
     [(2, ">=", (datetime.date(2020, 1, 1),)), (2, "<", (datetime.date(2020, 2, 1),))]),
    ("SELECT 1 FROM dates WHERE d < timestamp '2020-01-01 10:00'", [(2, "<=", (datetime.date(2020, 1, 1),))]),
    ("SELECT 1 FROM dates WHERE d < 'infinity'", []),
    ("SELECT 1 FROM decimals WHERE n BETWEEN 1 AND 2.5 AND f > 1",
     [(2, ">=", (Decimal(1),)), (2, "<=", (Decimal("2.5"),))]),
    ("SELECT 1 FROM texts WHERE c = 'a' AND t >= 'b' AND v = 'x'",
     [(4, "=", ("a    ",)), (2, ">=", ("b",)), (3, "=", ("x",))]),
    ("SELECT 1 FROM texts WHERE v = 'a'::char(3) AND t::bpchar IN ('a', 'b')", []),  # 'a  ' equals 'a', and 'a '
    ("SELECT 1 FROM moods WHERE m = 'ok' AND o IN ('zen', 'angry') AND m > 'zen' AND 'ok' <= o",
     [(2, "=", ("ok",)), (3, "in", ("zen", "angry"))]),  # the bounds are those of texts
    ("SELECT 1 FROM floats WHERE d > 1", []),  # NaN is greater than any number, and in no statistics
    ("SELECT 1 FROM integers x LEFT JOIN integers y ON x.i = 1 WHERE x.s = 2", [(2, "=", (2,))]),
    ("SELECT 1 FROM integers x RIGHT JOIN integers y ON x.i = 1 WHERE x.s = 2", []),
    ("SELECT 1 FROM integers x JOIN integers y ON x.i = 1", [(3, "=", (1,))]),
    ("SELECT 1 FROM integers x FULL JOIN integers y ON x.i = 1 WHERE x.s = 1", []),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), PREDICATES)
def test_predicate(probes: Laboratory, sql: str, expected: list[tuple[int, str, tuple[object, ...]]]) -> None:
    scan = probes.plan(sql).scans[0]
    assert [(item.attnum, item.operator, item.values) for item in scan.predicate] == expected


def test_only_used_columns_are_read(probes: Laboratory) -> None:
    plan = probes.plan("SELECT count(*) FROM integers x JOIN integers y USING (id) WHERE y.s > 0")
    assert [scan.attnums for scan in plan.scans] == [(1,), (1, 2)]
    assert not any(scan.needs_position for scan in plan.scans)
