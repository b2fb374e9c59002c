"""`plan_insert`, `plan_update`, `plan_delete`: from PostgreSQL's analysed change to the Spark query of its rows.

PostgreSQL's rewriter has put defaults and assignment casts into the target list. It leaves generated columns to its
executor, so they are computed here (`Context.generated`). See `planner.spark.plan` for the columns of the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from sqlglot import exp

from catalog.datatypes import CARRIED, NUMERIC, RECORD, TEXT
from catalog.errors import unsupported
from catalog.model import Column, Table
from planner.functions import volatile
from planner.plans.select import presented, rendered, single_query
from planner.spark import numerics
from planner.spark.builders import (
    Expression,
    and_,
    call,
    cast,
    column,
    field,
    integer,
    let,
    string,
    struct,
    variable,
)
from planner.spark.plan import (
    Context,
    DeletePlan,
    InsertPlan,
    OutputColumn,
    ReturningPlan,
    SequenceColumn,
    UpdatePlan,
)
from planner.spark.relation_output import Selected, derived, select
from planner.spark.values import Value, null_value, stored
from planner.translate import from_clause, with_queries
from planner.translate.correlation.domain import INDEPENDENT
from planner.translate.correlation.source import Relation, Source
from planner.translate.domains import into_domain
from planner.translate.expressions import Translator
from planner.translate.query import computed, read_rows
from planner.translate.row_security import violated, violations
from planner.translate.scope import RETURNING_NEW, RETURNING_OLD, ScanBuilder, Scope, Statement
from planner.tree import datum, nodes
from planner.tree.nodes import Node, malformed, text, walk
from planner.tree.references import common_names

# Makes a struct of aliased expressions.
_Packing = Callable[[list[Expression]], Expression]
CHANGED, _INSERT, DELETED = 2, 3, 4  # CmdType of nodes.h
_REGCLASS: Final = 2205
RETURNED_ROWS: Final = "rows"
CURRENT_OF: Final = "CURRENTOFEXPR"


def plan_insert(tree: Any, context: Context) -> InsertPlan:
    """Return the plan of an INSERT, of VALUES or of a query. ON CONFLICT is refused."""
    node = _change(tree, _INSERT)
    if node.onConflict is not None:
        raise unsupported("ON CONFLICT")
    statement = Statement(context)
    scope = Scope(statement, node, None)
    table = _table(scope)
    if not table.columns:
        raise unsupported("a row without columns")
    common = with_queries.define(scope)
    from_clause.from_clause(scope)
    translator = Translator(scope)
    sequences: list[SequenceColumn] = []
    values: dict[int, Value] = {}
    for target in node.targetList or ():
        sequence = _sequence(target.expr, context)
        if sequence is None:
            values[target.resno] = in_column(translator.value(target.expr), table.column(target.resno))
        else:
            sequences.append(SequenceColumn(target.resno, sequence))
    for item in table.columns:
        if item.attnum not in values:
            missing = null_value(item.type_oid, item.typmod)
            if item.domain is not None:
                missing = into_domain(translator, missing, item.domain.oid)
            values[item.attnum] = in_column(missing, item)
    numbered = {item.attnum for item in sequences}
    changing = _changing_values(scope, table, values)
    _generate(statement, table, values, numbered)
    errors = violations(node)
    if errors and numbered:
        raise unsupported("row-level security of rows with a sequence's values in INSERT … SELECT from the lake")
    scope.ranges[node.resultRelation] = lambda attnum: values[attnum]
    shown: list[Expression] = [
        exp.alias_(values[item.attnum].sql, f"c{item.attnum}", copy=False) for item in table.columns
    ]
    shown += violated(scope)
    query = computed(scope, shown) if changing is None else _unpacked(scope, [], shown, changing(shown))
    attached = with_queries.attached(Selected(query, ()), common).query
    outputs = tuple(OutputColumn(item.name, item.type_oid, item.typmod) for item in table.columns)
    return InsertPlan(
        table.oid,
        statement.spark_query(rendered(attached), outputs),
        tuple(sequences),
        _inserted(node, table, context),
        errors,
    )


def _inserted(node: Node, table: Table, context: Context) -> ReturningPlan | None:
    if not node.returningList:
        return None
    if common_names(node.returningList):
        raise unsupported("a WITH query in RETURNING of INSERT")  # it would be computed a second time
    statement = Statement(context)
    scope = Scope(statement, node, None)
    scan = ScanBuilder(RETURNED_ROWS, statement.fresh("r"), table)
    statement.scans.append(scan)
    scope.ranges[node.resultRelation] = from_clause.scan_columns(scan)
    scope.absent_row = RETURNING_OLD
    scope.source = Source([Relation(from_clause.scan_table(scan), [])])
    shown, outputs = _returning(scope, node.returningList)
    query = computed(scope, shown)
    return ReturningPlan(statement.spark_query(rendered(query), outputs))


def plan_update(tree: Any, context: Context, anew: Collection[int] = ()) -> UpdatePlan:
    """Return the plan of an UPDATE, with FROM or without.

    Generated columns are computed if they depend on what is set, as by ExecInitGenerated in PostgreSQL's
    nodeModifyTable.c; those of `anew` (attnums) in any case.
    """
    node = _change(tree, CHANGED)
    statement = Statement(context)
    scope = Scope(statement, node, None)
    table = _table(scope)
    common = with_queries.define(scope)
    scan = _changed_rows(scope)
    translator = Translator(scope)
    old = scope.ranges[node.resultRelation]
    values = {item.attnum: old(item.attnum) for item in table.columns}
    assigned = set()
    for target in node.targetList or ():
        if target.resjunk:
            raise unsupported("SET (…) = (SELECT …)")
        item = table.column(target.resno)
        values[item.attnum] = in_column(translator.value(target.expr), item)
        assigned.add(item.attnum)
    changing = _changing_values(scope, table, values)
    assigned |= _generate(statement, table, values, set(), lambda attnum, used: attnum in anew or bool(used & assigned))
    scope.old_ranges[node.resultRelation] = old
    del scope.row_scans[node.resultRelation]  # the place of the new rows is not known yet
    scope.ranges[node.resultRelation] = lambda attnum: values[attnum]
    errors, checked = violations(node), violated(scope)
    returned, outputs = _returning(scope, node.returningList)
    shown = [exp.alias_(values[item.attnum].sql, f"c{item.attnum}", copy=False) for item in table.columns]
    may_repeat = len(node.jointree.fromlist) > 1
    query = _once_each(scope, scan, [*shown, *checked, *returned], may_repeat, changing)
    attached = with_queries.attached(Selected(query, ()), common).query
    spark = statement.spark_query(rendered(attached), outputs)
    return UpdatePlan(table.oid, spark, scan.name, tuple(sorted(assigned)), errors)


def plan_delete(tree: Any, context: Context) -> DeletePlan:
    """Return the plan of a DELETE, with USING or without."""
    node = _change(tree, DELETED)
    statement = Statement(context)
    scope = Scope(statement, node, None)
    table = _table(scope)
    common = with_queries.define(scope)
    scan = _changed_rows(scope)
    scope.old_ranges[node.resultRelation] = scope.ranges[node.resultRelation]
    scope.absent_row = RETURNING_NEW
    if node.withCheckOptions:
        raise malformed("a check of rows that are deleted")
    returned, outputs = _returning(scope, node.returningList)
    query = _once_each(scope, scan, returned, len(node.jointree.fromlist) > 1)
    attached = with_queries.attached(Selected(query, ()), common).query
    spark = statement.spark_query(rendered(attached), outputs)
    return DeletePlan(table.oid, spark, scan.name)


def _change(tree: Any, command: int) -> Node:
    node = single_query(tree)
    if node.commandType != command:
        raise malformed("another kind of statement")
    return node


def _table(scope: Scope) -> Table:
    entry = scope.entry(scope.query.resultRelation)
    table = scope.statement.context.tables.get(entry.relid)
    if table is None:
        raise unsupported("changing a relation outside the lake from lake tables")
    return table


def _changed_rows(scope: Scope) -> ScanBuilder:
    """Read FROM and WHERE; return the scan of the target."""
    quals = scope.query.jointree.quals
    if quals is None or quals.type != CURRENT_OF:
        read_rows(scope, INDEPENDENT)
    else:
        source = from_clause.from_clause(scope)
        for part in source.postponed:
            source.keep(Translator(scope).filter(part))
        source.keep(_is_current(scope))
    return _target(scope)


def _target(scope: Scope) -> ScanBuilder:
    targets = [scan for scan in scope.statement.scans if scan.needs_position and not scan.locked]
    if len(targets) != 1:
        raise malformed("a change without its target in FROM")
    return targets[0]


def _is_current(scope: Scope) -> Expression:
    """Return the condition that the row is the cursor's current one."""
    place = scope.statement.context.current
    if place is None:
        raise unsupported("WHERE CURRENT OF in this place")
    target = _target(scope)
    return and_(
        exp.EQ(this=column(target.alias, "_file"), expression=string(place[0])),
        exp.EQ(this=column(target.alias, "_position"), expression=integer(place[1])),
    )


def current_of(tree: Any) -> str | None:
    """Return the cursor that an UPDATE or DELETE names in WHERE CURRENT OF."""
    quals = single_query(tree).jointree.quals
    if quals is None or quals.type != CURRENT_OF:
        return None
    if text(quals.cursor_name) is None:
        raise unsupported("WHERE CURRENT OF a parameter")
    return text(quals.cursor_name)


def _returning(scope: Scope, targets: Sequence[Node] | None) -> tuple[list[Expression], tuple[OutputColumn, ...]]:
    translator = Translator(scope)
    shown: list[Expression] = []
    outputs: list[OutputColumn] = []
    for number, target in enumerate(targets or (), 1):
        value = translator.value(target.expr)
        shown.append(exp.alias_(presented(value), f"r{number}", copy=False))
        outputs.append(OutputColumn(text(target.resname) or "", value.type_oid, value.typmod))
    return shown, tuple(outputs)


def _once_each(
    scope: Scope, scan: ScanBuilder, shown: list[Expression], may_repeat: bool, changing: _Packing | None = None
) -> exp.Select:
    """Return one row for each target row: if a join matches it several times, PostgreSQL takes any one of them."""
    place: list[Expression] = [column(scan.alias, "_file"), column(scan.alias, "_position")]
    if not may_repeat:
        return (
            computed(scope, [*place, *shown]) if changing is None else _unpacked(scope, place, shown, changing(shown))
        )
    if changing is not None:
        raise unsupported("UPDATE … FROM with a value that is different each time")
    packed = struct(**{item.alias: item.this for item in shown}, _=exp.Boolean(this=True))
    return _unpacked(scope, place, shown, call("any_value", packed), grouped=True)


def _unpacked(
    scope: Scope, place: list[Expression], shown: list[Expression], packed: Expression, *, grouped: bool = False
) -> exp.Select:
    """Return the place of each row, or of each group of rows with the same, and the fields of a struct."""
    inner = computed(scope, [*place, exp.alias_(packed, "one", copy=False)])
    if grouped:
        inner.set("group", exp.Group(expressions=[item.copy() for item in place]))
    alias = scope.statement.fresh("r")
    fields = [exp.alias_(field(column(alias, "one"), item.alias), item.alias, copy=False) for item in shown]
    return select([*(column(alias, item.name) for item in place), *fields], derived(inner, alias))


def _changing_values(scope: Scope, table: Table, values: dict[int, Value]) -> _Packing | None:
    """Let new values that are different each time (random()) be evaluated once: generated columns, checks and RETURNING
    use the value that is stored.

    They become fields of a variable. The result makes a struct of expressions that use it; None if there are none.
    """
    builtins = scope.statement.context.builtins
    targets = {target.resno: target.expr for target in scope.query.targetList or () if not target.resjunk}
    changing = sorted(attnum for attnum, expression in targets.items() if volatile.calls((expression,), builtins))
    changing = [attnum for attnum in changing if attnum in values]
    if not changing:
        return None
    name = scope.statement.fresh("v")
    once = struct(**{f"c{attnum}": values[attnum].sql for attnum in changing})
    for attnum in changing:
        item = table.column(attnum)
        values[attnum] = stored(variable(f"{name}.c{attnum}"), item.type_oid, item.typmod)
    return lambda shown: let(name, once, struct(**{item.alias: item.this for item in shown}))


def in_column(value: Value, item: Column) -> Value:
    """Return the value as the column stores it. PostgreSQL's assignment casts are in the tree already."""
    kept = stored(value.sql, item.type_oid, item.typmod)
    if value.constant is None:
        return Value(cast(exp.Null(), item.form.spark), item.type_oid, item.typmod, kept.decimal, None)
    if value.type_oid == RECORD:
        raise unsupported(f'a row as a value of column "{item.name}"')
    if item.type_oid == CARRIED and value.type_oid == TEXT:
        raise unsupported(f'a session value for column "{item.name}"')
    if value.type_oid != item.type_oid:
        raise malformed(f"a value of type {value.type_oid} for column {item.name}")
    if item.type_oid != NUMERIC:
        return Value(value.sql, item.type_oid, item.typmod, None, value.constant)
    held = kept.held
    if held.is_text:
        return Value(numerics.as_text(value), item.type_oid, item.typmod, held)
    if not numerics.is_static(value) or value.held.scale != held.scale:
        raise malformed(f"a numeric for column {item.name} that was not brought to its scale")
    return Value(numerics.widened(value, held.precision, held.scale), item.type_oid, item.typmod, held)


def _sequence(node: Node, context: Context) -> int | None:
    """Return the sequence if the expression is its next value, with casts around it or none; otherwise None."""
    while node.type == "FUNCEXPR" and len(node.args or ()) == 1:
        argument = node.args[0]
        if context.builtins.signature(node.funcid) == "nextval(regclass)":
            if argument.type != "CONST":
                return None
            found: int = datum.read(_REGCLASS, argument.constvalue)
            return found
        node = argument
    if node.type == "NEXTVALUEEXPR":
        sequence: int = node.seqid
        return sequence
    return None


# --- expressions of the table itself: generated columns, CHECK, DEFAULT ---


def _generate(
    statement: Statement,
    table: Table,
    values: dict[int, Value],
    numbered: set[int],
    is_due: Callable[[int, set[int]], bool] = lambda *_: True,
) -> set[int]:
    """Compute the table's generated columns from the other new values; return their attnums.

    Their own attnum and the columns that they depend on decide which are due.
    """
    generated = statement.context.generated.get(table.oid, {})
    computed = {}
    for attnum, source in generated.items():
        used = columns_used(source)
        if not is_due(attnum, used):
            continue
        if used & numbered:
            raise unsupported("a generated column computed from a sequence's value")
        translator = table_translator(statement, table, lambda number: values[number])
        computed[attnum] = in_column(translator.value(nodes.parse(source)), table.column(attnum))
    values.update(computed)
    return set(computed)


def columns_used(source: str) -> set[int]:
    """Return the attnums of the columns that a generated column's expression uses."""
    return {node.varattno for node in walk(nodes.parse(source)) if node.type == "VAR"}


def table_translator(statement: Statement, table: Table, columns: Callable[[int], Value]) -> Translator:
    """Return a translator of expressions over one row of the table, which is range table entry 1."""
    entry = Node("RANGETBLENTRY", {"rtekind": 0, "relid": table.oid})
    scope = Scope(statement, Node("QUERY", {"rtable": (entry,)}), None)
    scope.ranges[1] = columns
    return Translator(scope)


def _bare(table: Table) -> Callable[[int], Value]:
    def column_of(attnum: int) -> Value:
        item = table.column(attnum)
        return stored(exp.column(f"c{attnum}"), item.type_oid, item.typmod)

    return column_of


def plan_check(source: str, table: Table, context: Context) -> str:
    """Return a CHECK constraint (pg_constraint.conbin) as a Spark boolean over `c<attnum>`; a row violates it if
    false."""
    translator = table_translator(Statement(context), table, _bare(table))
    return rendered(translator.value(nodes.parse(source)).sql)
