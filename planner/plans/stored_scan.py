"""`stored_scan`: a query that only reads columns of one table, as its files store them.

It may read the table through views and subqueries that do no more, and have LIMIT and OFFSET with constants. All else,
such as a condition, an order or a computed column, makes another query of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog.model import Column, Table
from planner.plans.estimates import constant_integer
from planner.translate.query import CMD_SELECT
from planner.translate.scope import RTE_RELATION, RTE_SUBQUERY
from planner.translate.sort_limit import LIMIT_WITH_TIES
from planner.tree.nodes import Node

# What a level must not have.
_MORE_THAN_COLUMNS: Final = (
    "setOperations", "hasAggs", "groupClause", "groupingSets", "havingQual", "distinctClause", "hasWindowFuncs",
    "hasTargetSRFs", "sortClause", "rowMarks", "cteList",
)  # fmt: skip
_LIMITS: Final = ("limitCount", "limitOffset")
# What an entry of FROM must not have.
_MORE_THAN_ROWS: Final = ("tablesample", "securityQuals", "lateral")


@dataclass(frozen=True, slots=True)
class StoredScan:
    """Columns of a table, in the order of the result: `limit` rows (None: all) after `offset` others."""

    table_oid: int
    columns: tuple[Column, ...]
    offset: int = 0
    limit: int | None = None


def stored_scan(query: Node, tables: Mapping[int, Table]) -> StoredScan | None:
    """Return what a query reads, if it only reads columns; `tables` are the lake's by their shadow's OID."""
    limits = _limits(query)
    if limits is None:
        return None
    offset, limit = limits
    places, level = list[int](), query
    while True:
        entry = _source(level)
        shown = None if entry is None else _shown(level)
        if entry is None or shown is None:
            return None
        try:
            places = [shown[place - 1] for place in places] if level is not query else shown
        except IndexError:
            return None
        if entry.rtekind == RTE_RELATION:
            break
        level = entry.subquery
        if any(level.fields.get(name) is not None for name in _LIMITS):
            return None
    columns = _columns(tables.get(int(entry.relid)), places)
    return None if columns is None else StoredScan(int(entry.relid), columns, offset, limit)


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


def _source(level: Any) -> Node | None:
    """Return the only entry that a level reads, all of its rows; None if it is not that simple."""
    if not isinstance(level, Node) or level.type != "QUERY" or level.commandType != CMD_SELECT:
        return None
    if any(level.fields.get(name) for name in _MORE_THAN_COLUMNS):
        return None
    sources = list(level.jointree.fromlist or ())
    if len(sources) != 1 or sources[0].type != "RANGETBLREF" or level.jointree.quals is not None:
        return None
    entry: Node = level.rtable[sources[0].rtindex - 1]
    if entry.rtekind not in (RTE_RELATION, RTE_SUBQUERY) or any(entry.fields.get(name) for name in _MORE_THAN_ROWS):
        return None
    return entry


def _shown(level: Node) -> list[int] | None:
    """Return the places of the source's columns that a level's target list names; None if it has anything else."""
    [source] = level.jointree.fromlist
    places = []
    for target in level.targetList or ():
        value = target.expr
        if target.resjunk or value.type != "VAR" or value.varno != source.rtindex or value.varlevelsup:
            return None
        if value.varattno <= 0 or value.fields.get("varreturningtype"):
            return None
        places.append(int(value.varattno))
    return places or None


def _columns(table: Table | None, places: Sequence[int]) -> tuple[Column, ...] | None:
    """Return the columns, if they are the lake's and their values are those in files."""
    by_number = {} if table is None else {column.attnum: column for column in table.columns}
    found = [by_number.get(place) for place in places]
    columns = tuple(column for column in found if column is not None and _is_plain(column))
    return columns if len(columns) == len(places) else None


def _is_plain(column: Column) -> bool:
    """Whether a result has the column's values as files have them: PostgreSQL or Spark makes those of other types."""
    return column.carried is None and column.user_array is None and column.form.ducklake != "list"
