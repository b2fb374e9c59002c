"""Minimising, without servers: it keeps the failing part, and the answer stays certain."""

from __future__ import annotations

import pytest

from tests.answers.asking import query_of, world_of
from tests.answers.changing import change_of
from tests.answers.expressions import Aggregate, Apply, Case, Exists, Literal, Ordered, Ref, Scalar, Window
from tests.answers.queries import (
    Cut,
    Derived,
    DistinctOn,
    Join,
    Order,
    Query,
    Select,
    SetOperation,
    TableItem,
    Target,
    tidy,
)
from tests.answers.shrink import shrunk, simpler_queries, simpler_statements
from tests.answers.tables import Load, World
from tests.answers.tree import Node, shorter, size, walk

_WORLD = world_of("shrink", 0)
_LARGE = [query for query in (query_of("shrink", number, _WORLD) for number in range(200)) if size(query) > 80]


def _holds(kind: type[Node]) -> list[Query]:
    return [query for query in _LARGE if any(isinstance(each, kind) for each in walk(query))]


@pytest.mark.parametrize("kind", [Case, Exists, Scalar, Window, DistinctOn, SetOperation])
def test_a_planted_fault_is_all_that_is_left(kind: type[Node]) -> None:
    """ "Differs" says: a node of the kind is in it. Nothing then needs to stand beside that node."""

    def differs(query: Query) -> bool:
        return any(isinstance(each, kind) for each in walk(query))

    examples = _holds(kind)[:3]
    assert examples
    for query in examples:
        small = shrunk(query, simpler_queries, differs)
        assert differs(small)
        assert size(small) <= 14 < size(query), small.sql()


def test_two_things_that_only_fail_together_stay() -> None:
    def differs(query: Query) -> bool:
        text = query.sql()
        return " LEFT JOIN " in text and "LIMIT" in text

    query = next(each for each in _LARGE if differs(each))
    small = shrunk(query, simpler_queries, differs)
    assert differs(small)
    assert small.sql().count("SELECT") <= 3, small.sql()  # a set operation has two


def test_rows_are_taken_away() -> None:
    """It fails while a row of t2 has a NULL."""

    def fails(world: World) -> bool:
        return any(
            None in row
            for table in world.tables
            if table.name == "t2"
            for step in table.steps
            if isinstance(step, Load)
            for row in step.rows
        )

    small = shrunk(_WORLD, World.simpler, fails)
    [table] = small.tables
    rows = [row for step in table.steps if isinstance(step, Load) for row in step.rows]
    assert len(rows) == 1
    assert [step for step in table.steps if isinstance(step, str)] == []


def test_changes_are_shrunk_too() -> None:
    def differs(change: Node) -> bool:
        return "RETURNING" in change.sql() and "UPDATE" in change.sql()

    change: Node = next(each for each in (change_of("shrink a", n, _WORLD) for n in range(50)) if differs(each))
    small = shrunk(change, simpler_statements, differs)
    assert differs(small)
    assert size(small) < 15


def test_an_order_stays_as_certain_as_it_was() -> None:
    """Whatever is left out: LIMIT has an order over all that tells rows apart."""
    left, right = TableItem("t1", "a1"), TableItem("t2", "a2")
    keys = Ref("int4", "a1", "id"), Ref("int4", "a2", "id")
    order = Order((), keys, cut=Cut(1))
    query = Select((Target(keys[0], "c1"),), Join(left, "CROSS", right), order=order)
    steps = [each.sql() for each in simpler_queries(query)]
    assert "SELECT a1.id AS c1 FROM t1 AS a1 ORDER BY a1.id LIMIT 1" in steps
    assert "SELECT a1.id AS c1 FROM t1 AS a1 CROSS JOIN t2 AS a2" in steps
    assert not [step for step in steps if "LIMIT" in step and "t2" in step and "ORDER BY a1.id, a2.id" not in step
                and "ORDER BY a2.id" not in step]  # fmt: skip


def test_the_order_in_an_aggregate_stays_certain() -> None:
    """Whatever becomes of its argument, that ends the order."""
    column = Ref("int4", "a1", "k")
    halved = Apply("int4", "({0} / 2)", (column,))
    listed = Aggregate("int4[]", "array_agg({0} {order})", (halved,), order=(Ordered(halved),))
    query = Select((Target(listed, "c1"),), TableItem("t1", "a1"))
    steps = [each.sql() for each in simpler_queries(query)]
    assert "SELECT array_agg(a1.k ORDER BY (a1.k / 2), a1.k) AS c1 FROM t1 AS a1" in steps


def test_keys_of_columns_that_are_gone_go() -> None:
    inner = Select((Target(Literal("int4", "1"), "c1"), Target(Literal("int4", "2"), "c2")))
    order = Order((), (Ref("any", "a1", "c1"), Ref("any", "a1", "c2"), Ref("int4", "a9", "id")), cut=Cut(1))
    query = Select((Target(Apply("int4", "1", ()), "c1"),), Derived(inner, "a1"), order=order)
    tidied = tidy(query)
    assert tidied.sql().endswith("ORDER BY a1.c1, a1.c2 LIMIT 1")


def test_shorter_halves_first() -> None:
    assert next(shorter((1, 2, 3, 4))) == (3, 4)
    assert list(shorter((1,))) == [()]
    assert list(shorter((1,), 1)) == []


def test_nothing_is_tried_twice() -> None:
    tried: list[str] = []

    def differs(query: Query) -> bool:
        tried.append(query.sql())
        return False

    query = _LARGE[0]
    assert shrunk(query, simpler_queries, differs) is query
    assert len(tried) > 10
