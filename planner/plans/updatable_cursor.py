"""`plan_updatable`: the plan of a cursor that locks no rows but returns their places, for WHERE CURRENT OF.

PostgreSQL (execCurrent.c, search_plan_tree) accepts a cursor whose plan has one scan of the table, below nodes that
only pass rows on one by one. Here the query decides. It reads one table alone, itself or through subqueries, views and
WITH queries. These may have WHERE and LIMIT, but no join, group, DISTINCT, set operation, window function,
set-returning function or ORDER BY. PostgreSQL's documentation promises less ("simply updatable": one table, no
grouping, no ORDER BY). Its plans do a little more: with an index that has the order of ORDER BY, and if the planner
removes a join.
"""

from __future__ import annotations

from typing import Any, Final

from planner.plans.select import presented_query, rendered, single_query
from planner.spark.plan import Context, OutputColumn, SparkQuery
from planner.translate import query
from planner.translate.scope import RTE_CTE, RTE_RELATION, RTE_SUBQUERY, Statement
from planner.tree.nodes import Node, walk

# What a level must not have: its plan would have more than a scan and nodes that pass its rows on.
_MORE_THAN_A_SCAN: Final = (
    "setOperations", "hasAggs", "groupClause", "groupingSets", "havingQual", "distinctClause", "hasWindowFuncs",
    "hasTargetSRFs", "sortClause", "rowMarks",
)  # fmt: skip
_ALWAYS_MATERIALIZED: Final = 1  # CTEMaterialize of parsenodes.h
_EXISTS, _ANY = 0, 2  # SubLinkType of primnodes.h


def updatable_table(tree: Any) -> int | None:
    """Return the OID of the table if each row of the query is a row of that table; None if not."""
    levels = _levels(single_query(tree))
    if levels is None:
        return None
    innermost = levels[-1]
    return int(innermost.rtable[innermost.jointree.fromlist[0].rtindex - 1].relid)


def plan_updatable(tree: Any, context: Context) -> SparkQuery:
    """Return the plan of a SELECT that has an `updatable_table`.

    Behind the columns that the client sees, one column has the row's place (`row_marks.packed_place`).
    """
    node = single_query(tree)
    levels = _levels(node)
    assert levels is not None
    statement = Statement(context)
    statement.updatable = frozenset(map(id, levels))
    found = query.select(statement, node, None)
    columns = tuple(OutputColumn(item.label or "", item.type_oid, item.typmod) for item in found.outputs)
    return statement.spark_query(rendered(presented_query(found)), columns)


def _levels(node: Node) -> tuple[Node, ...] | None:
    """Return the query, and what it reads, down to the level that reads the table; None if it is not that simple."""
    found: list[Node] = []
    level: Node | None = node
    while level is not None:
        if level.commandType != query.CMD_SELECT or any(level.fields.get(name) for name in _MORE_THAN_A_SCAN):
            return None
        sources = list(level.jointree.fromlist or ())
        if len(sources) != 1 or sources[0].type != "RANGETBLREF" or _becomes_join(level.jointree.quals):
            return None
        found.append(level)
        entry = level.rtable[sources[0].rtindex - 1]
        if entry.rtekind == RTE_RELATION:
            return tuple(found)
        level = _inner(level, entry)
    return None


def _inner(level: Node, entry: Node) -> Node | None:
    """Return the query that an entry of FROM stands for, if PostgreSQL plans it in its place."""
    if entry.rtekind == RTE_SUBQUERY:
        return _node(entry.subquery)
    if entry.rtekind != RTE_CTE or entry.ctelevelsup:
        return None
    [common] = [each for each in level.cteList if each.ctename == entry.ctename]
    if common.cterecursive or common.cterefcount != 1 or common.ctematerialized == _ALWAYS_MATERIALIZED:
        return None
    return _node(common.ctequery)


def _node(value: Any) -> Node | None:
    return value if isinstance(value, Node) and value.type == "QUERY" else None


def _becomes_join(condition: Node | None) -> bool:
    """Whether PostgreSQL makes a join of IN (SELECT …) or EXISTS in a condition (prepjointree.c)."""
    if condition is None:
        return False
    if condition.type == "BOOLEXPR" and condition.boolop == "and":
        return any(_becomes_join(each) for each in condition.args)
    if condition.type == "BOOLEXPR" and condition.boolop == "not":
        [negated] = condition.args
        return bool(negated.type == "SUBLINK" and negated.subLinkType == _EXISTS and _is_correlated(negated))
    if condition.type != "SUBLINK":
        return False
    if condition.subLinkType == _ANY:
        return any(node.type == "VAR" for node in walk(condition.testexpr))
    return bool(condition.subLinkType == _EXISTS and _is_correlated(condition))


def _is_correlated(sublink: Node) -> bool:
    return any(node.type == "VAR" and node.varlevelsup for node in walk(sublink.subselect.jointree.quals))
