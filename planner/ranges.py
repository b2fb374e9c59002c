"""FROM: range table entries and joins as Spark relations.

A relation is a head and the joins that follow it. Every entry gets an alias that is unique in the statement, so a
column's name means the same wherever it is used, correlated sublinks included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from catalog.datatypes import INT8, NUMERIC, element_type
from catalog.errors import unsupported
from planner import numerics, prune, query, row_marks, selected
from planner.expressions import Translator
from planner.nodes import Node, malformed
from planner.scope import (
    RTE_CTE,
    RTE_FUNCTION,
    RTE_RELATION,
    RTE_SUBQUERY,
    RTE_VALUES,
    ScanBuilder,
    Scope,
)
from planner.selected import Output, Selected
from planner.series import SERIES, series
from planner.spark import Expression, boolean, call, column, lambda_2, raw, struct
from planner.values import Value, stored

_INNER, _LEFT, _FULL, _RIGHT = range(4)  # JoinType of nodes.h
_SIDES: Final = {_INNER: None, _LEFT: "LEFT", _FULL: "FULL", _RIGHT: "RIGHT"}


@dataclass(slots=True)
class Relation:
    """FROM, as a head and its joins; `head` is None where nothing is read."""

    head: Expression | None
    joins: list[exp.Join]


def from_clause(scope: Scope) -> Relation:
    """All of the level's FROM. Registers what its entries' columns are in `scope.ranges`."""
    result = Relation(None, [])
    for item in scope.query.jointree.fromlist or ():
        relation = _item(scope, item, safe=True)
        if result.head is None:
            result = relation
        elif relation.head is not None:
            result.joins.append(exp.Join(this=relation.head))
            result.joins += relation.joins
    if scope.query.jointree.quals is not None:
        prune.derive(scope, scope.query.jointree.quals)
    return result


def _item(scope: Scope, node: Node, safe: bool) -> Relation:
    """`safe`: whether a condition on the entry's columns above the joins only ever drops rows."""
    if node.type == "RANGETBLREF":
        return Relation(entry(scope, node.rtindex, safe), [])
    if node.type == "JOINEXPR":
        return _join(scope, node, safe)
    if node.type == "FROMEXPR":
        raise malformed("a FROM inside a FROM")
    raise unsupported(f"{node.type} in FROM")


def _join(scope: Scope, node: Node, safe: bool) -> Relation:
    kind = node.jointype
    if kind not in _SIDES:
        raise unsupported("this join")
    left = _item(scope, node.larg, safe and kind in (_INNER, _LEFT))
    right = _item(scope, node.rarg, safe and kind in (_INNER, _RIGHT))
    assert left.head is not None
    assert right.head is not None
    right_side = right.head
    if right.joins:
        right_side = exp.Paren(this=_with_joins(right))
    condition = None
    if node.quals is not None:
        condition = Translator(scope).filter(node.quals)
        if kind == _INNER:
            prune.derive(scope, node.quals)
    if condition is None and kind != _INNER:
        condition = boolean(True)
    join = exp.Join(this=right_side, kind="CROSS" if condition is None else None, side=_SIDES[kind], on=condition)
    return Relation(left.head, [*left.joins, join])


def _with_joins(relation: Relation) -> Expression:
    head = relation.head
    assert head is not None
    if isinstance(head, (exp.Table, exp.Subquery)):
        head.set("joins", relation.joins)
        return head
    raise unsupported("LATERAL at the head of a nested join")


def entry(scope: Scope, index: int, safe: bool) -> Expression:
    """One range table entry as a Spark relation."""
    node = scope.entry(index)
    if node.fields.get("tablesample") is not None:
        raise unsupported("TABLESAMPLE")
    if node.fields.get("securityQuals"):
        raise unsupported("row security")
    make = _ENTRIES.get(node.rtekind)
    if make is None:
        raise unsupported("this kind of FROM item")
    relation = make(scope, index, node)
    if node.rtekind == RTE_RELATION:
        scan = scope.scan_ranges[index]
        if row_marks.locates(scope, index):
            scope.located[index] = scan
            scan.locked = True
            scope.place = row_marks.packed_place(scan)
        scan.needs_position = index == scope.query.resultRelation or index in scope.located
        if not safe:
            del scope.scan_ranges[index]
    return relation


def _relation(scope: Scope, index: int, node: Node) -> Expression:
    scan = scope.statement.scan(node.relid)
    scope.scan_ranges[index] = scope.row_scans[index] = scan
    scope.ranges[index] = scan_columns(scan)
    return scan_table(scan)


def scan_columns(scan: ScanBuilder) -> Callable[[int], Value]:
    """What the columns of a scan are, by attnum; asking for one makes it part of the scan."""

    def column_of(attnum: int) -> Value:
        try:
            found = scan.table.column(attnum)
        except KeyError:
            raise unsupported(f"column {attnum} of {scan.table.name}") from None
        scan.attnums.add(attnum)
        return stored(column(scan.alias, f"c{attnum}"), found.type_oid, found.typmod)

    return column_of


def scan_table(scan: ScanBuilder) -> exp.Table:
    """The scan as a relation, under its name and alias."""
    return exp.Table(
        this=exp.to_identifier(scan.name, quoted=True), alias=exp.TableAlias(this=exp.to_identifier(scan.alias))
    )


def _offer(scope: Scope, index: int, columns: list[Value]) -> None:
    scope.ranges[index] = lambda attnum: columns[attnum - 1]
    if row_marks.is_updatable(scope):
        scope.place = columns[-1].sql  # behind the query's own columns


def _subquery(scope: Scope, index: int, node: Node) -> Expression:
    inner = query.select(scope.statement, node.subquery, scope)
    alias = scope.statement.fresh("r")
    _offer(scope, index, inner.columns(alias))
    return _lateral(inner.derived(alias), node)


def _lateral(derived: exp.Subquery, node: Node) -> Expression:
    if not node.lateral:
        return derived
    alias = derived.args["alias"]
    derived.set("alias", None)
    return exp.Lateral(this=derived, alias=alias)


def _common_table(scope: Scope, index: int, node: Node) -> Expression:
    owner = scope.up(node.ctelevelsup)
    table = owner.common_tables.get(str(node.ctename))
    if table is None:
        raise malformed(f"no WITH query named {node.ctename}")
    alias = scope.statement.fresh("r")
    _offer(scope, index, table.columns(alias))
    return exp.Table(this=exp.to_identifier(table.name), alias=exp.TableAlias(this=exp.to_identifier(alias)))


def _values(scope: Scope, index: int, node: Node) -> Expression:
    translator = Translator(scope)
    if not node.coltypes:
        raise unsupported("VALUES without columns")
    rows = [translator.values(row) for row in node.values_lists]
    types = [
        (translator.base(type_oid), typmod) for type_oid, typmod in zip(node.coltypes, node.coltypmods, strict=True)
    ]
    inner = rows_of(scope, rows, types)
    alias = scope.statement.fresh("r")
    _offer(scope, index, inner.columns(alias))
    return _lateral(inner.derived(alias), node)


def rows_of(scope: Scope, rows: list[list[Value]], types: list[tuple[int, int]]) -> Selected:
    """VALUES."""
    columns = list(zip(*rows, strict=True))
    for number, (type_oid, _) in enumerate(types):
        if type_oid == NUMERIC:
            columns[number] = tuple(numerics.unified(columns[number]))
    name = scope.statement.fresh("q")
    outputs: list[Output] = []
    tuples: list[list[Expression]] = [[] for _ in rows]
    for number, (values, (type_oid, typmod)) in enumerate(zip(columns, types, strict=True), 1):
        typed = next((value for value in values if value.constant is not None), values[0])
        described, _ = selected.output(
            replace(typed, type_oid=type_oid, typmod=typmod), f"{name}_{number}", f"column{number}"
        )
        outputs.append(described)
        for row, value in zip(tuples, values, strict=True):
            row.append(numerics.packed(value) if described.varies else value.sql)
    names = [item.name for item in outputs]
    if len(tuples) == 1:
        items = [exp.alias_(item, label, copy=False) for item, label in zip(tuples[0], names, strict=True)]
        return Selected(selected.select(items, None), tuple(outputs))
    if all(value.is_constant for row in rows for value in row):
        table = exp.Values(
            expressions=[exp.Tuple(expressions=row) for row in tuples],
            alias=exp.TableAlias(
                this=exp.to_identifier(f"{name}_v"), columns=[exp.to_identifier(label) for label in names]
            ),
        )
        return Selected(selected.select([column(f"{name}_v", label) for label in names], table), tuple(outputs))
    # Spark's VALUES takes only what it can compute while planning; an array of structs takes any expression.
    structs = [struct(**dict(zip(names, row, strict=True))) for row in tuples]
    return Selected(selected.select([call("inline", call("array", *structs))], None), tuple(outputs))


def _function(scope: Scope, index: int, node: Node) -> Expression:
    if len(node.functions) != 1:
        raise unsupported("ROWS FROM")
    function = node.functions[0].funcexpr
    if function.type != "FUNCEXPR":
        raise unsupported("this function in FROM")
    alias = scope.statement.fresh("r")
    inner = set_returning(scope, Translator(scope), function, bool(node.funcordinality))
    _offer(scope, index, inner.columns(alias))
    return _lateral(inner.derived(alias), node)


def set_returning(scope: Scope, translator: Translator, function: Node, numbered: bool = False) -> Selected:
    """A set-returning function as a query of one column; with one more where its rows are `numbered`."""
    signature = scope.statement.context.builtins.signature(function.funcid)
    prefix = scope.statement.fresh("q")
    name = f"{prefix}_1"
    if signature in SERIES:
        items = series(signature, translator.values(function.args), scope.statement.context.session)
        element = SERIES[signature]
    elif signature == "unnest(anyarray)":
        array = translator.value(function.args[0])
        found = element_type(array.type_oid)
        if found is None or found.oid == NUMERIC:
            raise unsupported("unnest of this array")
        items, element = array.sql, found.oid
    else:
        raise unsupported(f"the function {signature} in FROM")
    if numbered:
        place = f"{prefix}_2"
        pairs = call("transform", items, lambda_2("e", "i", struct(**{name: raw("e"), place: raw("i + 1L")})))
        outputs = (Output(name, element, -1, None, False, None), Output(place, INT8, -1, None, False, None))
        return Selected(selected.select([call("inline", pairs)], None), outputs)
    exploded = selected.select([exp.alias_(call("explode", items), name, copy=False)], None)
    return Selected(exploded, (Output(name, element, -1, None, False, None),))


_ENTRIES: Final[dict[int, Callable[[Scope, int, Node], Expression]]] = {
    RTE_RELATION: _relation,
    RTE_SUBQUERY: _subquery,
    RTE_CTE: _common_table,
    RTE_VALUES: _values,
    RTE_FUNCTION: _function,
}
