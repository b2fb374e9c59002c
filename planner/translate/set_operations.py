"""UNION, INTERSECT, EXCEPT. Spark's, like PostgreSQL's, take NULLs as equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from catalog.datatypes import NUMERIC
from catalog.errors import unsupported
from planner.spark import numerics, relation_output
from planner.spark.builders import Expression, call, column
from planner.spark.relation_output import Output, Selected, derived
from planner.translate import coercion, ordering, query
from planner.translate.correlation.domain import Dependence
from planner.translate.expressions import Translator
from planner.translate.scope import Scope
from planner.tree.nodes import Node

# SetOperation of parsenodes.h
_UNION: Final = 1
_KINDS: Final[dict[int, type[exp.SetOperation]]] = {1: exp.Union, 2: exp.Intersect, 3: exp.Except}


def select(scope: Scope) -> Selected:
    """Translate the level's set operations; its target list only names the columns (and its ORDER BY refers to
    them)."""
    if not scope.query.targetList:
        raise unsupported("a set operation of queries without columns")
    result = _tree(scope, scope.query.setOperations)
    labels = [target.resname for target in scope.query.targetList]
    outputs = tuple(replace(item, label=label) for item, label in zip(result.outputs, labels, strict=True))
    return replace(result, outputs=outputs)


def _parts(node: Node) -> list[Node]:
    """Return the operands: two queries, or all of a chain of UNION ALL whose columns have the same types."""
    parts = [node.rarg]
    left = node.larg
    while _continues(left, node):
        parts.append(left.rarg)
        left = left.larg
    return [left, *reversed(parts)]


def _continues(left: Node, node: Node) -> bool:
    if left.type != "SETOPERATIONSTMT" or not (left.op == node.op == _UNION and left.all and node.all):
        return False
    return bool(left.colTypes == node.colTypes and left.colTypmods == node.colTypmods)


def _tree(scope: Scope, node: Node) -> Selected:
    if node.type == "RANGETBLREF":
        dependence = None if scope.domain is None else Dependence(scope.domain.below())
        return query.select(scope.statement, scope.entry(node.rtindex).subquery, scope, dependence)
    kind = _KINDS.get(node.op)
    if kind is None:
        raise unsupported("this set operation")
    sides = [_tree(scope, part) for part in _parts(node)]
    aliases = [scope.statement.fresh("r") for _ in sides]
    columns = [side.columns(alias) for side, alias in zip(sides, aliases, strict=True)]
    prefix = scope.statement.fresh("q")
    outputs: list[Output] = []
    lists: list[list[Expression]] = [[] for _ in sides]
    keep_all = bool(node.all)
    for number, pair in enumerate(zip(*columns, strict=True), 1):
        type_oid, typmod = Translator(scope).base(node.colTypes[number - 1]), node.colTypmods[number - 1]
        values = [coercion.implicit(value, type_oid, typmod, scope.statement.context) for value in pair]
        if type_oid == NUMERIC:
            values = numerics.unified(values)
        if not (keep_all and kind is exp.Union):
            for value in values:
                ordering.group_key(value)
                if not ordering.is_its_own_key(replace(value, typmod=typmod)):
                    raise unsupported(f"{kind.__name__.upper()} of values that are displayed in several ways")
        described: Output | None = None
        for value, expressions in zip(values, lists, strict=True):
            described, item = relation_output.output(replace(value, typmod=typmod), f"{prefix}_{number}", None)
            expressions.append(item)
        assert described is not None
        outputs.append(described)
    keys = sides[0].keys
    for side, alias, expressions in zip(sides, aliases, lists, strict=True):
        for item, key in zip(side.key_columns(alias), keys, strict=True):
            expressions.append(exp.alias_(item, key.name, copy=False))
    queries = [
        relation_output.select(expressions, derived(side.query, alias))
        for expressions, side, alias in zip(lists, sides, aliases, strict=True)
    ]
    operation = _operation(scope, kind, queries, [item.name for item in (*outputs, *keys)], keep_all=keep_all)
    alias = scope.statement.fresh("r")
    # As a derived table: no clause that follows can then attach to one side only.
    shown = [exp.column(item.name, table=alias) for item in (*outputs, *keys)]
    return Selected(relation_output.select(shown, derived(operation, alias)), tuple(outputs), keys)


def _operation(
    scope: Scope, kind: type[exp.SetOperation], queries: Sequence[exp.Query], names: Sequence[str], *, keep_all: bool
) -> exp.Query:
    """Return the combined queries, whose columns have these names."""
    if keep_all and kind is not exp.Union:
        queries = [_numbered(scope, each, names) for each in queries]
        keep_all = False
    operation = queries[0]
    for following in queries[1:]:
        operation = kind(this=operation, expression=following, distinct=not keep_all)
    return operation


def _numbered(scope: Scope, rows: exp.Query, names: Sequence[str]) -> exp.Query:
    """Return the rows, each numbered among its equals, so that a set operation that drops duplicates keeps them.

    Spark's own INTERSECT ALL and EXCEPT ALL fail if a column is constant: the optimizer puts the constant where a
    Generate names its columns.
    """
    alias = scope.statement.fresh("r")
    columns: list[Expression] = [column(alias, name) for name in names]
    order = exp.Order(expressions=[exp.Ordered(this=columns[0].copy(), desc=False, nulls_first=False)])
    equals = exp.Window(this=call("row_number"), partition_by=[each.copy() for each in columns], order=order)
    number: Expression = exp.alias_(equals, scope.statement.fresh("n"), copy=False)
    return relation_output.select([*columns, number], derived(rows, alias))
