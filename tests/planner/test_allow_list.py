"""Every row of the allow-list against PostgreSQL, by its probes.

Each row's first probe always runs; all of them where SLUICE_ALL_PROBES is set (some minutes).
"""

from __future__ import annotations

import os

import pytest

from planner.functions import registry
from planner.functions.call import Row
from tests.planner.differential import Answer, Laboratory

TABLES = (registry.FUNCTIONS, registry.AGGREGATES, registry.WINDOW_FUNCTIONS)
ROWS = [row for table in TABLES for row in table.values()]
# What runs into the limits of Spark's decimals, and says so.
REFUSED = frozenset({
    "SELECT id % 3, avg(b), avg(b) FILTER (WHERE id > 2) FROM integers GROUP BY 1",
    "SELECT id, avg(b) FROM integers GROUP BY id",
    "SELECT d::numeric FROM floats WHERE d = 'NaN'",
})  # fmt: skip
# Rows that no table can probe: their values depend on the moment, or their type cannot be stored. Those of `tid` are
# compared in tests/golden/sessions/system-columns.sql, settings in row-security.sql there.
UNPROBED = (
    "oid", "tid", "min(tid)", "max(tid)", "now()", "transaction_timestamp()", "statement_timestamp()",
    "current_setting(",
)  # fmt: skip


def probes_of(row: Row) -> tuple[str, ...]:
    return row.probes if os.environ.get("SLUICE_ALL_PROBES") else row.probes[:1]


def test_every_row_has_a_probe() -> None:
    assert [row.signature for row in ROWS if not row.probes and not row.signature.startswith(UNPROBED)] == []


def test_every_signature_is_postgres_own(probes: Laboratory) -> None:
    known = {probes.builtins.signature(oid) for oid in probes.builtins.functions}
    assert sorted(row.signature for row in ROWS if row.signature not in known) == []


@pytest.mark.turns
@pytest.mark.parametrize(("signature", "sql"), [(row.signature, sql) for row in ROWS for sql in probes_of(row)])
def test_probe(probes: Laboratory, signature: str, sql: str) -> None:
    expected, found = probes.on_postgres(sql), probes.on_spark(sql)
    if sql in REFUSED:
        assert found.sqlstate == "0A000"
        return
    assert found.sqlstate == expected.sqlstate, (signature, found.message, expected.message)
    assert found.message == expected.message
    assert same(expected, found), signature


def same(expected: Answer, found: Answer) -> bool:
    """The same types and, in any order, the same rows."""
    return expected.types == found.types and ordered(expected.rows) == ordered(found.rows)


def ordered(rows: tuple[tuple[str | None, ...], ...]) -> list[tuple[str | None, ...]]:
    return sorted(rows, key=lambda row: tuple((value is None, value or "") for value in row))
