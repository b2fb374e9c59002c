"""From a QUERY node to a Spark SELECT: one level at a time, from FROM to LIMIT.

A level becomes: the rows (FROM, WHERE), grouped where it groups (`planner.grouping`), the target list over them as a
derived table with flat names, and around it what orders and cuts: DISTINCT, DISTINCT ON, ORDER BY, LIMIT.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from catalog.errors import SluiceError, unsupported
from planner import ordering, ranges, row_marks, setops, with_queries
from planner.expressions import Translator
from planner.grouping import Grouping
from planner.nodes import Node, text
from planner.scope import Scope, Statement
from planner.selected import Output, Selected, derived, output
from planner.selected import select as select_
from planner.spark import Expression, and_, binary, call, column, raw
from planner.values import Value

CMD_SELECT: Final = 1
_LIMIT_WITH_TIES: Final = 1


def select(statement: Statement, query: Node, parent: Scope | None) -> Selected:
    """The query as a Spark query. `parent` is the level that it stands in."""
    if query.commandType != CMD_SELECT:
        raise unsupported("a change of data inside a query")
    scope = Scope(statement, query, parent)
    row_marks.checked(scope)
    common = with_queries.define(scope)
    if query.setOperations is not None:
        result = setops.select(scope)
        return with_queries.attached(finished(scope, result), common)
    relation = ranges.from_clause(scope)
    where = None
    if query.jointree.quals is not None:
        where = Translator(scope).filter(query.jointree.quals)
    where = row_marks.among_locked(scope, where)
    grouped = bool(query.hasAggs or query.groupClause or query.groupingSets or query.havingQual is not None)
    if grouped:
        # Distinct from `where`: HAVING is over the groups, and so is everything in the target list.
        scope.grouping = Grouping(scope)
    targets = Targets(scope)
    if grouped:
        having = None
        if query.havingQual is not None:
            having = Translator(scope).filter(query.havingQual)
        if query.hasAggs or query.groupClause:
            source = scope.grouping.subquery(relation.head, relation.joins, where)
        else:
            # One group, of which nobody asks anything: PostgreSQL does not look at its rows, nor at WHERE.
            source = scope.grouping.subquery(None, [], None)
        inner = select_(targets.expressions, source, having)
    else:
        inner = select_(targets.expressions, relation.head, where)
        inner.set("joins", relation.joins)
    return with_queries.attached(finished(scope, Selected(inner, tuple(targets.outputs))), common)


class Targets:
    """The target list: what the level gives out, junk entries included."""

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
        inner = ranges.set_returning(scope, translator, node)
        exploded = inner.query.expressions[0].this
        return Value(exploded, inner.outputs[0].type_oid)


def finished(scope: Scope, rows: Selected) -> Selected:
    """DISTINCT, ORDER BY and LIMIT around the target list's rows."""
    query = scope.query
    visible = [not target.resjunk for target in query.targetList or ()]
    visible += [True] * (len(rows.outputs) - len(visible))  # where rows are
    limit = _count(scope, query.limitCount, "LIMIT")
    offset = _count(scope, query.limitOffset, "OFFSET") or 0
    if query.rowMarks:
        if query.limitOption == _LIMIT_WITH_TIES and limit is not None:
            raise unsupported("FOR UPDATE or FOR SHARE with WITH TIES")
        if row_marks.gives_places(scope):
            scope.statement.cut = (limit, offset)
        limit, offset = None, 0  # whoever locks the rows counts them, or has counted them
    plain = not (query.distinctClause or query.sortClause or limit is not None or offset)
    outputs = tuple(item for item, is_visible in zip(rows.outputs, visible, strict=True) if is_visible)
    if plain and all(visible):
        return rows
    alias = scope.statement.fresh("r")
    columns = rows.columns(alias)
    orders = [
        ordering.ordered(
            columns[ordering.by_reference(query.targetList, clause.tleSortGroupRef)], clause, scope.statement.types
        )
        for clause in query.sortClause or ()
    ]
    source: Expression = rows.derived(alias)
    condition: Expression | None = None
    if query.distinctClause and query.hasDistinctOn:
        keys = [
            ordering.group_key(columns[ordering.by_reference(query.targetList, clause.tleSortGroupRef)])
            for clause in query.distinctClause
        ]
        order = exp.Order(expressions=orders or [raw("1")])
        number = exp.Window(this=call("row_number"), partition_by=keys, order=order)
        name = scope.statement.fresh("n")
        source = _numbered(rows, alias, source, number, name)
        condition = binary("=", column(alias, name), raw("1"))
    elif query.distinctClause:
        # What is not shown (keys of groups and windows) does not tell rows apart; ORDER BY is over what is shown.
        rows = Selected(rows.query, outputs)
        source = _distinct(rows, alias, [item for item, is_visible in zip(columns, visible, strict=True) if is_visible])
    if query.limitOption == _LIMIT_WITH_TIES and limit is not None:
        order = exp.Order(expressions=orders)
        rank = exp.Window(this=call("rank"), order=order)
        row_number = exp.Window(this=call("row_number"), order=order.copy())
        first, second = scope.statement.fresh("n"), scope.statement.fresh("n")
        source = _numbered(rows, alias, source, rank, first, condition)
        source = _numbered(rows, alias, source, row_number, second, None, first)
        condition = and_(
            binary("<=", column(alias, first), raw(str(offset + limit))),
            binary(">", column(alias, second), raw(str(offset))),
        )
        limit, offset = None, 0
    shown: list[Expression] = [column(alias, item.name) for item in outputs]
    result = select_(shown or [exp.alias_(raw("1"), f"{alias}_0")], source, condition)
    if orders:
        result.set("order", exp.Order(expressions=orders))
    if limit is not None:
        result.set("limit", exp.Limit(expression=raw(str(limit))))
    if offset:
        result.set("offset", exp.Offset(expression=raw(str(offset))))
    return Selected(result, outputs)


def _numbered(  # noqa: PLR0917
    rows: Selected,
    alias: str,
    source: Expression,
    window: exp.Window,
    name: str,
    condition: Expression | None = None,
    carried: str | None = None,
) -> exp.Subquery:
    """The rows with a window function's value as one more column."""
    shown: list[Expression] = [column(alias, item.name) for item in rows.outputs]
    if carried is not None:
        shown.append(column(alias, carried))
    shown.append(exp.alias_(window, name, copy=False))
    return derived(select_(shown, source, condition), alias)


def _distinct(rows: Selected, alias: str, columns: list[Value]) -> exp.Subquery:
    if all(ordering.is_its_own_key(value) for value in columns):
        for value in columns:
            ordering.group_key(value)
        shown = [column(alias, item.name) for item in rows.outputs]
        return derived(select_(shown, rows.derived(alias), distinct=True), alias)
    keys, expressions = [], []
    for item, value in zip(rows.outputs, columns, strict=True):
        key = ordering.group_key(value)
        keys.append(key)
        if ordering.is_its_own_key(value):
            expressions.append(exp.alias_(key, item.name, copy=False))
        else:
            expressions.append(exp.alias_(ordering.representative(value), item.name, copy=False))
    result = select_(expressions, rows.derived(alias))
    result.set("group", exp.Group(expressions=keys))
    return derived(result, alias)


def _count(scope: Scope, node: Node | None, clause: str) -> int | None:
    """LIMIT's or OFFSET's number; None for none (NULL is none too)."""
    if node is None:
        return None
    value = Translator(scope).value(node)
    if not value.is_constant:
        raise unsupported(f"{clause} with an expression")
    if value.constant is None:
        return None
    assert isinstance(value.constant, int)
    if value.constant < 0:
        raise SluiceError("2201X" if clause == "OFFSET" else "2201W", f"{clause} must not be negative")
    return value.constant
