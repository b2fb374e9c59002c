"""`stored_scan`: a query that only reads columns of one table, as its files store them, or counts its rows.

It may read the table through views and subqueries that do no more, have conditions that Arrow decides
(`planner.plans.row_conditions`), and LIMIT and OFFSET with constants. All else, such as an order or a computed column,
makes another query of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from catalog.datatypes import FLOAT4
from catalog.model import Column, Table
from planner.plans.estimates import constant_integer
from planner.plans.row_conditions import RowConditions
from planner.spark.plan import Context
from planner.translate.query import CMD_SELECT
from planner.translate.scope import RTE_RELATION, RTE_SUBQUERY, Scope, Statement
from planner.translate.sort_limit import LIMIT_WITH_TIES
from planner.tree.nodes import Const, Node
from storage.plan import Comparison, Condition

# What a level must not have.
_MORE_THAN_COLUMNS: Final = (
    "setOperations", "hasAggs", "groupClause", "groupingSets", "havingQual", "distinctClause", "hasWindowFuncs",
    "hasTargetSRFs", "sortClause", "rowMarks", "cteList",
)  # fmt: skip
_LIMITS: Final = ("limitCount", "limitOffset")
# Of an aggregate.
_OF_SOME_ROWS: Final = ("aggfilter", "aggdistinct", "aggorder")
# OIDs of pg_proc.dat: count(*), and count("any").
COUNT_OF_ROWS: Final = 2803
COUNT_OF_VALUES: Final = 2147
# What an entry of FROM must not have.
MORE_THAN_ROWS: Final = ("tablesample", "securityQuals", "lateral")


@dataclass(frozen=True, slots=True)
class StoredScan:
    """Columns of a table, in the order of the result: of the rows that meet all `conditions`, `limit` (None: all)
    after `offset` others. The `predicate` are those conditions by which files can be left out.

    With `counts`, the result is one row in place of those: their number, so many times.
    """

    table_oid: int
    columns: tuple[Column, ...]
    conditions: tuple[Condition, ...] = ()
    predicate: tuple[Comparison, ...] = ()
    offset: int = 0
    limit: int | None = None
    counts: int = 0


def stored_scan(query: Node, context: Context) -> StoredScan | None:
    """Return what a query reads, if it only reads columns or counts rows."""
    limits, counts = _limits(query), _counts(query)
    if limits is None or (counts and limits != (0, None)):
        return None
    levels = _levels(query, counts)
    if levels is None:
        return None
    table = context.tables.get(levels[-1][1].relid)
    if table is None:
        return None
    columns = {column.attnum: column for column in table.columns if is_plain(column)}
    conditions: list[Condition] = []
    predicate: list[Comparison] = []
    barred = False
    for level, entry in reversed(levels):
        # What EXPLAIN counts must not tell of rows that a view with security_barrier hides.
        barred = barred or bool(entry.fields.get("security_barrier"))
        shown = [] if counts and level is query else _shown(level, columns)
        met = met_conditions(level, columns, context)
        if shown is None or met is None:
            return None
        conditions += met
        compared = [each for each in met if isinstance(each, Comparison)]
        predicate += [each for each in compared if not barred and _is_bounded(table, each)]
        columns = dict(enumerate(shown, 1))
    return StoredScan(table.oid, tuple(columns.values()), tuple(conditions), tuple(predicate), *limits, counts)


def _counts(query: Any) -> int:
    """Return how many columns a query has if each of them counts all rows; 0 if there is any other."""
    targets = tuple(query.targetList or ()) if isinstance(query, Node) and query.type == "QUERY" else ()
    return len(targets) if all(not target.resjunk and _counts_rows(target.expr) for target in targets) else 0


def _counts_rows(value: Node) -> bool:
    if value.type != "AGGREF" or value.agglevelsup or any(value.fields.get(name) for name in _OF_SOME_ROWS):
        return False
    if value.aggfnoid != COUNT_OF_VALUES:
        return bool(value.aggfnoid == COUNT_OF_ROWS)
    [counted] = value.args
    return type(counted.expr) is Const and not counted.expr.constisnull


def _levels(query: Node, counts: int) -> list[tuple[Node, Node]] | None:
    """Return the levels of a query, the outermost first, each with its only entry, the last one with a table."""
    levels: list[tuple[Node, Node]] = []
    level: Any = query
    while True:
        entry = _source(level, ("hasAggs",) if counts and not levels else ())
        if entry is None or (levels and any(level.fields.get(name) is not None for name in _LIMITS)):
            return None
        levels.append((level, entry))
        if entry.rtekind == RTE_RELATION:
            return levels
        level = entry.subquery


def _limits(query: Node) -> tuple[int, int | None] | None:
    """Return OFFSET and LIMIT, if they are constants that PostgreSQL takes."""
    found: list[int | None] = []
    for name in _LIMITS:
        given = query.fields.get(name)
        number = None if given is None else constant_integer(given)
        if given is not None and (number is None or number < 0):
            return None
        found.append(number)
    limit, offset = found
    return None if query.fields.get("limitOption") == LIMIT_WITH_TIES else (offset or 0, limit)


def _source(level: Any, may_have: Collection[str]) -> Node | None:
    """Return the only entry that a level reads; None if it is not that simple."""
    if not isinstance(level, Node) or level.type != "QUERY" or level.commandType != CMD_SELECT:
        return None
    if any(level.fields.get(name) and name not in may_have for name in _MORE_THAN_COLUMNS):
        return None
    sources = list(level.jointree.fromlist or ())
    if len(sources) != 1 or sources[0].type != "RANGETBLREF":
        return None
    entry: Node = level.rtable[sources[0].rtindex - 1]
    if entry.rtekind not in (RTE_RELATION, RTE_SUBQUERY) or any(entry.fields.get(name) for name in MORE_THAN_ROWS):
        return None
    return entry


def _shown(level: Node, columns: Mapping[int, Column]) -> list[Column] | None:
    """Return the columns that a level's target list names, of those of its entry; None if it has anything else."""
    [source] = level.jointree.fromlist
    shown = []
    for target in level.targetList or ():
        value = target.expr
        if target.resjunk or value.type != "VAR" or value.varno != source.rtindex or value.varlevelsup:
            return None
        column = columns.get(value.varattno)
        if column is None or value.fields.get("varreturningtype"):
            return None
        shown.append(column)
    return shown or None


def met_conditions(level: Node, columns: Mapping[int, Column], context: Context) -> tuple[Condition, ...] | None:
    """Return a level's conditions; None if Arrow cannot tell whether rows meet them."""
    if level.jointree.quals is None:
        return ()
    conditions = RowConditions(Scope(Statement(context), level, None), level.jointree.fromlist[0].rtindex, columns)
    return conditions.of(level.jointree.quals)


def _is_bounded(table: Table, condition: Comparison) -> bool:
    """Whether statistics of files say something of the condition: the texts of a real's bounds are not those of equal
    double precisions."""
    return table.column(condition.attnum).type_oid != FLOAT4


def is_plain(column: Column) -> bool:
    """Whether a result has the column's values as files have them: PostgreSQL or Spark makes those of other types."""
    return column.carried is None and column.user_array is None and column.form.ducklake != "list"
