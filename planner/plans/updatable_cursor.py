"""`plan_updatable`: the plan of a cursor that locks no rows, but tells where its rows are, for WHERE CURRENT OF.

PostgreSQL (execCurrent.c, search_plan_tree) takes a cursor whose plan has one scan of the table, under nothing but what
hands rows on one by one. Which plans are like that is said here by the query: one table alone, itself or through
subqueries, views and WITH queries, which may have WHERE and LIMIT, but no join, group, DISTINCT, set operation, window
function, set-returning function or ORDER BY. PostgreSQL's documentation promises less ("simply updatable": one table,
no grouping, no ORDER BY) and its plans do a little more: with an index that has the order of ORDER BY, and where the
planner removes a join.
"""

from __future__ import annotations

from typing import Any, Final

from planner.plans.select import presented_query, rendered, single_query
from planner.spark.plan import Context, OutputColumn, SparkQuery
from planner.translate import query
from planner.translate.scope import RTE_CTE, RTE_RELATION, RTE_SUBQUERY, Statement
from planner.tree.nodes import Node, walk

# What a level must not have: its plan would have more than a scan and what hands its rows on.
_MORE_THAN_A_SCAN: Final = (
    "setOperations", "hasAggs", "groupClause", "groupingSets", "havingQual", "distinctClause", "hasWindowFuncs",
    "hasTargetSRFs", "sortClause", "rowMarks",
)  # fmt: skip
_ALWAYS_MATERIALIZED: Final = 1  # CTEMaterialize of parsenodes.h
_EXISTS, _ANY = 0, 2  # SubLinkType of primnodes.h


def updatable_table(tree: Any) -> int | None:
    """The OID of the table that a query reads so that each row of it is a row of the table; None where it does not."""
    levels = _levels(single_query(tree))
    if levels is None:
        return None
    innermost = levels[-1]
    return int(innermost.rtable[innermost.jointree.fromlist[0].rtindex - 1].relid)


def plan_updatable(tree: Any, context: Context) -> SparkQuery:
    """The plan of a SELECT that has an `updatable_table`: behind the columns that the client sees, one that tells
    where the row is (`row_marks.packed_place`)."""
    node = single_query(tree)
    levels = _levels(node)
    assert levels is not None
    statement = Statement(context)
    statement.updatable = frozenset(map(id, levels))
    found = query.select(statement, node, None)
    columns = tuple(OutputColumn(item.label or "", item.type_oid, item.typmod) for item in found.outputs)
    return SparkQuery(rendered(presented_query(found)), statement.finished_scans(), columns)


def _levels(node: Node) -> tuple[Node, ...] | None:
    """The query, and what it reads, down to the level that reads the table; None where it is not that simple."""
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
    """The query that an entry of FROM stands for, where PostgreSQL plans it in its place."""
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
