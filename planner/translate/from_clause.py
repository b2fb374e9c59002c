"""FROM: range table entries and joins as Spark relations.

A relation is a head and the joins that follow it. Every entry gets an alias that is unique in the statement, so a
column's name means the same wherever it is used, correlated sublinks included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from catalog.datatypes import BOOL, INT8, NUMERIC, element_type
from catalog.errors import unsupported
from planner.spark import numerics, relation_output
from planner.spark.builders import Expression, binary, call, case, column, integer, lambda_2, raw, struct
from planner.spark.constant_logic import filtered
from planner.spark.relation_output import Output, Selected, derived
from planner.spark.values import Value, stored
from planner.translate import query, row_marks, row_security, scan_predicates
from planner.translate.correlation import lateral
from planner.translate.correlation.source import Relation, Source, join, nested, without_outside
from planner.translate.expressions import Translator
from planner.translate.scope import RTE_CTE, RTE_FUNCTION, RTE_RELATION, RTE_SUBQUERY, RTE_VALUES, ScanBuilder, Scope
from planner.translate.series import SERIES, series
from planner.tree import datum, query_levels
from planner.tree.nodes import Node, malformed, walk

_INNER, _LEFT, _FULL, _RIGHT = range(4)  # JoinType of nodes.h
_SIDES: Final = {_INNER: None, _LEFT: "LEFT", _FULL: "FULL", _RIGHT: "LEFT"}  # a right join's sides change places


def from_clause(scope: Scope) -> Source:
    """Translate the level's FROM. Registers its entries' columns in `scope.ranges`."""
    source = scope.source = Source()
    if scope.domain is not None:
        source.items.append(Relation(scope.domain.relation(), []))
    source.foreseen = lambda: _foreseen(scope)
    for item in scope.query.jointree.fromlist or ():
        source.items.append(_item(scope, item, safe=True))
    source.foreseen = None
    if scope.query.jointree.quals is not None:
        scan_predicates.derive(scope, scope.query.jointree.quals)
    return source


def _foreseen(scope: Scope) -> list[Expression]:
    """Return the conditions of WHERE on entries that have been read, without subqueries."""
    return [
        Translator(scope).value(part).sql
        for part in query_levels.conjuncts(scope.query.jointree.quals)
        if not query_levels.has_sublink(part)
        and all(node.varlevelsup or node.varno in scope.ranges for node in walk(part) if node.type == "VAR")
    ]


def _item(scope: Scope, node: Node, safe: bool, whole: bool = True) -> Relation:
    """Translate an item. `safe`: a condition on the entry's columns above the joins only ever drops rows.

    `whole`: an entry's row that always exists may be joined as one that may be missing.
    """
    if node.type == "RANGETBLREF":
        return entry(scope, node.rtindex, safe, whole)
    if node.type == "JOINEXPR":
        return _join(scope, node, safe)
    if node.type == "FROMEXPR":
        raise malformed("a FROM inside a FROM")
    raise unsupported(f"{node.type} in FROM")


def _join(scope: Scope, node: Node, safe: bool) -> Relation:
    kind = node.jointype
    if kind not in _SIDES:
        raise unsupported("this join")
    assert scope.source is not None
    kept = safe and kind in (_INNER, _LEFT)
    left = _item(scope, node.larg, kept, kept)
    scope.source.items.append(left)  # for references of the right side
    whole = safe and (kind == _INNER or (kind == _LEFT and is_true(node.quals)))
    foreseen = scope.source.foreseen
    if not kept:
        scope.source.foreseen = None  # rows that WHERE drops may yet be joined to something
    right = _item(scope, node.rarg, safe and kind in (_INNER, _RIGHT), whole)
    scope.source.foreseen = foreseen
    scope.source.items.pop()
    parts = [] if is_true(node.quals) else query_levels.conjuncts(node.quals)
    if kind == _INNER and safe:
        # Subqueries are joined to the whole of FROM, and the values of outer rows stand at its head.
        # A right side that is joined on the left, because it has a row in any case, keeps its rows there.
        above = right.side is not None
        postponed = [part for part in parts if above or query_levels.has_sublink(part) or query_levels.is_outer(part)]
        scope.source.postponed += postponed
        parts = [part for part in parts if part not in postponed]
    conditions: list[Expression] = []
    if parts:
        source = scope.source
        domain = None if scope.domain is None else Relation(scope.domain.relation(), [])
        scope.source = pair = Source([left, right], is_pair=True, domain=domain)
        conditions += [Translator(scope).condition(part) for part in parts]
        left, right = pair.sides()
        scope.source = source
    if kind == _INNER and node.quals is not None:
        scan_predicates.derive(scope, node.quals)
    if kind == _RIGHT:
        left, right = right, left
    if kind == _FULL and (left.condition is not None or right.condition is not None):
        raise unsupported("a FULL JOIN of rows that depend on rows outside of it")
    if kind == _INNER and right.side is not None and right.joins:
        return _flattened(left, right)
    right, outside = without_outside(right)
    conditions += outside
    if right.condition is not None:
        conditions.insert(0, right.condition)
    return _joined(
        left, right, right.side or _SIDES[kind], filtered(conditions, conjunction=True) if conditions else None
    )


def _joined(left: Relation, right: Relation, side: str | None, condition: Expression | None) -> Relation:
    if right.head is None:
        # Its columns are computed where they are used.
        assert side is None or condition is None
        if condition is None:
            return left
        return Relation(_head(left), [*left.joins, join(_one_row(), None, condition)], left.side, left.condition)
    right_side = exp.Paren(this=nested(Relation(right.head, right.joins))) if right.joins else right.head
    return Relation(_head(left), [*left.joins, join(right_side, side, condition)], left.side, left.condition)


def _flattened(left: Relation, right: Relation) -> Relation:
    """Join a side whose head is joined on the left: what it is joined with keeps to the rows that this gives."""
    assert right.head is not None
    joins = [*left.joins, join(right.head, right.side, right.condition), *right.joins]
    return Relation(_head(left), joins, left.side, left.condition)


def _head(relation: Relation) -> Expression:
    """Return the relation's head; one row, if its columns are computed where they are used."""
    return _one_row() if relation.head is None else relation.head


def _one_row() -> Expression:
    return derived(relation_output.select([exp.alias_(raw("1"), "one")], None), "one_row")


def is_true(node: Node | None) -> bool:
    """Whether it is no condition, or the constant `true`."""
    return node is None or (node.type == "CONST" and not node.constisnull and datum.read(BOOL, node.constvalue) is True)


def entry(scope: Scope, index: int, safe: bool, whole: bool) -> Relation:
    """Translate one range table entry to a Spark relation."""
    node = scope.entry(index)
    if node.fields.get("tablesample") is not None:
        raise unsupported("TABLESAMPLE")
    if node.fields.get("securityQuals") and node.rtekind != RTE_RELATION:
        raise malformed("conditions of policies on what is no table")
    if node.rtekind == RTE_CTE:
        node = _correlated_common_table(scope, node)
    if node.rtekind == RTE_SUBQUERY and query_levels.is_correlated(node.subquery):
        return lateral.subquery(scope, index, node.subquery, whole)
    if node.rtekind == RTE_FUNCTION:
        return lateral.function(scope, index, node)
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
    return Relation(relation, [])


def _correlated_common_table(scope: Scope, node: Node) -> Node:
    """Return a WITH query that depends on a query around its own level, as a subquery in place of its name."""
    owner = scope.up(node.ctelevelsup)
    for common in owner.query.cteList or ():
        if common.ctename == node.ctename and not common.cterecursive and query_levels.is_correlated(common.ctequery):
            inner = query_levels.shifted(common.ctequery, int(node.ctelevelsup))
            return node.replaced(rtekind=RTE_SUBQUERY, subquery=inner, lateral=True)
    return node


def _relation(scope: Scope, index: int, node: Node) -> Expression:
    if node.fields.get("securityQuals"):
        visible = row_security.visible_rows(scope, index, node)
        scope.ranges[index] = scan_columns(scope.scan_ranges[index])
        return visible
    scan = scope.statement.scan(node.relid)
    scope.scan_ranges[index] = scope.row_scans[index] = scan
    scope.ranges[index] = scan_columns(scan)
    return scan_table(scan)


def scan_columns(scan: ScanBuilder) -> Callable[[int], Value]:
    """Return a function from attnum to the scan's column; its use adds the column to the scan."""

    def column_of(attnum: int) -> Value:
        try:
            found = scan.table.column(attnum)
        except KeyError:
            raise unsupported(f"column {attnum} of {scan.table.name}") from None
        scan.attnums.add(attnum)
        return stored(column(scan.alias, f"c{attnum}"), found.type_oid, found.typmod)

    return column_of


def scan_table(scan: ScanBuilder) -> exp.Table:
    """Return the scan as a relation, under its name and alias."""
    return exp.Table(
        this=exp.to_identifier(scan.name, quoted=True), alias=exp.TableAlias(this=exp.to_identifier(scan.alias))
    )


def offer(scope: Scope, index: int, columns: list[Value]) -> None:
    """Register the columns of an entry."""
    scope.ranges[index] = lambda attnum: columns[attnum - 1]
    if row_marks.is_updatable(scope):
        scope.place = columns[-1].sql  # behind the query's own columns


def _subquery(scope: Scope, index: int, node: Node) -> Expression:
    inner = query.select(scope.statement, node.subquery, scope)
    alias = scope.statement.fresh("r")
    offer(scope, index, inner.columns(alias))
    if node.fields.get("security_barrier"):
        return row_security.behind_barrier(scope, inner.query, alias)
    return inner.derived(alias)


def _common_table(scope: Scope, index: int, node: Node) -> Expression:
    owner = scope.up(node.ctelevelsup)
    table = owner.common_tables.get(str(node.ctename))
    if table is None:
        raise malformed(f"no WITH query named {node.ctename}")
    alias = scope.statement.fresh("r")
    offer(scope, index, table.columns(alias))
    return exp.Table(this=exp.to_identifier(table.name), alias=exp.TableAlias(this=exp.to_identifier(alias)))


def _values(scope: Scope, index: int, node: Node) -> Expression:
    translator = Translator(scope)
    if not node.coltypes:
        raise unsupported("VALUES without columns")
    rows = [translator.values(row) for row in node.values_lists]
    types = [
        (translator.base(type_oid), typmod) for type_oid, typmod in zip(node.coltypes, node.coltypmods, strict=True)
    ]
    if any(value.sql.find(exp.Column) is not None for row in rows for value in row):
        return _values_of_rows(scope, index, rows, types)
    inner = rows_of(scope, rows, types)
    alias = scope.statement.fresh("r")
    offer(scope, index, inner.columns(alias))
    return inner.derived(alias)


def _values_of_rows(scope: Scope, index: int, rows: list[list[Value]], types: list[tuple[int, int]]) -> Expression:
    """Translate VALUES that use the rows before them: a relation of numbers chooses their rows where they are used."""
    alias = scope.statement.fresh("r")
    numbers = _numbers(alias, len(rows))
    offered = []
    for (type_oid, typmod), values in zip(types, zip(*rows, strict=True), strict=True):
        unified = numerics.unified(values) if type_oid == NUMERIC else values
        described = _described(unified, type_oid, typmod, "")
        chosen = _chosen(alias, [numerics.packed(value) if described.varies else value.sql for value in unified])
        held = described.held
        if held is not None and described.varies:
            chosen, held = numerics.unpacked(chosen, held)
        offered.append(Value(chosen, type_oid, typmod, held))
    offer(scope, index, offered)
    return numbers


def _numbers(alias: str, count: int) -> exp.Values:
    return exp.Values(
        expressions=[exp.Tuple(expressions=[integer(number)]) for number in range(count)],
        alias=exp.TableAlias(this=exp.to_identifier(alias), columns=[exp.to_identifier("i")]),
    )


def _chosen(alias: str, choices: Sequence[Expression]) -> Expression:
    number = column(alias, "i")
    return case(*((binary("=", number, integer(place)), choice) for place, choice in enumerate(choices)))


def _described(values: Sequence[Value], type_oid: int, typmod: int, name: str) -> Output:
    typed = next((value for value in values if value.constant is not None), values[0])
    return relation_output.output(replace(typed, type_oid=type_oid, typmod=typmod), name, None)[0]


def rows_of(scope: Scope, rows: list[list[Value]], types: list[tuple[int, int]]) -> Selected:
    """Translate VALUES."""
    columns = list(zip(*rows, strict=True))
    for number, (type_oid, _) in enumerate(types):
        if type_oid == NUMERIC:
            columns[number] = tuple(numerics.unified(columns[number]))
    name = scope.statement.fresh("q")
    outputs: list[Output] = []
    tuples: list[list[Expression]] = [[] for _ in rows]
    for number, (values, (type_oid, typmod)) in enumerate(zip(columns, types, strict=True), 1):
        described = _described(values, type_oid, typmod, f"{name}_{number}")
        outputs.append(replace(described, label=f"column{number}"))
        for row, value in zip(tuples, values, strict=True):
            row.append(numerics.packed(value) if described.varies else value.sql)
    names = [item.name for item in outputs]
    if len(tuples) == 1:
        items = [exp.alias_(item, label, copy=False) for item, label in zip(tuples[0], names, strict=True)]
        return Selected(relation_output.select(items, None), tuple(outputs))
    if all(value.is_constant for row in rows for value in row):
        table = exp.Values(
            expressions=[exp.Tuple(expressions=row) for row in tuples],
            alias=exp.TableAlias(
                this=exp.to_identifier(f"{name}_v"), columns=[exp.to_identifier(label) for label in names]
            ),
        )
        return Selected(relation_output.select([column(f"{name}_v", label) for label in names], table), tuple(outputs))
    # Spark's VALUES takes only constants: here the rows' numbers, which choose the values.
    choices = (_chosen(f"{name}_v", column_of) for column_of in zip(*tuples, strict=True))
    items = [exp.alias_(item, label, copy=False) for item, label in zip(choices, names, strict=True)]
    return Selected(relation_output.select(items, _numbers(f"{name}_v", len(tuples))), tuple(outputs))


def set_returning(scope: Scope, function: Node, arguments: list[Value], numbered: bool = False) -> Selected:
    """Translate a set-returning function to a query of one column; with another one if its rows are `numbered`."""
    signature = scope.statement.context.builtins.signature(function.funcid)
    prefix = scope.statement.fresh("q")
    name = f"{prefix}_1"
    if signature in SERIES:
        items = series(signature, arguments, scope.statement.context.session)
        element = SERIES[signature]
    elif signature == "unnest(anyarray)":
        array = arguments[0]
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
        return Selected(relation_output.select([call("inline", pairs)], None), outputs)
    exploded = relation_output.select([exp.alias_(call("explode", items), name, copy=False)], None)
    return Selected(exploded, (Output(name, element, -1, None, False, None),))


_ENTRIES: Final[dict[int, Callable[[Scope, int, Node], Expression]]] = {
    RTE_RELATION: _relation,
    RTE_SUBQUERY: _subquery,
    RTE_CTE: _common_table,
    RTE_VALUES: _values,
}
