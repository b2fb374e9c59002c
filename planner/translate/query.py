"""From a QUERY node to a Spark SELECT: one level at a time, from FROM to LIMIT.

A level becomes: the rows (FROM, WHERE), grouped if it groups (`planner.translate.grouping`), the target list over them
as a derived table with flat names, and around it order and limit (`planner.translate.sort_limit`).
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from catalog.errors import unsupported
from planner.spark.builders import Expression, raw
from planner.spark.relation_output import Output, Selected, output
from planner.spark.relation_output import select as select_
from planner.spark.values import Value
from planner.translate import from_clause, row_marks, set_operations, with_queries
from planner.translate.correlation.domain import INDEPENDENT, Dependence
from planner.translate.correlation.lambdas import without_subqueries_in_lambdas
from planner.translate.correlation.source import Relation, Source
from planner.translate.expressions import Translator
from planner.translate.grouping import Grouping
from planner.translate.scope import Scope, Statement
from planner.translate.sort_limit import finished
from planner.tree import query_levels
from planner.tree.nodes import Node, text

CMD_SELECT: Final = 1


def select(statement: Statement, query: Node, parent: Scope | None, dependence: Dependence | None = None) -> Selected:
    """Translate the query. `parent` is the level around it, `dependence` its dependence on that level's rows."""
    if query.commandType != CMD_SELECT:
        raise unsupported("a change of data inside a query")
    scope = Scope(statement, query, parent)
    dependence = dependence or INDEPENDENT
    scope.domain = dependence.domain
    row_marks.checked(scope)
    common = with_queries.define(scope)
    if query.setOperations is not None:
        return with_queries.attached(finished(scope, set_operations.select(scope)), common)
    source = read_rows(scope, dependence)
    grouped = bool(query.hasAggs or query.groupClause or query.groupingSets or query.havingQual is not None)
    if grouped:
        group_rows(scope, source)
    targets = Targets(scope)
    inner = computed(scope, targets.expressions)
    return with_queries.attached(finished(scope, Selected(inner, tuple(targets.outputs), targets.keys)), common)


def read_rows(scope: Scope, dependence: Dependence) -> Source:
    """Translate FROM and WHERE."""
    scope.domain = dependence.domain
    scope.keys = [] if scope.domain is None else list(scope.domain.keys)
    source = from_clause.from_clause(scope)
    if dependence.columns is not None:
        scope.keys = dependence.columns(scope)
    parts = [*query_levels.conjuncts(scope.query.jointree.quals), *source.postponed]
    # A subquery's domain is smaller if the other conditions are known.
    for part in sorted(parts, key=query_levels.has_sublink):
        source.keep(Translator(scope).filter(part))
    source.keep(row_marks.among_locked(scope))
    return source


def group_rows(scope: Scope, source: Source) -> None:
    """Translate GROUP BY and HAVING: from here on the level's expressions are over its groups."""
    query = scope.query
    # For one group without an aggregate PostgreSQL reads neither the rows nor WHERE.
    grouped = source if query.hasAggs or query.groupClause else Source()
    if scope.domain is not None and not grouped.items:
        grouped.items.append(Relation(scope.domain.relation(), []))
    scope.grouping = Grouping(scope)
    scope.source = Source(grouped=lambda: scope.grouping.subquery(grouped))
    for part in sorted(query_levels.conjuncts(query.havingQual), key=query_levels.has_sublink):
        scope.source.keep(Translator(scope).filter(part))


def computed(scope: Scope, expressions: list[Expression]) -> exp.Select:
    """Return SELECT of these expressions over the level's rows or groups."""
    assert scope.source is not None
    head, joins = scope.source.joined()
    result = select_(expressions, head, scope.source.where())
    result.set("joins", joins)
    without_subqueries_in_lambdas(result, scope.statement.fresh)
    return result


class Targets:
    """The target list: the columns of the level, junk entries included."""

    def __init__(self, scope: Scope) -> None:
        self.outputs: list[Output] = []
        self.expressions: list[Expression] = []
        name = scope.statement.fresh("q")
        translator = Translator(scope)
        for number, target in enumerate(scope.query.targetList or (), 1):
            value = self._value(scope, translator, target)
            described, expression = output(value, f"{name}_{number}", text(target.resname))
            self.outputs.append(described)
            self.expressions.append(expression)
        located, places = row_marks.places(scope)
        self.outputs += located
        self.expressions += places
        self.keys = tuple(key.output for key in scope.keys)
        for key, expression in zip(scope.keys, scope.key_columns(), strict=True):
            self.expressions.append(exp.alias_(expression, key.output.name, copy=False))
        if not self.expressions:
            self.expressions.append(exp.alias_(raw("1"), f"{name}_0"))

    def _value(self, scope: Scope, translator: Translator, target: Node) -> Value:
        node = target.expr
        if node.type == "FUNCEXPR" and node.funcretset:
            return self._set(scope, translator, node)
        return translator.value(node)

    def _set(self, scope: Scope, translator: Translator, node: Node) -> Value:
        others = sum(
            1 for target in scope.query.targetList if target.expr.type == "FUNCEXPR" and target.expr.funcretset
        )
        query = scope.query
        # PostgreSQL computes windows before it multiplies rows, Spark after.
        multiplied = query.hasWindowFuncs or query.distinctClause or query.sortClause
        if others > 1 or scope.grouping is not None or multiplied:
            raise unsupported("set-returning functions in this SELECT list")
        inner = from_clause.set_returning(scope, node, translator.values(node.args))
        exploded = inner.query.expressions[0].this
        return Value(exploded, inner.outputs[0].type_oid)
