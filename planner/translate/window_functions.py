"""Window functions, and aggregates over windows, with their frames."""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from catalog.errors import unsupported
from planner.functions import registry
from planner.functions.call import Call
from planner.functions.windows import FRAMELESS
from planner.spark.builders import Expression, case, over, raw
from planner.spark.values import Value
from planner.translate import ordering
from planner.translate.expressions import Translator
from planner.tree.nodes import Node, malformed

# frameOptions of parsenodes.h
_ROWS: Final = 0x4
_GROUPS: Final = 0x8
_START_UNBOUNDED: Final = 0x20
_END_UNBOUNDED: Final = 0x100
_START_CURRENT: Final = 0x200
_END_CURRENT: Final = 0x400
_START_PRECEDING: Final = 0x800
_END_PRECEDING: Final = 0x1000
_START_FOLLOWING: Final = 0x2000
_END_FOLLOWING: Final = 0x4000
_EXCLUSIONS: Final = 0x8000 | 0x10000 | 0x20000


def window_function(translator: Translator, node: Node) -> Value:
    """Translate a WINDOWFUNC node."""
    context = translator.context
    signature = context.builtins.signature(node.winfnoid)
    row = (registry.AGGREGATES if node.winagg else registry.WINDOW_FUNCTIONS).get(signature)
    if row is None:
        raise unsupported(f"the window function {signature}")
    translator.check_collation(node.inputcollid)
    if node.fields.get("ignore_nulls"):
        raise unsupported("IGNORE NULLS")
    arguments = tuple(translator.values(node.args))
    parts = WindowedAggregation(translator, node, signature)
    given = Call(signature, arguments, translator.base(node.wintype), context.session, parts)
    return translator.statement.types.built(row, given)


class WindowedAggregation:
    """The elementary aggregates of one call over a window."""

    distinct = False
    ordered = False
    descending = False

    def __init__(self, translator: Translator, node: Node, signature: str) -> None:
        self._filter = None if node.aggfilter is None else translator.value(node.aggfilter).sql
        clauses = [item for item in translator.scope.query.windowClause if item.winref == node.winref]
        if len(clauses) != 1:
            raise malformed("a window function without its window")
        self._clause = clauses[0]
        self._signature = signature
        self._window = _specification(translator, self._clause, signature)

    def __call__(self, function: str, *arguments: Expression) -> Expression:
        given = list(arguments)
        if self._filter is not None:
            # Not as FILTER: if that is never true, Spark makes a NULL of the aggregate, which then has no window. All
            # these aggregates leave NULLs out.
            counted = raw("1") if isinstance(given[0], exp.Star) else given[0]
            given[0] = case((self._filter, counted))
        return over(exp.Anonymous(this=function, expressions=given), self._window)

    def sorted_list(self, element: Expression) -> Expression:  # noqa: ARG002
        raise unsupported(f"{self._signature} over a window")


def _specification(translator: Translator, clause: Node, signature: str) -> exp.Window:
    query = translator.scope.query
    values = {}

    def target(reference: int) -> Value:
        if reference not in values:
            index = ordering.by_reference(query.targetList, reference)
            values[reference] = translator.value(query.targetList[index].expr)
        return values[reference]

    partition = translator.scope.key_columns()
    partition += [ordering.group_key(target(item.tleSortGroupRef)) for item in clause.partitionClause or ()]
    orders: list[Expression] = [
        ordering.ordered(target(item.tleSortGroupRef), item, translator.statement.types)
        for item in clause.orderClause or ()
    ]
    arguments: dict[str, Any] = {}
    if partition:
        arguments["partition_by"] = partition
    if signature in FRAMELESS:
        # Spark wants an order; among peers PostgreSQL's is as arbitrary as Spark's.
        orders = orders or [exp.Ordered(this=exp.Null(), desc=False, nulls_first=True)]
    else:
        arguments["spec"] = _frame(translator, clause, bool(orders))
        if not orders and arguments["spec"].args["kind"] == "ROWS" and _is_partial(arguments["spec"]):
            orders = [exp.Ordered(this=exp.Null(), desc=False, nulls_first=True)]
    if orders:
        arguments["order"] = exp.Order(expressions=orders)
    return exp.Window(this=exp.Null(), **arguments)


def _is_partial(frame: exp.WindowSpec) -> bool:
    return not (frame.args["start"] == frame.args["end"] == "UNBOUNDED")


def _frame(translator: Translator, clause: Node, is_ordered: bool) -> exp.WindowSpec:
    options = clause.frameOptions
    if options & _GROUPS:
        raise unsupported("a window frame in GROUPS mode")
    if options & _EXCLUSIONS:
        raise unsupported("EXCLUDE in a window frame")
    rows = bool(options & _ROWS)
    if not rows:
        if options & (_START_PRECEDING | _END_PRECEDING | _START_FOLLOWING | _END_FOLLOWING):
            raise unsupported("a window frame in RANGE mode with an offset")
        if not is_ordered:  # all rows are peers of each other
            return exp.WindowSpec(
                kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="UNBOUNDED", end_side="FOLLOWING"
            )
    start, start_side = _bound(
        translator, options, clause.startOffset, (_START_UNBOUNDED, "PRECEDING"), _START_CURRENT, _START_PRECEDING,
        _START_FOLLOWING,
    )  # fmt: skip
    end, end_side = _bound(
        translator, options, clause.endOffset, (_END_UNBOUNDED, "FOLLOWING"), _END_CURRENT, _END_PRECEDING,
        _END_FOLLOWING,
    )  # fmt: skip
    return exp.WindowSpec(
        kind="ROWS" if rows else "RANGE", start=start, start_side=start_side, end=end, end_side=end_side
    )


def _bound(  # noqa: PLR0917
    translator: Translator,
    options: int,
    offset: Node | None,
    unbounded: tuple[int, str],
    current: int,
    preceding: int,
    following: int,
) -> tuple[str, str | None]:
    if options & unbounded[0]:
        return "UNBOUNDED", unbounded[1]
    if options & current:
        return "CURRENT ROW", None
    if offset is not None and options & (preceding | following):
        value = translator.value(offset)
        if not isinstance(value.constant, int) or value.constant < 0:
            raise unsupported("a window frame with an offset that is not a constant")
        return str(value.constant), "PRECEDING" if options & preceding else "FOLLOWING"
    raise unsupported("this window frame")
