"""The tables that MERGE reads, and the engine for its source, by its analysed tree (parsenodes.h: Query, MergeAction).

The source is computed once, and PostgreSQL merges the resulting rows. So the source's tables do not matter to
PostgreSQL, but those do that subqueries in the condition, the actions and RETURNING read. PostgreSQL itself reads a
source without a single name, or one of which the statement asks more than columns.
"""

from __future__ import annotations

from typing import Any

from planner.plans.computable import functions_of_users
from planner.translate.row_security import conditions
from planner.translate.scope import RTE_SUBQUERY
from planner.tree.builtins import Builtins
from planner.tree.nodes import Node, walk
from planner.tree.references import functions, tables_of_subqueries, tables_read


def is_read_in_place(query: Node) -> bool:
    """Whether PostgreSQL must read the source: functions of users, system columns, a join."""
    return (
        _source(query) is None
        or bool(functions_of_users(query))
        or any(node.type == "VAR" and int(node.varattno) < 0 for node in walk(query))
    )


def tables_in_place(query: Node, *, source: bool) -> frozenset[int]:
    """Return the relations whose rows PostgreSQL needs to merge, besides matching rows of the target.

    `source`: it reads the source itself.
    """
    if source:
        return tables_read(query)
    parts = (query.mergeJoinCondition, query.mergeActionList, query.returningList, conditions(query))
    return tables_of_subqueries(query, parts)


def is_repeatable(query: Node, builtins: Builtins) -> bool:
    """Whether the source, computed again, has the same rows as far as the condition looks at them."""
    source, condition = _source(query), query.mergeJoinCondition
    if source is None:
        return not _is_volatile((condition, query.cteList, query.jointree, query.rtable), builtins)
    entry = query.rtable[source - 1]
    if entry.rtekind != RTE_SUBQUERY:
        return not _is_volatile((condition, query.cteList, entry), builtins)
    compared = {int(node.varattno) for node in walk(condition) if node.type == "VAR" and int(node.varno) == source}
    subquery = entry.subquery
    shown = tuple(
        target.expr
        for target in subquery.targetList or ()
        if subquery.setOperations or target.ressortgroupref or 0 in compared or int(target.resno) in compared
    )
    return not _is_volatile((condition, query.cteList, subquery.replaced(targetList=shown)), builtins)


def _source(query: Node) -> int | None:
    """Return the place of the source in the range table; None for a join."""
    [item] = query.jointree.fromlist
    return int(item.rtindex) if item.type == "RANGETBLREF" else None


def _is_volatile(parts: Any, builtins: Builtins) -> bool:
    known = (builtins.functions.get(oid) for oid in functions(parts))
    return any(each is None or each.volatility == "v" for each in known)
