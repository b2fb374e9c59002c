"""GROUP BY and aggregates: a level that groups becomes a grouped subquery and a SELECT over its columns.

The subquery computes the keys and the elementary aggregates under flat names. Everything else (target list, HAVING,
windows, sublinks in them) is computed over those columns, so that Spark never has to recognise a grouping expression
inside another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from sqlglot import exp

from catalog.datatypes import INT4
from catalog.errors import unsupported
from planner.functions import registry
from planner.functions.call import Call
from planner.spark import numerics
from planner.spark.builders import (
    Expression,
    binary,
    call,
    case,
    column,
    field,
    integer,
    is_null,
    lambda_,
    lambda_2,
    raw,
    struct,
    variable,
)
from planner.spark.relation_output import derived, select
from planner.spark.values import MISSING, Value, spark_type
from planner.translate import ordering
from planner.translate.correlation.domain import equal_keys
from planner.translate.correlation.lambdas import without_subqueries_in_lambdas
from planner.translate.correlation.source import Source, join
from planner.translate.expressions import Translator
from planner.translate.scope import RTE_GROUP, RTE_JOIN, Scope
from planner.tree.nodes import Node, malformed

_EMPTY, _SIMPLE, _ROLLUP, _CUBE, _SETS = range(5)  # GroupingSetKind of parsenodes.h


class Grouping:
    """The grouped subquery of a level during translation: hands out columns and collects their definitions."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.alias = scope.statement.fresh("g")
        self.rows = Translator(scope)
        self._source = scope.source
        # Whether the level is one group for each outer row, some of which may have no rows to be grouped.
        query = scope.query
        self.is_whole = bool(scope.keys) and not query.groupClause and not query.groupingSets
        self._computed: dict[Expression, str] = {}
        self._keys: list[tuple[Value, list[str]]] = []
        self._grouped_by: list[Expression] = []
        self._sets: list[tuple[int, ...]] | None = None
        self._plan_keys()

    # --- keys ---

    def _plan_keys(self) -> None:
        query = self.scope.query
        entries = [entry for entry in query.rtable or () if entry.rtekind == RTE_GROUP]
        nodes: Sequence[Node] = entries[0].groupexprs if entries else ()
        for number, node in enumerate(nodes, 1):
            value = self.rows.value(node)
            names = [f"{self.alias}_k{number}"]
            if not ordering.is_its_own_key(value):
                names.append(f"{self.alias}_k{number}_v")
            self._keys.append((value, names))
        self._grouped_by = [ordering.group_key(value) for value, _ in self._keys]
        if query.groupingSets:
            self._sets = self._expanded(query)
            self._grouped_by = list(map(_told_apart, range(len(self._keys)), self._grouped_by))
            keys = [*self.scope.key_columns(), *self._grouped_by]
            if len(set(keys)) < len(keys):
                raise unsupported("grouping sets over the same expression twice")

    def _expanded(self, query: Node) -> list[tuple[int, ...]]:
        """Return all grouping sets, each a tuple of key indexes: the product of the items of GROUP BY."""
        factors = [self._sets_of(item) for item in query.groupingSets]
        sets = [
            tuple(dict.fromkeys(itertools.chain.from_iterable(combination)))
            for combination in itertools.product(*factors)
        ]
        if query.groupDistinct:
            sets = [tuple(found) for found in dict.fromkeys(frozenset(item) for item in sets)]
        return sets

    def _sets_of(self, node: Node) -> list[tuple[int, ...]]:
        if node.kind == _EMPTY:
            return [()]
        if node.kind == _SIMPLE:
            return [self._indexes(node.content)]
        if node.kind == _SETS:
            return [found for part in node.content for found in self._sets_of(part)]
        parts = [self._indexes(part.content) for part in node.content]
        if node.kind == _ROLLUP:
            return [tuple(itertools.chain.from_iterable(parts[:size])) for size in range(len(parts), -1, -1)]
        return [
            tuple(itertools.chain.from_iterable(chosen))
            for size in range(len(parts), -1, -1)
            for chosen in itertools.combinations(parts, size)
        ]

    def _indexes(self, references: Sequence[int] | None) -> tuple[int, ...]:
        return tuple(self._key_of(reference) for reference in references or ())

    def _key_of(self, reference: int) -> int:
        target = self.scope.query.targetList[ordering.by_reference(self.scope.query.targetList, reference)]
        if target.expr.type == "VAR" and target.expr.varlevelsup:
            raise unsupported("a grouping set over a column of an outer query")
        if target.expr.type != "VAR" or self.scope.entry(target.expr.varno).rtekind != RTE_GROUP:
            raise malformed("a grouping set of something that is not grouped")
        index: int = target.expr.varattno - 1
        return index

    # --- for expressions over the groups ---

    def variable(self, node: Node, entry: Node) -> Value:
        if entry.rtekind == RTE_GROUP:
            value, names = self._keys[node.varattno - 1]
            return self._key_value(value, names)
        if entry.rtekind == RTE_JOIN:
            raise unsupported("a column of a join that is not grouped")
        # Not grouped, yet allowed: it depends on grouped columns by a primary key.
        with self.reading_rows():
            value = self.rows.value(node)
        if value.decimal is not None and not isinstance(value.decimal.display, int) and not value.decimal.is_text:
            raise unsupported("an ungrouped computed numeric")
        return replace(value, sql=self.computed(call("any_value", value.sql)), constant=MISSING)

    def _key_value(self, value: Value, names: list[str]) -> Value:
        if len(names) == 1:
            return replace(value, sql=column(self.alias, names[0]), constant=MISSING)
        held, shown = value.decimal, column(self.alias, names[1])
        if held is not None and not held.is_text:
            sql, held = numerics.unpacked(shown, held)
            return replace(value, sql=sql, decimal=held, constant=MISSING)
        return replace(value, sql=shown, constant=MISSING)

    def computed(self, aggregate: Expression) -> Expression:
        """Return the column of the subquery that holds this aggregate."""
        name = self._computed.get(aggregate)
        if name is None:
            name = f"{self.alias}_a{len(self._computed) + 1}"
            self._computed[aggregate] = name
        found = column(self.alias, name)
        return filled(found, aggregate) if self.is_whole else found

    @contextmanager
    def reading_rows(self) -> Iterator[None]:
        """Inside, variables mean the columns of the rows that are grouped."""
        groups = self.scope.source
        self.scope.grouping, self.scope.source = None, self._source
        try:
            yield
        finally:
            self.scope.grouping, self.scope.source = self, groups

    def aggregate(self, node: Node) -> Value:
        with self.reading_rows():
            parts = GroupedAggregation(self, node)
            direct = tuple(self.rows.values(node.aggdirectargs))
            arguments = direct + tuple(self.rows.value(target.expr) for target in node.args or () if not target.resjunk)
            parts.prepare(arguments)
        return aggregated(self.rows, node.aggfnoid, node.aggtype, node.inputcollid, arguments, parts)

    def grouping_function(self, node: Node) -> Value:
        """Translate GROUPING(…): one bit for each argument, set if the argument is not grouped in this row's set."""
        if self._sets is None:
            return Value(raw("0"), INT4)
        result: Expression = raw("0")
        for reference in node.refs:
            bit = self.computed(call("grouping", self._grouped_by[self._key_of(reference)]))
            result = binary("+", binary("*", result, raw("2")), bit)
        return Value(exp.Paren(this=result), INT4)

    # --- the subquery ---

    def subquery(self, source: Source) -> exp.Subquery:
        """Return the grouped subquery of these rows, with all columns handed out so far."""
        if self._sets is None:
            grouped = self._grouped(source, None)
            return derived(self._for_each_outer_row(grouped) if self.is_whole else grouped, self.alias)
        # Spark returns no row for the empty grouping set over no rows; PostgreSQL returns one. So it stands alone.
        queries = []
        sets = [found for found in self._sets if found]
        if sets:
            queries.append(self._grouped(source, sets))
        queries += [self._for_each_outer_row(self._grouped(source, [])) for found in self._sets if not found]
        result: Expression = queries[0]
        for query in queries[1:]:
            result = exp.Union(this=result, expression=query, distinct=False)
        return derived(result, self.alias)

    def _for_each_outer_row(self, grouped: exp.Select) -> exp.Select:
        """Return one group for each of the domain's values, over no rows if `grouped` has none; else `grouped` as it
        is."""
        domain = self.scope.domain
        if domain is None:
            return grouped
        alias = self.scope.statement.fresh("g")
        aggregates = {name: aggregate for aggregate, name in self._computed.items()}
        keys = {key.output.name: column(domain.alias, key.output.name) for key in self.scope.keys}
        shown: list[Expression] = []
        for item in grouped.expressions:
            name, found = item.alias, column(alias, item.alias)
            value = filled(found, aggregates[name]) if name in aggregates else keys.get(name, found)
            shown.append(exp.alias_(value, name, copy=False))
        result = select(shown, domain.relation())
        same = equal_keys(list(keys.values()), [column(alias, name) for name in keys])
        result.set("joins", [join(derived(grouped, alias), "LEFT", same)])
        return result

    def _grouped(self, source: Source, sets: list[tuple[int, ...]] | None) -> exp.Select:
        outer = [key.row for key in self.scope.keys]
        expressions: list[Expression] = [
            exp.alias_(key.row, key.output.name, copy=False) for key in self.scope.keys
        ]  # fmt: skip
        keys = self._grouped_by
        grand_total = sets == []
        for (value, names), key in zip(self._keys, keys, strict=True):
            if len(names) > 1 and self._sets is not None:
                raise unsupported("grouping sets over values that are displayed in several ways")
            shown: Expression = key
            if grand_total:
                shown = raw(f"CAST(NULL AS {spark_type(value.type_oid, value.decimal)})")
            expressions.append(exp.alias_(shown, names[0], copy=False))
            if len(names) > 1:
                expressions.append(exp.alias_(ordering.representative(value), names[1], copy=False))
        for aggregate, name in self._computed.items():
            shown = aggregate
            if grand_total and isinstance(aggregate, exp.Anonymous) and aggregate.name == "grouping":
                shown = raw("CAST(1 AS TINYINT)")
            expressions.append(exp.alias_(shown, name, copy=False))
        if not (keys or outer) or self._sets is not None:
            # The level is one group in any case: without an aggregate Spark would return every row.
            expressions.append(exp.alias_(call("count", exp.Star()), f"{self.alias}_n", copy=False))
        head, joins = source.joined()
        result = select(expressions, head, source.where())
        result.set("joins", joins)
        if sets:
            groups = [exp.Tuple(expressions=[*outer, *(keys[index] for index in found)]) for found in sets]
            result.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=groups)]))
        elif outer or (keys and not grand_total):
            result.set("group", exp.Group(expressions=[*outer, *([] if grand_total else keys)]))
        without_subqueries_in_lambdas(result, self.scope.statement.fresh)
        return result


def _told_apart(number: int, key: Expression) -> Expression:
    """Return a key of grouping sets in a form of its own: to Spark `a + b` and `b + a` are one expression, and so one
    key."""
    return key if isinstance(key, exp.Column) else case((binary("=", integer(number), integer(number)), key))


def filled(found: Expression, aggregate: Expression) -> Expression:
    """Return the column of an aggregate, with its value over no rows if the column is NULL for lack of rows."""
    function = aggregate.this if isinstance(aggregate, exp.Filter) else aggregate
    nothing = _OVER_NO_ROWS.get(function.name.lower()) if isinstance(function, exp.Anonymous) else None
    return found if nothing is None else call("coalesce", found, raw(nothing))


# The aggregates of Spark that are not NULL over no rows.
_OVER_NO_ROWS: Final = {
    "count": "0L", "collect_list": "array()", "collect_set": "array()", "grouping": "CAST(1 AS TINYINT)",
}  # fmt: skip


def aggregated(  # noqa: PLR0917
    translator: Translator,
    function: int,
    result_type: int,
    collation: int,
    arguments: tuple[Value, ...],
    parts: GroupedAggregation,
) -> Value:
    """Return the aggregate's value, from the allow-list."""
    context = translator.context
    signature = context.builtins.signature(function)
    row = registry.AGGREGATES.get(signature)
    if row is None:
        raise unsupported(f"the aggregate {signature}")
    translator.check_collation(collation)
    if parts.distinct and signature in registry.NOT_DISTINCT:
        raise unsupported(f"{signature} with DISTINCT")
    call_ = Call(signature, arguments, translator.base(result_type), context.session, parts)
    return translator.statement.types.built(row, call_)


class GroupedAggregation:
    """The elementary aggregates of one aggregate call, with its DISTINCT, FILTER and ORDER BY."""

    def __init__(self, grouping: Grouping, node: Node) -> None:
        self._grouping = grouping
        self._node = node
        self.distinct = bool(node.aggdistinct)
        self.ordered = bool(node.aggorder)
        self.descending = bool(node.aggorder and node.aggorder[0].reverse_sort)
        self._filter: Expression | None = None
        self._order: list[tuple[Expression, Node]] = []

    def prepare(self, arguments: tuple[Value, ...]) -> None:  # noqa: ARG002
        """Translate what stands beside the arguments, while rows are read."""
        node, rows = self._node, self._grouping.rows
        if node.aggfilter is not None:
            self._filter = rows.value(node.aggfilter).sql
        for clause in node.aggorder or ():
            target = node.args[ordering.by_reference(node.args, clause.tleSortGroupRef)]
            self._order.append((ordering.sort_key(rows.value(target.expr), rows.statement.types), clause))

    def __call__(self, function: str, *arguments: Expression) -> Expression:
        given: list[Expression] = list(arguments)
        if self.distinct:
            given = [exp.Distinct(expressions=given)]
        return self._grouping.computed(self._filtered(exp.Anonymous(this=function, expressions=given)))

    def plainly(self, function: str, *arguments: Expression) -> Expression:
        """Return the call without DISTINCT."""
        return self._grouping.computed(self._filtered(call(function, *arguments)))

    def _filtered(self, aggregate: Expression) -> Expression:
        if self._filter is None:
            return aggregate
        return exp.Filter(this=aggregate, expression=exp.Where(this=self._filter))

    def sorted_list(self, element: Expression) -> Expression:
        # Structs, because collect_list leaves NULLs out.
        keys = {f"k{number}": key for number, (key, _) in enumerate(self._order)}
        item = struct(x=element, **keys)
        function = "collect_set" if self.distinct else "collect_list"
        items: Expression = self._grouping.computed(self._filtered(call(function, item)))
        if self.distinct and not self._order:
            items = call("array_sort", items, _comparator([("x", False, False)]))
        elif self._order:
            fields = [
                (f"k{number}", bool(clause.reverse_sort), bool(clause.nulls_first))
                for number, (_, clause) in enumerate(self._order)
            ]
            items = call("array_sort", items, _comparator(fields))
        listed = call("transform", items, lambda_("e", field(variable("e"), "x")))
        return case((binary(">", call("size", listed), raw("0")), listed))


def _comparator(fields: list[tuple[str, bool, bool]]) -> Expression:
    """Return a lambda comparing structs by these (field, descending, nulls first)."""
    result: Expression = raw("0")
    for name, descending, nulls_first in reversed(fields):
        left, right = variable(f"l.{name}"), variable(f"m.{name}")
        before, after = (integer(1), integer(-1)) if descending else (integer(-1), integer(1))
        null_left, null_right = (integer(-1), integer(1)) if nulls_first else (integer(1), integer(-1))
        both = exp.And(this=is_null(left), expression=is_null(right))
        result = case(
            (both, result),
            (is_null(left), null_left),
            (is_null(right), null_right),
            (binary("<", left, right), before),
            (binary(">", left, right), after),
            default=result,
        )
    return lambda_2("l", "m", result)
