"""The rows that a query with a locking clause locks, when PostgreSQL computes the query's result.

FROM, WHERE, ORDER BY and LIMIT choose the rows, so Spark can find them even if it has no form for the target list.
PostgreSQL then chooses once more, over copies, and must find the same rows:

- No condition may change when evaluated again: volatile functions, and subqueries whose rows come in another order.
- If all rows that meet the conditions are locked, neither the number of other copied rows nor the order matters.
- If the query is cut, or skips rows that others have locked, only the locked rows of one table are copied. So the query
  must read nothing else of that table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from planner.plans.computable import functions_of_users
from planner.plans.select import single_query
from planner.translate.scope import RTE_RELATION
from planner.tree.builtins import Builtins
from planner.tree.nodes import Node, walk
from planner.tree.references import functions

_SKIP_LOCKED: Final = 1
# It has another value for each statement, though it is STABLE.
_OF_STATEMENT: Final = "statement_timestamp"


def locking_alone(tree: Any, builtins: Builtins) -> Node | None:
    """Return a query that locks the same rows and returns only their order; None if that is unknown."""
    query = single_query(tree)
    nested = any(node.rowMarks for node in walk(query) if node.type == "QUERY" and node is not query)
    if not query.rowMarks or nested or any(mark.pushedDown for mark in query.rowMarks):
        return None
    if not is_cut(query):
        alone = query.replaced(targetList=(), sortClause=None)
    elif reads_one_table_once(query):
        keys = {clause.tleSortGroupRef for clause in query.sortClause or ()}
        alone = query.replaced(targetList=tuple(_keys(query, keys)))
    else:
        return None
    return alone if _is_the_same_again(alone, builtins) else None


def is_cut(tree: Any) -> bool:
    """Whether some rows that meet the conditions may stay unlocked."""
    query = single_query(tree)
    limited = query.limitCount is not None or query.limitOffset is not None
    return limited or any(mark.waitPolicy == _SKIP_LOCKED for mark in query.rowMarks)


@dataclass(frozen=True, slots=True)
class LockingClause:
    """How rows of a table are locked: LockClauseStrength and LockWaitPolicy."""

    table_oid: int
    strength: int
    waiting: int


def locked_table(tree: Any) -> LockingClause | None:
    """Return the one table whose rows are locked, anywhere in the query; None if there are more.

    Rows that others have locked may be skipped if all rows come from that table, or if every look at the table locks
    its rows so: without them, the query chooses from the rest. Functions of users must not look at it then.
    """
    found = {
        LockingClause(int(node.rtable[mark.rti - 1].relid), int(mark.strength), int(mark.waitPolicy))
        for node in walk(tree)
        if node.type == "QUERY"
        for mark in node.rowMarks or ()
        if node.rtable[mark.rti - 1].rtekind == RTE_RELATION
    }
    clause = found.pop() if len(found) == 1 else None
    if clause is None or clause.waiting != _SKIP_LOCKED:
        return clause
    query = single_query(tree)
    chosen = bool(query.rowMarks) and _names_one_table_once(query)
    return clause if chosen or _is_only_locked(query, clause.table_oid) else None


def _is_only_locked(query: Node, table_oid: int) -> bool:
    """Whether each level that names the table locks its rows, or skips them if others have locked them."""
    if functions_of_users(query):
        return False
    for level in (node for node in walk(query) if node.type == "QUERY"):
        skipping = {
            int(mark.rti) for mark in level.rowMarks or () if mark.waitPolicy == _SKIP_LOCKED and not mark.pushedDown
        }
        for index, entry in enumerate(level.rtable or (), 1):
            if entry.rtekind == RTE_RELATION and int(entry.relid) == table_oid and index not in skipping:
                return False
    return True


def reads_one_table_once(tree: Any) -> bool:
    """Whether the rows come from one table alone, of which the query reads nothing else."""
    query = single_query(tree)
    return _names_one_table_once(query) and not functions_of_users(query)


def _names_one_table_once(query: Node) -> bool:
    """`reads_one_table_once`, but that functions of users may read the table too."""
    sources = list(query.jointree.fromlist or ())
    if [source.type for source in sources] != ["RANGETBLREF"]:
        return False
    entry = query.rtable[sources[0].rtindex - 1]
    if entry.rtekind != RTE_RELATION:
        return False
    named = [node for node in walk(query) if node.type == "RANGETBLENTRY" and node.rtekind == RTE_RELATION]
    return [node.relid for node in named].count(entry.relid) == 1


def _keys(query: Node, references: set[int]) -> Iterator[Node]:
    for target in query.targetList or ():
        if target.ressortgroupref in references:
            yield target


def _is_the_same_again(query: Node, builtins: Builtins) -> bool:
    for node in walk(query):
        if node.type == "QUERY" and node is not query and _depends_on_order(node):
            return False
    for oid in functions(query):
        known = builtins.functions.get(oid)
        if known is None or known.volatility == "v" or known.name == _OF_STATEMENT:
            return False
    return True


def _depends_on_order(query: Node) -> bool:
    """Whether a subquery's result may depend on the order of the rows that it reads."""
    cut = query.limitCount is not None or query.limitOffset is not None
    return bool(cut or query.hasDistinctOn or query.hasWindowFuncs or query.hasAggs)
