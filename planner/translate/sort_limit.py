"""DISTINCT, DISTINCT ON, ORDER BY and LIMIT around the rows of a target list.

In a level that depends on outer rows each of them works among the rows of the same keys. A subquery that cuts its rows
returns the same ones each time it is read: tied rows are ordered by their other columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from catalog.errors import SluiceError, unsupported
from planner.spark.builders import Expression, and_, binary, boolean, call, column, raw
from planner.spark.relation_output import Output, Selected, derived, select
from planner.spark.values import Value
from planner.translate import ordering, row_marks
from planner.translate.expressions import Translator
from planner.translate.scope import Scope
from planner.tree.nodes import Node

LIMIT_WITH_TIES: Final = 1


def finished(scope: Scope, rows: Selected) -> Selected:
    """Apply the query's DISTINCT, ORDER BY and LIMIT to the rows."""
    query = scope.query
    visible = [not target.resjunk for target in query.targetList or ()]
    visible += [True] * (len(rows.outputs) - len(visible))  # rows' places
    limit, offset = _bounds(scope)
    outputs = tuple(item for item, is_visible in zip(rows.outputs, visible, strict=True) if is_visible)
    plain = not (query.distinctClause or query.sortClause or limit is not None or offset)
    if plain and all(visible):
        return rows
    finishing = _Finishing(scope, rows)
    if query.distinctClause and query.hasDistinctOn:
        finishing.first_of_each()
    elif query.distinctClause:
        # Hidden columns (keys of groups and windows) do not tell rows apart; ORDER BY is over shown columns.
        columns = [item for item, is_visible in zip(finishing.columns, visible, strict=True) if is_visible]
        finishing.rows = Selected(rows.query, outputs, rows.keys)
        finishing.distinct(columns)
    if query.limitOption == LIMIT_WITH_TIES and limit is not None:
        finishing.with_ties(limit, offset)
        limit, offset = None, 0
    elif rows.keys and (limit is not None or offset):
        finishing.cut(limit, offset)
        limit, offset = None, 0
    result = finishing.selected(outputs)
    if finishing.orders and not rows.keys:
        is_cut_again = scope.parent is not None and (limit is not None or offset)
        items = finishing.total_order(result.expressions) if is_cut_again else finishing.orders
        result.set("order", exp.Order(expressions=items))
    if limit is not None:
        result.set("limit", exp.Limit(expression=raw(str(limit))))
    if offset:
        result.set("offset", exp.Offset(expression=raw(str(offset))))
    return Selected(result, outputs, rows.keys)


def _bounds(scope: Scope) -> tuple[int | None, int]:
    """Return LIMIT and OFFSET, as far as the query applies them itself."""
    query = scope.query
    limit = _count(scope, query.limitCount, "LIMIT")
    offset = _count(scope, query.limitOffset, "OFFSET") or 0
    if not query.rowMarks:
        return limit, offset
    if query.limitOption == LIMIT_WITH_TIES and limit is not None:
        raise unsupported("FOR UPDATE or FOR SHARE with WITH TIES")
    if row_marks.gives_places(scope):
        scope.statement.cut = (limit, offset)
    return None, 0  # the code that locks the rows counts them, or has counted them


@dataclass(slots=True, init=False)
class _Finishing:
    """The rows of a target list under an alias, while clauses are put around them."""

    scope: Scope
    rows: Selected
    alias: str
    columns: list[Value]
    orders: list[exp.Ordered]
    source: Expression
    condition: Expression | None

    def __init__(self, scope: Scope, rows: Selected) -> None:
        query = scope.query
        self.scope = scope
        self.rows = rows
        self.alias = scope.statement.fresh("r")
        self.columns = rows.columns(self.alias)
        self.orders = [
            ordering.ordered(self._referred(clause), clause, scope.statement.types)
            for clause in query.sortClause or ()
        ]  # fmt: skip
        self.source = rows.derived(self.alias)
        self.condition = None

    def _referred(self, clause: Node) -> Value:
        return self.columns[ordering.by_reference(self.scope.query.targetList, clause.tleSortGroupRef)]

    def first_of_each(self) -> None:
        """Apply DISTINCT ON."""
        keys = [ordering.group_key(self._referred(clause)) for clause in self.scope.query.distinctClause]
        number = self._numbered(call("row_number"), self._all_ordered(), keys)
        self.condition = binary("=", number, raw("1"))

    def distinct(self, columns: list[Value]) -> None:
        """Apply DISTINCT, over these columns of the rows."""
        rows, alias = self.rows, self.alias
        keys: list[Expression] = [*rows.key_columns(alias), *map(ordering.group_key, columns)]
        if all(ordering.is_its_own_key(value) for value in columns):
            shown = [column(alias, item.name) for item in (*rows.outputs, *rows.keys)]
            self.source = derived(select(shown, rows.derived(alias), distinct=True), alias)
            return
        expressions: list[Expression] = rows.key_columns(alias)
        for item, value in zip(rows.outputs, columns, strict=True):
            own = ordering.is_its_own_key(value)
            shown_as = ordering.group_key(value) if own else ordering.representative(value)
            expressions.append(exp.alias_(shown_as, item.name, copy=False))
        result = select(expressions, rows.derived(alias))
        result.set("group", exp.Group(expressions=keys))
        self.source = derived(result, alias)

    def with_ties(self, limit: int, offset: int) -> None:
        """Apply FETCH FIRST … WITH TIES. No row ties with none."""
        if not limit:
            self.condition = boolean(False)
            return
        rank = self._numbered(call("rank"), self.orders)
        number = self._numbered(call("row_number"), self._all_ordered(), carried=rank)
        self.condition = and_(
            binary("<=", rank, raw(str(offset + limit))), binary(">", number, raw(str(offset)))
        )  # fmt: skip

    def cut(self, limit: int | None, offset: int) -> None:
        """Apply LIMIT and OFFSET for each outer row: by a row's number among those of the same keys."""
        number = self._numbered(call("row_number"), self._all_ordered())
        bounds: list[Expression] = []
        if offset:
            bounds.append(binary(">", number, raw(str(offset))))
        if limit is not None:
            bounds.append(binary("<=", number, raw(str(offset + limit))))
        self.condition = and_(*bounds)

    def _all_ordered(self) -> list[Expression]:
        return self.total_order([column(self.alias, item.name) for item in self.rows.outputs]) or [raw("1")]

    def total_order(self, columns: list[Expression]) -> list[Expression]:
        """Return ORDER BY followed by the other columns: rows that are equal in all of them are interchangeable."""
        ordered = [item.this for item in self.orders]
        others = [item.copy() for item in columns if isinstance(item, exp.Column) and item not in ordered]
        return [*self.orders, *(exp.Ordered(this=item, desc=False, nulls_first=False) for item in others)]

    def _numbered(
        self,
        function: Expression,
        orders: list[exp.Ordered] | list[Expression],
        keys: list[Expression] | None = None,
        carried: exp.Column | None = None,
    ) -> exp.Column:
        """Add a column: a window function's value among the rows of the same keys."""
        rows, alias = self.rows, self.alias
        partition = [*rows.key_columns(alias), *(keys or ())]
        window = exp.Window(this=function, partition_by=partition, order=exp.Order(expressions=list(orders)))
        name = self.scope.statement.fresh("n")
        shown: list[Expression] = [column(alias, item.name) for item in (*rows.outputs, *rows.keys)]
        if carried is not None:
            shown.append(carried)
        shown.append(exp.alias_(window, name, copy=False))
        self.source = derived(select(shown, self.source, self.condition), alias)
        self.condition = None
        return column(alias, name)

    def selected(self, outputs: tuple[Output, ...]) -> exp.Select:
        """Return the columns that are shown."""
        shown: list[Expression] = [column(self.alias, item.name) for item in (*outputs, *self.rows.keys)]
        return select(shown or [exp.alias_(raw("1"), f"{self.alias}_0")], self.source, self.condition)


def _count(scope: Scope, node: Node | None, clause: str) -> int | None:
    """Return LIMIT's or OFFSET's number; None for none (NULL is none too)."""
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
