"""Nested calls: their SQL grows linearly, and their answer is PostgreSQL's."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from planner.tree.nodes import Node, walk
from tests.planner.differential import Laboratory

# `{}` is the operand, and stands once in each: PostgreSQL's own text grows as they nest, too.
_NESTED = {
    "minus": ("i", "integers", "- ({})"),
    "minus of numerics": ("n", "decimals", "- ({})"),
    "quotient": ("n", "decimals", "({}) / 1.5"),
    "divisor": ("n", "decimals", "7.25 / (round({}, 2) + 3)"),
    "quotient of integers": ("i", "integers", "(({}) + 7) / 3"),
    "remainder": ("i", "integers", "(({}) + 11) % 7"),
    "product": ("n", "decimals", "({}) * 1.0"),
    "absolute": ("i", "integers", "abs({} + 1)"),
    "rounded": ("n", "decimals", "round(({}) + 0.05, 2)"),
    "nullif": ("i", "integers", "nullif({}, 2)"),
    "nullif of quotients": ("n", "decimals", "nullif(({}) / 1.25, 0)"),
    "coalesce": ("n", "decimals", "coalesce({}, 1.5) / 2"),
    "greatest": ("n", "decimals", "greatest({}, 0.5) / 3"),
    "case": ("n", "decimals", "CASE WHEN true THEN {} ELSE 2.5 END / 2"),
    "case of": ("i", "integers", "CASE {} WHEN 1 THEN 2 WHEN 2 THEN 3 ELSE 1 END"),
    "cast to numeric": ("n", "decimals", "(({}) + 0.125)::numeric(9, 2)"),
    "cast to text and back": ("i", "integers", "({})::text::integer"),
    "cast to float and back": ("i", "integers", "(({})::float8 / 2)::integer"),
    "substring": ("t", "texts", "substr({} || 'ab', 1, 5)"),
    "padded": ("t", "texts", "lpad({}, 4, 'x')"),
    "date": ("d", "dates", "(({}) + interval '1 month')::date"),
    "comparison": ("x", "booleans", "({}) IS NOT DISTINCT FROM true"),
}

# The rows whose values are not extremes.
_TAME = {"integers": "id > 5", "decimals": "id <> 5", "dates": "id < 3"}


def _sql(kind: str, depth: int) -> str:
    column, table, form = _NESTED[kind]
    expression = column
    for _ in range(depth):
        expression = form.replace("{}", expression)
    return f"SELECT id, {expression} FROM {table} WHERE {_TAME.get(table, 'true')} ORDER BY id"


@pytest.mark.turns
@pytest.mark.parametrize("kind", _NESTED)
def test_nested_calls(probes: Laboratory, kind: str) -> None:
    lengths = [len(probes.plan(_sql(kind, depth)).sql) for depth in (6, 12, 24)]
    assert lengths[2] - lengths[1] < 3 * (lengths[1] - lengths[0]) + 1000
    sql = _sql(kind, 5)
    assert probes.on_spark(sql) == probes.on_postgres(sql)


@pytest.mark.parametrize("kind", ["minus", "substring", "padded"])
def test_a_node_is_looked_at_a_few_times(probes: Laboratory, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not once for each call around it: long chains are planned in threads that all sessions share."""
    looked = 0

    def counting(tree: object) -> Iterator[Node]:
        nonlocal looked
        for node in walk(tree):
            looked += 1
            yield node

    for module in list(sys.modules.values()):
        if module.__name__ != __name__ and getattr(module, "walk", None) is walk:
            monkeypatch.setattr(module, "walk", counting)
    counts = []
    for depth in (25, 50, 100):
        looked = 0
        probes.plan(_sql(kind, depth))
        counts.append(looked)
    assert counts[2] - counts[1] <= 2.2 * (counts[1] - counts[0])
