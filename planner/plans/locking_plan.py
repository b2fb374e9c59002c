"""`plan_locking`: SELECT … FOR UPDATE and the like, whose rows are locked one by one as they come.

PostgreSQL locks rows after ORDER BY and before LIMIT. So Spark returns all rows in order, each with its place, and the
executor of the plan locks and counts them. PostgreSQL itself refuses the clause beside DISTINCT, GROUP BY, aggregates,
window functions and set operations. A subquery with such a clause is locked before the statement around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from catalog.errors import unsupported
from planner.plans.select import presented_query, rendered, single_query
from planner.spark.plan import Context, OutputColumn, SparkQuery
from planner.translate import query, row_marks
from planner.translate.scope import Statement
from planner.tree.nodes import Node, remembered, walk

# LockClauseStrength and LockWaitPolicy of PostgreSQL's lockoptions.h, in SQL's words.
STRENGTHS: Final = {1: "KEY SHARE", 2: "SHARE", 3: "NO KEY UPDATE", 4: "UPDATE"}
_CMD_SELECT: Final = 1
WAITS: Final = {0: "", 1: "SKIP LOCKED", 2: "NOWAIT"}


@dataclass(frozen=True, slots=True)
class LockedTable:
    """A table whose rows are to be locked: the mode, and the number (from 0) of the result column with the rows' files.

    The next column has the positions.
    """

    table_oid: int
    strength: str
    waiting: str
    place: int


@dataclass(frozen=True, slots=True)
class LockingPlan:
    """`query` returns the client's columns, then two for each of `tables`, for all rows.

    Of the locked rows, the first `offset` are not shown, and at most `limit` are (None: all).
    """

    query: SparkQuery
    tables: tuple[LockedTable, ...]
    limit: int | None
    offset: int


def strongest(tree: Any) -> str | None:
    """Return how the statement itself locks rows, by its first clause; None if it does not."""
    marks = single_query(tree).rowMarks
    return STRENGTHS[marks[0].strength] if marks else None


@remembered
def first_strength(tree: Any) -> str | None:
    """Return how the statement locks rows, itself or in a subquery, by its first clause; None if it does not."""
    nodes = (node for node in walk(single_query(tree)) if node.type == "QUERY" and node.rowMarks)
    return next((STRENGTHS[node.rowMarks[0].strength] for node in nodes), None)


def subqueries(tree: Any) -> list[Node]:
    """Return the subqueries that lock rows, innermost first; each can be planned and locked before the statement
    around it."""
    found = _locking_subqueries(single_query(tree))
    for node in found:
        if any(mark.pushedDown for mark in node.rowMarks):
            raise unsupported("FOR UPDATE or FOR SHARE of a subquery or view")
        if not row_marks.can_go_before(node):
            raise unsupported(
                "FOR UPDATE or FOR SHARE in a subquery that reads other than tables or depends on what is around it"
            )
    return found[::-1]


def are_locked_apart(query: Node) -> bool:
    """Whether a WITH query of a change locks rows that cannot be locked before it, as it depends on others: then it is
    executed by itself, as PostgreSQL does."""
    if int(query.commandType) == _CMD_SELECT or not query.cteList:
        return False
    return any(
        node.type == "QUERY" and bool(node.rowMarks) and not row_marks.can_go_before(node)
        for common in query.cteList
        for node in walk(common.ctequery)
    )


@remembered
def _locking_subqueries(top: Node) -> list[Node]:
    return [node for node in walk(top) if node.type == "QUERY" and node is not top and node.rowMarks]


def plan_locking(tree: Any, context: Context, *, subquery: bool = False) -> LockingPlan:
    """Return the plan of a SELECT with a locking clause. A subquery's plan has its rows' places in all of its
    tables."""
    node = single_query(tree)
    statement = Statement(context)
    statement.locking, statement.locates_all = True, subquery
    found = query.select(statement, node, None)
    columns = tuple(OutputColumn(item.label or "", item.type_oid, item.typmod) for item in found.outputs)
    shown = len(columns) - 2 * len(row_marks.located(node) if subquery else node.rowMarks)
    tables = tuple(
        LockedTable(
            node.rtable[mark.rti - 1].relid, STRENGTHS[mark.strength], WAITS[mark.waitPolicy], shown + 2 * number
        )
        for number, mark in enumerate(node.rowMarks)
    )
    spark = statement.spark_query(rendered(presented_query(found)), columns)
    return LockingPlan(spark, tables, *statement.cut)
