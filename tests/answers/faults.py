"""Planted faults of the planner, one at a time: how many queries until an answer is wrong.

`python -m tests.answers.faults [--queries N] [--seed N] [NAME …]`. Each query is planned with and without each fault.
If the plans are the same, so are the answers, and Spark is not asked.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from catalog.datatypes import BOOL
from catalog.errors import SluiceError
from planner.functions import comparison
from planner.spark import numerics
from planner.spark.builders import Expression, binary, boolean
from planner.spark.plan import SparkQuery
from planner.spark.values import Value
from planner.translate import (
    array_comparison,
    expressions,
    from_clause,
    grouping,
    ordering,
    query,
    scope,
    set_operations,
    sort_limit,
    window_functions,
)
from tests.answers import stages
from tests.answers.asking import QUERIES_PER_WORLD, query_of, world_of
from tests.answers.compare import Verdict, judge
from tests.answers.sides import Oracle, Planner
from tests.planner.differential import Answer, Laboratory

_UNION, _INTERSECT, _EXCEPT = 1, 2, 3  # SetOperation of parsenodes.h
_INNER, _LEFT = 0, 1  # JoinType of nodes.h

Plant = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Fault:
    """`plant` puts it in, for as long as its context lasts."""

    name: str
    plant: Plant


def _translating(node_type: str, change: Callable[[Any], Any]) -> Plant:
    """Expressions of a type are translated as if they were others."""
    right = expressions._TRANSLATORS[node_type]

    def wrong(translator: Any, node: Any) -> Any:
        return right(translator, change(node))

    return lambda: patch.dict(expressions._TRANSLATORS, {node_type: wrong})


def _selecting(change: Callable[[Any], Any]) -> Plant:
    """Levels of queries are translated as if they were others."""
    right = query.select

    def wrong(statement: Any, node: Any, *where: Any) -> Any:
        return right(statement, change(node), *where)

    return lambda: patch.object(query, "select", wrong)


def _set_operations(change: Callable[[Any], Any]) -> Plant:
    right = set_operations._tree

    def wrong(scope: Any, node: Any) -> Any:
        return right(scope, change(node))

    return lambda: patch.object(set_operations, "_tree", wrong)


def _without_all(operation: int) -> Callable[[Any], Any]:
    return lambda node: node.replaced(all=False) if node.type == "SETOPERATIONSTMT" and node.op == operation else node


def _is_null_always() -> AbstractContextManager[Any]:
    return patch.object(expressions, "is_null", lambda sql: boolean(True))


def _inner_for_left() -> AbstractContextManager[Any]:
    return patch.dict(from_clause._SIDES, {_LEFT: from_clause._SIDES[_INNER]})


def _unordered_limit() -> AbstractContextManager[Any]:
    right = sort_limit.finished

    def wrong(scope: Any, rows: Any) -> Any:
        found = right(scope, rows)
        if found.query.args.get("limit") is not None:
            found.query.set("order", None)
        return found

    return patch.object(query, "finished", wrong)


@contextmanager
def _shorter_frame() -> Iterator[None]:
    right = window_functions._bound

    def wrong(*arguments: Any) -> Any:
        bound, side = right(*arguments)
        return (str(int(bound) + 1), side) if bound.isdigit() else (bound, side)

    with patch.object(window_functions, "_bound", wrong):
        yield


def _unequal_for_distinct() -> AbstractContextManager[Any]:
    def wrong(translator: Any, node: Any) -> Value:
        left, right = translator.values(node.args)
        return Value(binary("<>", comparison.comparable(left), comparison.comparable(right)), BOOL)

    return patch.dict(expressions._TRANSLATORS, {"DISTINCTEXPR": wrong})


def _nulls_last() -> AbstractContextManager[Any]:
    right = ordering.ordered

    def wrong(value: Any, clause: Any, types: Any) -> Any:
        return right(value, clause.replaced(nulls_first=False), types)

    return patch.object(ordering, "ordered", wrong)


def _ascending() -> AbstractContextManager[Any]:
    right = ordering.ordered

    def wrong(*arguments: Any) -> Any:
        found = right(*arguments)
        found.set("desc", False)
        return found

    return patch.object(ordering, "ordered", wrong)


def _no_offset() -> AbstractContextManager[Any]:
    right = sort_limit._count

    def wrong(scope: Any, node: Any, clause: str) -> Any:
        return None if clause == "OFFSET" else right(scope, node, clause)

    return patch.object(sort_limit, "_count", wrong)


def _no_zero() -> AbstractContextManager[Any]:
    """COUNT of no rows for an outer row."""
    others = {name: value for name, value in grouping._OVER_NO_ROWS.items() if name != "count"}
    return patch.object(grouping, "_OVER_NO_ROWS", others)


def _no_filter() -> AbstractContextManager[Any]:
    return patch.object(grouping.GroupedAggregation, "_filtered", lambda self, aggregate: aggregate)


def _aggregates_without(attribute: str) -> AbstractContextManager[Any]:
    right = grouping.GroupedAggregation.__init__

    def wrong(self: Any, *arguments: Any) -> None:
        right(self, *arguments)
        setattr(self, attribute, False)

    return patch.object(grouping.GroupedAggregation, "__init__", wrong)


def _keys_alike() -> AbstractContextManager[Any]:
    return patch.object(grouping, "_told_apart", lambda number, key: key)


@contextmanager
def _errors_of_branches() -> Iterator[None]:
    """What a subquery raises counts, also in a branch that is not taken."""
    right = scope.Statement.spark_query

    def wrong(self: Any, *arguments: Any) -> SparkQuery:
        return replace(right(self, *arguments), is_eager=False)

    with patch.object(scope.Statement, "spark_query", wrong):
        yield


def _not_in_without_nulls() -> AbstractContextManager[Any]:
    """NOT IN of a list: NULLs in it do not count."""
    right = array_comparison.array_items

    def wrong(self: Any, node: Any) -> Any:
        items = right(self, node)
        return items if items is None else [item for item in items if not (item.is_constant and item.constant is None)]

    return patch.object(array_comparison, "array_items", wrong)


def _between_without_its_end() -> AbstractContextManager[Any]:
    right = binary

    def wrong(operator: str, *sides: Expression) -> Any:
        return right("<" if operator == "<=" else operator, *sides)

    return patch.object(comparison, "binary", wrong)


def _cut_for_rounded() -> AbstractContextManager[Any]:
    """A cast to an integer cuts what is behind the point."""
    right = numerics.rounded

    def wrong(value: Any, digits: Any, function: str, *rest: Any) -> Any:
        return right(value, digits, "trunc" if function == "round" else function, *rest)

    return patch.object(numerics, "rounded", wrong)


def _range_for_rows() -> AbstractContextManager[Any]:
    right = window_functions._frame

    def wrong(translator: Any, clause: Any, is_ordered: bool) -> Any:
        found = right(translator, clause, is_ordered)
        bounds = {str(found.args["start"]), str(found.args["end"])}
        if is_ordered and not any(bound.isdigit() for bound in bounds):
            found.set("kind", "RANGE")
        return found

    return patch.object(window_functions, "_frame", wrong)


def _no_total() -> AbstractContextManager[Any]:
    right = grouping.Grouping._expanded

    def wrong(self: Any, node: Any) -> Any:
        found = right(self, node)
        return [each for each in found if each] or found

    return patch.object(grouping.Grouping, "_expanded", wrong)


FAULTS: Final = (
    Fault("IS NULL is always true", _is_null_always),
    Fault("an inner for a left join", _inner_for_left),
    Fault("ORDER BY lost beside LIMIT", _unordered_limit),
    Fault("COUNT's zero of a correlated subquery as NULL", _no_zero),
    Fault("a frame is a row too long", _shorter_frame),
    Fault("<> for IS DISTINCT FROM", _unequal_for_distinct),
    Fault("NULLS LAST for FIRST", _nulls_last),
    Fault("UNION for UNION ALL", _set_operations(_without_all(_UNION))),
    Fault("EXCEPT without its ALL", _set_operations(_without_all(_EXCEPT))),
    Fault("INTERSECT without its ALL", _set_operations(_without_all(_INTERSECT))),
    Fault("DISTINCT dropped", _selecting(lambda node: node.replaced(distinctClause=None))),
    Fault("ascending for descending", _ascending),
    Fault("OFFSET ignored", _no_offset),
    Fault("HAVING dropped", _selecting(lambda node: node.replaced(havingQual=None))),
    Fault("FILTER dropped", _no_filter),
    Fault("DISTINCT dropped in an aggregate", partial(_aggregates_without, "distinct")),
    Fault("a + b and b + a as one key", _keys_alike),
    Fault("any_value without its order", partial(_aggregates_without, "ordered")),
    Fault("errors of branches that are not taken", _errors_of_branches),
    Fault("a CASE's ELSE lost", _translating("CASEEXPR", lambda node: node.replaced(defresult=None))),
    Fault("NOT IN as if without NULLs", _not_in_without_nulls),
    Fault("BETWEEN without its end", _between_without_its_end),
    Fault("a cast cuts where it should round", _cut_for_rounded),
    Fault("RANGE for ROWS", _range_for_rows),
    Fault("WITH TIES as without", _selecting(lambda node: node.replaced(limitOption=0))),
    Fault("ROLLUP's total row lost", _no_total),
)


@dataclass
class Hunt:
    """Which faults are still to be found, over one laboratory."""

    laboratory: Laboratory
    wanted: dict[str, Plant]

    def run(self, seed: str, queries: int) -> dict[str, tuple[int, str]]:
        """Name of the fault → after how many queries it is found, and by which."""
        oracle, planner = Oracle(self.laboratory), Planner(self.laboratory)
        found: dict[str, tuple[int, str]] = {}
        for number in range(queries):
            if len(found) == len(self.wanted):
                break
            if number % QUERIES_PER_WORLD == 0:
                tables = world_of(seed, number // QUERIES_PER_WORLD)
                failed = oracle.build(tables)
                assert failed is None, failed
            asked = query_of(seed, number, tables)
            text = asked.sql()
            right = oracle.ask(text)
            if right.sqlstate or (plain := self._plan(text)) is None:
                continue
            sound: bool | None = None
            for name, plant in self.wanted.items():
                if name in found:
                    continue
                with plant():
                    faulty = self._plan(text)
                if faulty is None or faulty == plain:
                    continue
                if sound is None:
                    sound = judge(right, planner.run(plain), asked.is_list) is not Verdict.DIFFERENT
                if sound and self._is_wrong(planner, faulty, right, asked.is_list):
                    found[name] = (number + 1, text)
                    print(f"{number + 1:5} {name}", flush=True)
        return found

    def _plan(self, text: str) -> SparkQuery | None:
        try:
            return self.laboratory.plan(text)
        except SluiceError:
            return None

    @staticmethod
    def _is_wrong(planner: Planner, plan: SparkQuery, right: Answer, is_list: bool) -> bool:
        return judge(right, planner.run(plan), is_list) is Verdict.DIFFERENT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", default="faults")
    parser.add_argument("--queries", type=int, default=2000)
    given = parser.parse_args()
    chosen = [each for each in FAULTS if not given.names or each.name in given.names]
    began = time.monotonic()
    with ExitStack() as stack:
        laboratory = stack.enter_context(stages.laboratory())
        wanted = {each.name: each.plant for each in chosen}
        found = Hunt(laboratory, wanted).run(given.seed, given.queries)
    missed = [each.name for each in chosen if each.name not in found]
    print(f"\nqueries | fault (seed {given.seed})")
    for name, (count, _) in sorted(found.items(), key=lambda each: each[1][0]):
        print(f"{count:7} | {name}")
    for name in missed:
        print(f"      - | {name}: not in {given.queries}")
    print(f"{len(found)} of {len(chosen)} found, {time.monotonic() - began:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
