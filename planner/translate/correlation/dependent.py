"""A correlated subquery as a relation, with the condition of its join to the outer rows.

Of three ways the first that fits is taken:

- the subquery's rows as they are, if only conditions of its WHERE use the outer row: these become the join's;
- by columns of its own, if those conditions are equalities: the subquery is computed for every value of its columns;
- by a domain: the subquery is computed for the distinct outer values, which are joined to its FROM. This always fits.

Source of the last: Neumann and Kemper, Unnesting Arbitrary Queries (2015).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from catalog.datatypes import BOOL, BPCHAR, NUMERIC
from catalog.errors import unsupported
from planner.functions import registry, volatile
from planner.functions.comparison import comparable
from planner.spark import numerics, relation_output
from planner.spark.builders import Expression, and_, case, column
from planner.spark.relation_output import Selected
from planner.spark.values import FLOATS, Decimal, Value
from planner.translate import query
from planner.translate.correlation.domain import Dependence, Domain, Key, equal_keys
from planner.translate.correlation.source import select_aliases
from planner.translate.expressions import Translator
from planner.translate.scope import Scope
from planner.tree import query_levels
from planner.tree.nodes import Node


@dataclass(frozen=True, slots=True)
class Related:
    """The subquery, and its join condition on its columns under an alias; None for no condition.

    `domain` is the domain of its computation, if it has one; `read` returns values of it under an alias.
    """

    selected: Selected
    condition: Callable[[str], Expression | None]
    domain: Domain | None = None


@dataclass(frozen=True, slots=True)
class Equality:
    """`own = outer` (or the other way round), in a subquery's WHERE."""

    signature: str
    own: Node
    outer: Node
    own_first: bool


def rows(translator: Translator, node: Node, *, with_columns: bool = True) -> Related:
    """Return the rows of the subquery that belong to an outer row, duplicates included."""
    require_stable(translator, node)
    found = _as_they_are(translator, node, with_columns)
    return found or keyed(translator, node)


def keyed(translator: Translator, node: Node, more: Sequence[Value] = ()) -> Related:
    """Return the same with keys, by which they may be grouped per outer row; `more` values of the outer row may be
    added."""
    require_stable(translator, node)
    if not more:
        found = _equalities(translator, node)
        if found is not None and not is_whole(node):
            return _by_own_columns(translator, *found)
    return _by_domain(translator, node, more)


def require_stable(translator: Translator, node: Node) -> None:
    """Raise 0A000 for a subquery that gives other values each time: it is computed once for equal outer values, and
    where its columns are used."""
    if volatile.calls(node, translator.context.builtins):
        raise unsupported("a volatile function in a correlated subquery")


def is_whole(node: Node) -> bool:
    """Whether the query is one group, so that it has a row even if it reads none."""
    return bool(node.hasAggs or node.havingQual is not None) and not (node.groupClause or node.groupingSets)


# --- by a domain ---


def _by_domain(translator: Translator, node: Node, more: Sequence[Value]) -> Related:
    scope = translator.scope
    nodes = list({repr(each.replaced(location=0)): each for each in query_levels.outer_values(node)}.values())
    values = [Translator(scope).value(each) for each in nodes]
    domain = Domain.of(scope, nodes, [*values, *more])
    found = query.select(scope.statement, node, scope, Dependence(domain))
    return Related(found, lambda alias: equal_keys(domain.outer, found.key_columns(alias)), domain)


# --- by columns of its own ---

# Equal intervals may have unequal texts, and places of rows have no values.
_NOT_BY_COLUMNS: Final = frozenset({"interval_eq(interval,interval)", "tideq(tid,tid)"})


def _equalities(translator: Translator, node: Node) -> tuple[list[Equality], Node] | None:
    """Return the equalities by which the subquery depends on the outer row, and it without them; None for other
    dependence."""
    if node.setOperations is not None or node.rowMarks or node.groupingSets:
        return None
    tree = node.jointree
    found: list[Equality] = []
    others: list[Node] = []
    for part in query_levels.conjuncts(tree.quals):
        if not query_levels.is_outer(part):
            others.append(part)
            continue
        equality = _equality(translator, part)
        if equality is None:
            return None
        found.append(equality)
    rest = node.replaced(jointree=tree.replaced(quals=query_levels.conjunction(others)))
    return (found, rest) if found and not query_levels.is_correlated(_without_results(rest)) else None


def _without_results(node: Node) -> Node:
    """Return one whole group with only its aggregates: expressions over them may use the outer row beside it."""
    if not is_whole(node) or query_levels.has_sublink((node.targetList, node.havingQual)):
        return node
    aggregates = tuple(_aggregates((node.targetList, node.havingQual)))
    return node.replaced(targetList=aggregates, havingQual=None)


def _aggregates(value: object) -> list[Node]:
    if isinstance(value, tuple):
        return [each for item in value for each in _aggregates(item)]
    if not isinstance(value, Node):
        return []
    if value.type == "AGGREF" and not value.agglevelsup:
        return [value]
    return [each for item in value.fields.values() for each in _aggregates(item)]


def _equality(translator: Translator, node: Node) -> Equality | None:
    if node.type != "OPEXPR" or len(node.args) != 2 or query_levels.has_sublink(node):
        return None
    signature = translator.context.builtins.signature(node.opfuncid)
    if signature not in registry.EQUALITIES or signature in _NOT_BY_COLUMNS:
        return None
    types = signature[signature.index("(") + 1 : -1].split(",")
    if types[0] != types[1]:
        return None  # several values of one type may equal one of the other
    translator.check_collation(node.inputcollid)
    for own, outer, own_first in ((*node.args, True), (*node.args[::-1], False)):
        if query_levels.uses_level(own) and not query_levels.is_outer(own) and not query_levels.uses_level(outer):
            return Equality(signature, own, query_levels.shifted(outer, -1), own_first)
    return None


def _by_own_columns(translator: Translator, equalities: list[Equality], node: Node) -> Related:
    scope = translator.scope
    found = query.select(scope.statement, node, scope, Dependence(columns=_own_keys(equalities)))
    return Related(found, _equal_to(translator, equalities, found.keys))


def _own_keys(equalities: list[Equality]) -> Callable[[Scope], list[Key]]:
    return lambda scope: [_own_key(scope, each.own) for each in equalities]


def _own_key(scope: Scope, node: Node) -> Key:
    """Return a key in which equal values have one form, which equals what they equal."""
    value = Translator(scope).value(node)
    if value.type_oid == NUMERIC:
        held = numerics.computable(value).held
        value = Value(numerics.computable(value).sql, NUMERIC, -1, Decimal(held.precision, held.scale, held.scale))
    elif value.type_oid == BPCHAR or value.type_oid in FLOATS:
        value = Value(comparable(value), value.type_oid)
    described, expression = relation_output.output(value, scope.statement.fresh("k"), None)
    return Key(expression.this, described, value.type_oid)


def _equal_to(
    translator: Translator, equalities: list[Equality], keys: Sequence[relation_output.Output]
) -> Callable[[str], Expression]:
    def condition(alias: str) -> Expression:
        tests = []
        for each, key in zip(equalities, keys, strict=True):
            sides = (key.of(alias), Translator(translator.scope).value(each.outer))
            tests.append(translator.apply(each.signature, BOOL, *(sides if each.own_first else sides[::-1])).sql)
        return and_(*tests)

    return condition


def whole_group(translator: Translator, node: Node) -> tuple[exp.Subquery, Expression, list[Value]] | None:
    """Translate a query that is one group and depends on the outer row by equalities; None if it does not fit.

    Returns its groups, the condition of their left join, and its columns. If there is no group for an outer row,
    aggregates have their value over no rows.
    """
    require_stable(translator, node)
    found = _equalities(translator, node)
    plain = not (node.distinctClause or node.hasWindowFuncs or node.cteList or node.limitCount or node.limitOffset)
    if found is None or not is_whole(node) or not plain or query_levels.has_sublink((node.targetList, node.havingQual)):
        return None
    equalities, rest = found
    inner = Scope(translator.statement, rest, translator.scope)
    source = query.read_rows(inner, Dependence(columns=_own_keys(equalities)))
    query.group_rows(inner, source)
    values = [Translator(inner).value(target.expr) for target in rest.targetList if not target.resjunk]
    having = inner.source.where() if inner.source is not None else None
    if having is not None:
        values = [_where(having, value) for value in values]
    groups = inner.grouping.subquery(source)
    keys = [key.output for key in inner.keys]
    return groups, _equal_to(translator, equalities, keys)(groups.alias), values


def _where(condition: Expression, value: Value) -> Value:
    """Return the value if the condition holds, else NULL."""
    return replace(value, sql=case((condition, value.sql)))


# --- as they are ---


def _as_they_are(translator: Translator, node: Node, with_columns: bool) -> Related | None:
    if not is_plain(node) or node.cteList:
        return None
    if with_columns and query_levels.is_outer(node.targetList):
        return None
    tree = node.jointree
    parts = query_levels.conjuncts(tree.quals)
    outer = [part for part in parts if query_levels.is_outer(part)]
    if query_levels.has_sublink(tuple(outer)):
        return None
    own = [part for part in parts if not query_levels.is_outer(part)]
    rest = node.replaced(
        jointree=tree.replaced(quals=query_levels.conjunction(own)), targetList=node.targetList if with_columns else ()
    )
    if query_levels.is_correlated(rest):
        return None
    inner = Scope(translator.statement, rest, translator.scope)
    query.read_rows(inner, Dependence())
    conditions = [Translator(inner).condition(part) for part in outer]
    targets = query.Targets(inner)
    shown = query.computed(inner, targets.expressions)
    names = _exposed(inner, shown, conditions)
    found = Selected(shown, tuple(targets.outputs))
    return Related(found, lambda alias: _renamed(conditions, names, alias))


def is_plain(node: Node) -> bool:
    """Whether the query neither groups, ranks, cuts nor multiplies its rows."""
    return not (
        node.setOperations is not None or node.rowMarks or node.hasAggs or node.groupClause or node.groupingSets
        or node.havingQual is not None or node.hasWindowFuncs or node.distinctClause or node.limitCount is not None
        or node.limitOffset is not None or node.hasTargetSRFs
    )  # fmt: skip


def _exposed(inner: Scope, shown: exp.Select, conditions: list[Expression]) -> dict[tuple[str, str], str]:
    """Show the columns that the conditions use, and return their names."""
    own = select_aliases(shown)
    names: dict[tuple[str, str], str] = {}
    for condition in conditions:
        for item in condition.find_all(exp.Column):
            if item.table in own and (item.table, item.name) not in names:
                name = inner.statement.fresh("x")
                names[item.table, item.name] = name
                shown.append("expressions", exp.alias_(column(item.table, item.name), name, copy=False))
    return names


def _renamed(conditions: list[Expression], names: dict[tuple[str, str], str], alias: str) -> Expression | None:
    def rename(item: Expression) -> Expression:
        name = names.get((item.table, item.name)) if isinstance(item, exp.Column) else None
        return item if name is None else column(alias, name)

    return and_(*(each.transform(rename) for each in conditions)) if conditions else None
