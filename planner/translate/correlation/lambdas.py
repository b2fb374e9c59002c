"""Scalar subqueries inside of lambdas, which Spark does not take: they are joined to the level instead."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.spark.builders import Expression, binary, boolean, call, case, column, raise_error, raw
from planner.spark.relation_output import derived, select

SEVERAL_ROWS = ("21000", "more than one row returned by a subquery used as an expression")


def without_subqueries_in_lambdas(query: exp.Select, fresh: Callable[[str], str]) -> None:
    """Join the uncorrelated scalar subqueries that stand in calls with a lambda, in expressions of the query itself.

    `fresh` gives names that nothing else in the statement has.
    """
    joined: dict[Expression, Expression] = {}

    def in_call(node: Expression) -> Expression:
        if not isinstance(node, exp.Subquery):
            return node
        if node not in joined:
            joined[node] = _join(query, node, fresh)
        return joined[node].copy()

    def outermost(node: Expression) -> Expression:
        return node.transform(in_call) if _has_lambda(node) else node

    query.set("expressions", [_changed(each, outermost) for each in query.expressions])
    for name in ("where", "group"):
        part = query.args.get(name)
        if part is not None:
            query.set(name, _changed(part, outermost))


def _changed(part: Expression, change: Callable[[Expression], Expression]) -> Expression:
    return part if part.find(exp.Subquery) is None else part.transform(change)


def _has_lambda(node: Expression) -> bool:
    return isinstance(node, exp.Anonymous) and any(
        isinstance(each, exp.Lambda) or (isinstance(each, exp.Var) and "->" in each.name) for each in node.expressions
    )


def _join(query: exp.Select, subquery: exp.Subquery, fresh: Callable[[str], str]) -> Expression:
    """Join the subquery's one row, and return its value: NULL if there is no row, 21000 if there are several."""
    rows, alias, value, count = (fresh(prefix) for prefix in ("r", "m", "v", "n"))
    name = subquery.this.expressions[0].alias_or_name
    shown = [
        exp.alias_(call("max", column(rows, name)), value, copy=False),
        exp.alias_(call("count", exp.Star()), count, copy=False),
    ]
    one = derived(select(shown, derived(subquery.this, rows)), alias)
    query.append("joins", exp.Join(this=one, side="LEFT", on=boolean(True)))
    several = binary(">", column(alias, count), raw("1L"))
    return case((several, raise_error(*SEVERAL_ROWS)), default=column(alias, value))
