"""A check of the SQL that leaves the planner: no subquery in it depends on the rows around it.

Spark's own rules for such a subquery are wrong if it has a LIMIT: they apply the LIMIT to the whole table, or without
its order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from catalog.errors import unsupported
from planner.spark.builders import Expression


def require_uncorrelated(query: Expression) -> None:
    """Raise 0A000 if a subquery uses a column of a query around it, or if LATERAL is left."""
    outermost = _Query()
    open_queries = [outermost]
    pending: list[Expression | None] = [query]
    while pending:
        node = pending.pop()
        if node is None:  # a query ends
            ended = open_queries.pop()
            if ended.used - ended.offered:
                raise unsupported("a correlated subquery that is left to Spark")
            open_queries[-1].offered |= ended.offered
            continue
        if isinstance(node, exp.Lateral):
            raise unsupported("LATERAL that is left to Spark")
        if isinstance(node, exp.Column) and node.table:
            open_queries[-1].used.add(node.table)
        elif isinstance(node, _RELATIONS):
            open_queries[-1].offered.add(node.alias_or_name)
        inside = list(node.iter_expressions())
        if isinstance(node, (exp.Subquery, exp.Exists)):
            beside = node.args.get("joins") or []  # of a join in parentheses
            pending += beside
            inside = [each for each in inside if not any(each is other for other in beside)]
            open_queries.append(_Query())
            pending.append(None)
        pending += inside


_RELATIONS: Final = (exp.Table, exp.Subquery, exp.Values)


@dataclass(slots=True)
class _Query:
    """The aliases that a query uses itself, and those that it and the queries in it offer."""

    used: set[str] = field(default_factory=set)
    offered: set[str] = field(default_factory=set)
