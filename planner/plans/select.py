"""`plan_select`: from PostgreSQL's analysed SELECT to a Spark query in lake form."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from catalog.datatypes import UNKNOWN
from catalog.errors import unsupported
from planner.spark import numerics
from planner.spark.builders import DIALECT, Expression
from planner.spark.plan import Context, OutputColumn, SparkQuery
from planner.spark.relation_output import Selected, select
from planner.spark.values import Value, spark_type
from planner.translate import query
from planner.translate.correlation.check import require_uncorrelated
from planner.translate.scope import Statement
from planner.tree.nodes import Node, malformed


def single_query(tree: Any) -> Node:
    """Return the one QUERY node of a `rewritten parse tree`, which is a list (rules may turn one statement into
    several)."""
    if isinstance(tree, tuple):
        if len(tree) != 1:
            raise unsupported("a statement that rules rewrite into several")
        tree = tree[0]
    if not isinstance(tree, Node) or tree.type != "QUERY":
        raise malformed("no query")
    return tree


def plan_select(tree: Any, context: Context, *, carries: bool = False) -> SparkQuery:
    """Return the plan of a SELECT (or VALUES), given its rewritten tree as `planner.tree.nodes.parse` reads it.

    With `carries`, the caller turns the texts of CARRIED columns into values.
    """
    node = single_query(tree)
    statement = Statement(context)
    statement.carries = carries
    found = query.select(statement, node, None)
    columns = tuple(OutputColumn(item.label or "", item.type_oid, item.typmod) for item in found.outputs)
    return statement.spark_query(rendered(presented_query(found)), columns)


def presented_query(found: Selected) -> Expression:
    """Return the query with one column for each that the client sees: numerics of varying scale as text."""
    for item in found.outputs:
        if item.type_oid != UNKNOWN:
            spark_type(item.type_oid, item.held)
    if not any(item.varies for item in found.outputs):
        return found.query
    if isinstance(found.query, exp.Select) and _is_outermost(found.query):
        return _in_place(found)
    alias = "z"
    shown = [exp.alias_(presented(value), item.name, copy=False)
             for item, value in zip(found.outputs, found.columns(alias), strict=True)]  # fmt: skip
    return select(shown, found.derived(alias))


def _is_outermost(query_: exp.Select) -> bool:
    """Whether the select list only names columns of a derived table, so that it may be rewritten."""
    return all(isinstance(item, exp.Column) for item in query_.expressions)


def _in_place(found: Selected) -> Expression:
    """Keep ORDER BY outermost: a derived table's order is not kept."""
    assert isinstance(found.query, exp.Select)
    by_name = {item.name: item for item in found.query.expressions}
    shown: list[Expression] = []
    for item in found.outputs:
        source = by_name[item.name]
        if not item.varies:
            shown.append(source)
            continue
        value = item.of(source.table)
        shown.append(exp.alias_(presented(value), item.name, copy=False))
    result = found.query
    result.set("expressions", shown)
    return result


def presented(value: Value) -> Expression:
    """Return a value as a result's column holds it."""
    if value.decimal is None or numerics.is_static(value):
        return value.sql
    return numerics.as_text(value)


def rendered(expression: Expression) -> str:
    """Return Spark SQL text, without any correlated subquery (`planner.translate.correlation.check`).

    `${…}` in strings stays: Spark would put settings and environment variables in its place.
    """
    require_uncorrelated(expression)
    return expression.sql(dialect=DIALECT, copy=False, identify=False).replace("${", "$\\{")
