"""Items of FROM that depend on the items before them, or on a query around the level: LATERAL, and functions."""

from __future__ import annotations

from sqlglot import exp

from catalog.errors import unsupported
from planner.spark import relation_output
from planner.spark.relation_output import without_constant
from planner.translate import from_clause
from planner.translate.correlation import dependent
from planner.translate.correlation.domain import Domain, equal_keys
from planner.translate.correlation.source import Relation
from planner.translate.expressions import Translator
from planner.translate.scope import RTE_VALUES, Scope
from planner.tree import query_levels
from planner.tree.nodes import Node


def subquery(scope: Scope, index: int, node: Node, whole: bool) -> Relation:
    """Translate a correlated subquery in FROM.

    `whole`: a subquery with a row for each row before it may be joined on the left, or computed in place.
    """
    dependent.require_stable(Translator(scope), node)
    if whole and _is_one_row(node):
        inner = _level_of(scope, node)
        from_clause.offer(
            scope, index, [without_constant(Translator(inner).value(each.expr)) for each in node.targetList]
        )
        return Relation(None, [])
    if _is_values(node):
        inner = _level_of(scope, node)
        [numbers] = from_clause.from_clause(inner).items
        from_clause.offer(scope, index, [Translator(inner).value(each.expr) for each in node.targetList])
        return numbers
    translator = Translator(scope)
    if whole and node.havingQual is None:
        groups = dependent.whole_group(translator, node)
        if groups is not None:
            relation, condition, values = groups
            from_clause.offer(scope, index, [without_constant(value) for value in values])
            return Relation(relation, [], "LEFT", condition)
    related = dependent.rows(translator, node)
    alias = scope.statement.fresh("r")
    from_clause.offer(scope, index, related.selected.columns(alias))
    return Relation(related.selected.derived(alias), [], None, related.condition(alias))


def _is_one_row(node: Node) -> bool:
    """Whether the query reads nothing: its one row is computed from the outer row."""
    tree = node.jointree
    computed = dependent.is_plain(node) and not tree.fromlist and tree.quals is None and not node.cteList
    return computed and not query_levels.has_sublink(node.targetList)


def _is_values(node: Node) -> bool:
    """Whether the query is VALUES, whose rows are chosen by number: its columns are NULL if it has no row."""
    tree = node.jointree
    [*items] = tree.fromlist or ()
    if not dependent.is_plain(node) or node.cteList or tree.quals is not None or len(items) != 1:
        return False
    entry = node.rtable[items[0].rtindex - 1] if items[0].type == "RANGETBLREF" else None
    columns = all(each.expr.type == "VAR" and not each.expr.varlevelsup for each in node.targetList)
    return entry is not None and entry.rtekind == RTE_VALUES and query_levels.is_outer(entry.values_lists) and columns


def _level_of(outer: Scope, node: Node) -> Scope:
    """Return the level of a query whose expressions are computed in the rows of the level around it."""
    return Scope(outer.statement, node, outer)


def function(scope: Scope, index: int, node: Node) -> Relation:
    """Translate a set-returning function in FROM: computed for the distinct values of its arguments if these use
    rows."""
    if len(node.functions) != 1:
        raise unsupported("ROWS FROM")
    called = node.functions[0].funcexpr
    if called.type != "FUNCEXPR":
        raise unsupported("this function in FROM")
    numbered = bool(node.funcordinality)
    alias = scope.statement.fresh("r")
    arguments = Translator(scope).values(called.args)
    depending = [value for value in arguments if value.sql.find(exp.Column) is not None]
    if not depending:
        found = from_clause.set_returning(scope, called, arguments, numbered)
        from_clause.offer(scope, index, found.columns(alias))
        return Relation(found.derived(alias), [])
    domain = Domain.of(scope, (), depending)
    given = iter(domain.values(domain.alias))
    arguments = [next(given) if value.sql.find(exp.Column) is not None else value for value in arguments]
    found = from_clause.set_returning(scope, called, arguments, numbered)
    assert isinstance(found.query, exp.Select)
    for key in domain.keys:
        found.query.append("expressions", exp.alias_(key.row, key.output.name, copy=False))
    found.query.set("from_", exp.From(this=domain.relation()))
    from_clause.offer(scope, index, found.columns(alias))
    keys = [key.output for key in domain.keys]
    same = equal_keys(domain.outer, relation_output.Selected(found.query, (), tuple(keys)).key_columns(alias))
    return Relation(found.derived(alias), [], None, same)
