"""The keys of an index, as Spark computes them from a table's rows. Pure."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from sqlglot import exp

from catalog.indexes import IndexForm
from catalog.model import Column, Table
from planner.plans.change_plan import in_column, table_translator
from planner.plans.row_conditions import RowConditions
from planner.plans.select import rendered
from planner.spark.builders import and_, column
from planner.spark.plan import Context, OutputColumn, SparkQuery
from planner.spark.relation_output import select
from planner.spark.values import Value
from planner.translate import from_clause
from planner.translate.scope import ScanBuilder, Scope, Statement
from planner.tree.nodes import Node, parse
from storage.plan import FILE_COLUMN, POSITION_COLUMN, Condition

SCAN: Final = "rows"
# The range table entry of an index's table in its expressions.
_ENTRY: Final = 1


def plan_keys(
    table: Table, form: IndexForm, keys: tuple[Column, ...], context: Context, *, of_one_file: bool = False
) -> SparkQuery:
    """Return a query of `_file`, `_position` and the keys of the rows that meet the predicate.

    Rows `of_one_file` do not tell its name. The keys are in the forms of the columns `keys`. 0A000 for an expression
    that Spark cannot compute as PostgreSQL does.
    """
    statement = Statement(context)
    scan = ScanBuilder(SCAN, statement.fresh("r"), table, needs_position=True)
    statement.scans.append(scan)
    columns = from_clause.scan_columns(scan)
    translator = table_translator(statement, table, columns)
    expressions = iter(_trees(form.expressions))
    places = (POSITION_COLUMN,) if of_one_file else (FILE_COLUMN, POSITION_COLUMN)
    shown: list[Any] = [column(scan.alias, name) for name in places]
    for key, item in zip(form.keys, keys, strict=True):
        value: Value = columns(key.attnum) if key.attnum else translator.value(next(expressions))
        shown.append(exp.alias_(in_column(value, item).sql, item.name, copy=False))
    conditions = [translator.condition(tree) for tree in _trees(form.predicate)]
    query = select(shown, from_clause.scan_table(scan), and_(*conditions) if conditions else None)
    outputs = tuple(OutputColumn(item.name, item.type_oid, item.typmod) for item in keys)
    return SparkQuery(rendered(query), statement.finished_scans(), outputs)


def decided_rows(table: Table, form: IndexForm, context: Context) -> tuple[Condition, ...] | None:
    """Return what rows of an index over columns must meet; None if only an engine can tell."""
    if form.expressions is not None:
        return None
    statement = Statement(context)
    scope = Scope(statement, Node("QUERY", {"rtable": ()}), None)
    rules = RowConditions(scope, _ENTRY, {column.attnum: column for column in table.columns})
    found = [rules.of(tree) for tree in _trees(form.predicate)]
    known = [each for each in found if each is not None]
    return tuple(chain.from_iterable(known)) if len(known) == len(found) else None


def _trees(text: str | None) -> tuple[Node, ...]:
    """Return the expressions of an index, or the conjuncts of its predicate."""
    if text is None:
        return ()
    found = parse(text)
    return found if isinstance(found, tuple) else (found,)
