"""The rows of a lake table that a query can need, when PostgreSQL computes it over copies.

A condition of WHERE, or of an inner join, on one table alone drops rows before anything else uses them. The conditions
that Spark can evaluate choose the rows; PostgreSQL evaluates all conditions again. Excluded are conditions on the side
of an outer join that may be filled with NULLs, and tables that occur twice in the query.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from sqlglot import exp

from catalog.datatypes import INT8, TEXT
from catalog.errors import SluiceError
from catalog.model import Table
from planner.plans.select import rendered
from planner.spark.builders import Expression, and_, column
from planner.spark.plan import Comparison, Context, OutputColumn, SparkQuery
from planner.spark.relation_output import select
from planner.translate import from_clause, scan_predicates
from planner.translate.expressions import Translator
from planner.translate.scope import ScanBuilder, Scope, Statement
from planner.tree import query_levels
from planner.tree.nodes import Node
from planner.tree.references import table_places
from storage.plan import FILE_COLUMN, POSITION_COLUMN

# Up to so many keys are looked up one by one.
_KEYS_MAX: Final = 64
_INNER: Final = 0
_LEFT: Final = 1
_RIGHT: Final = 3


class _Filtered(NamedTuple):
    """The scan of the table, where it stands, and the conditions that choose its rows."""

    statement: Statement
    source: Expression | None
    scan: ScanBuilder
    conditions: list[Expression]


def needed_rows(query: Node, table_oid: int, context: Context) -> SparkQuery | None:
    """Return a query of the table's rows that the query can need: all columns, named `c<attnum>`. None if it may
    need any."""
    filtered = _filtered(query, table_oid, context)
    if filtered is None:
        return None
    scan = filtered.scan
    scan.attnums.update(each.attnum for each in scan.table.columns)
    shown: list[Expression] = [
        exp.alias_(column(scan.alias, f"c{each.attnum}"), f"c{each.attnum}", copy=False) for each in scan.table.columns
    ]
    columns = tuple(OutputColumn(each.name, each.type_oid, each.typmod) for each in scan.table.columns)
    return _query(filtered, shown, columns)


def needed_places(query: Node, table_oid: int, context: Context) -> SparkQuery | None:
    """Return a query of the places, each a file and a position, of the table's rows that the query can need. None if it
    may need any. Its only scan is of that table."""
    filtered = _filtered(query, table_oid, context)
    if filtered is None:
        return None
    filtered.scan.needs_position = True
    shown: list[Expression] = [column(filtered.scan.alias, name) for name in (FILE_COLUMN, POSITION_COLUMN)]
    columns = (OutputColumn(FILE_COLUMN, TEXT, -1), OutputColumn(POSITION_COLUMN, INT8, -1))
    return _query(filtered, shown, columns)


def _query(filtered: _Filtered, shown: list[Expression], columns: tuple[OutputColumn, ...]) -> SparkQuery:
    chosen = select(shown, filtered.source, and_(*filtered.conditions))
    return SparkQuery(rendered(chosen), filtered.statement.finished_scans(), columns)


def _filtered(query: Node, table_oid: int, context: Context) -> _Filtered | None:
    places = [(node, index) for node, index, oid in table_places(query) if oid == table_oid]
    if len(places) != 1:
        return None
    node, index = places[0]
    if not all(_is_kept(item, index) for item in node.jointree.fromlist or ()):
        return None
    statement = Statement(context)
    scope = Scope(statement, node, None)
    try:
        source = from_clause.entry(scope, index, safe=True, whole=False).head
    except SluiceError:
        return None
    scan = scope.scan_ranges[index]
    conditions: list[Expression] = []
    for qualifier in _qualifiers(node, index):
        try:
            conditions.append(Translator(scope).value(qualifier).sql)
        except SluiceError:
            continue  # about other tables too, or beyond Spark
        scan_predicates.derive(scope, qualifier)
    return _Filtered(statement, source, scan, conditions) if conditions else None


class WantedKeys(NamedTuple):
    """Columns that are a key of the table, and their values in each row that a query can need."""

    attnums: tuple[int, ...]
    values: list[tuple[Any, ...]]


def wanted_keys(query: Node, table_oid: int, context: Context) -> WantedKeys | None:
    """Return the few keys of the table by which the query's rows can be found; None if its conditions name none.

    The values are those of `Comparison`. A row that the query needs has one of these keys.
    """
    table = context.tables[table_oid]
    filtered = _filtered(query, table_oid, context) if table.keys else None
    return None if filtered is None else keys_in(table, filtered.scan.predicate)


def keys_in(table: Table, predicate: Sequence[Comparison]) -> WantedKeys | None:
    """Return the few keys of a table that rows can have which meet a conjunction; None if it names none."""
    equal = _equalities(predicate)
    for key in table.keys:
        columns = [equal.get(attnum) for attnum in key.attnums]
        named = [values for values in columns if values is not None]
        if len(named) == len(columns) and math.prod(map(len, named)) <= _KEYS_MAX:
            return WantedKeys(key.attnums, list(product(*named)))
    return None


def _equalities(predicate: Sequence[Comparison]) -> dict[int, tuple[Any, ...]]:
    """Return the values that a condition lists for columns: of several conditions, the shortest list."""
    found: dict[int, tuple[Any, ...]] = {}
    for each in predicate:
        if each.operator in ("=", "in") and len(each.values) < len(found.get(each.attnum, (None,) * (_KEYS_MAX + 1))):
            found[each.attnum] = each.values
    return found


def _qualifiers(query: Node, index: int) -> Iterator[Node]:
    """Yield the conditions that every row of this entry must meet, as far as they stand above it."""
    yield from _conjuncts(query.jointree.quals)
    for item in query.jointree.fromlist or ():
        yield from _of_joins(item, index)


def _of_joins(item: Node, index: int) -> Iterator[Node]:
    if item.type != "JOINEXPR" or not _holds(item, index):
        return
    left = _holds(item.larg, index)
    if item.jointype == _INNER:
        yield from _conjuncts(item.quals)
    yield from _of_joins(item.larg if left else item.rarg, index)


def _is_kept(item: Node, index: int) -> bool:
    """Whether no outer join may put NULLs in place of a row of this entry."""
    if item.type != "JOINEXPR" or not _holds(item, index):
        return True
    left = _holds(item.larg, index)
    if item.jointype not in (_INNER, _LEFT if left else _RIGHT):
        return False
    return _is_kept(item.larg if left else item.rarg, index)


def _holds(item: Node, index: int) -> bool:
    if item.type == "RANGETBLREF":
        return bool(item.rtindex == index)
    return item.type == "JOINEXPR" and (_holds(item.larg, index) or _holds(item.rarg, index))


def _conjuncts(node: Node | None) -> list[Node]:
    return [part for part in query_levels.conjuncts(node) if not query_levels.has_sublink(part)]
