"""`proposed_keys`: the keys of the rows that an INSERT … VALUES proposes, where they are constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from catalog.model import Table
from planner.plans.placement import may_act
from planner.plans.row_filter import WantedKeys
from planner.spark.plan import Context, Parameter, SessionValues
from planner.spark.values import MISSING
from planner.translate.scan_predicates import constant_of
from planner.translate.scope import RTE_VALUES, Scope, Statement
from planner.tree.builtins import Builtins
from planner.tree.nodes import Node

# Of more rows the keys are not looked up one by one.
_ROWS_MAX: Final = 1000


def proposed_keys(
    query: Node, table: Table, builtins: Builtins, parameters: tuple[Parameter, ...] = ()
) -> WantedKeys | None:
    """Return the values that the rows have in the table's only key; None if they are no constants, if there are more
    keys, or if the statement does more than compute.

    They are a guess, by which the rows that conflict may be found: constants that depend on settings of the session,
    such as its time zone, are read with PostgreSQL's defaults.
    """
    if may_act(query, builtins) or len(table.keys) != 1:
        return None
    rows = _rows(query)
    if rows is None or len(rows) > _ROWS_MAX:
        return None
    context = Context(builtins, {table.oid: table}, SessionValues(now=0, statement_now=0), parameters)
    scope = Scope(Statement(context), query, None)
    [key] = table.keys
    if any(attnum not in row for attnum in key.attnums for row in rows):
        return None
    values = [tuple(constant_of(scope, row[attnum]) for attnum in key.attnums) for row in rows]
    return None if any(value is MISSING for row in values for value in row) else WantedKeys(key.attnums, values)


def _rows(query: Node) -> list[dict[int, Node]] | None:
    """Return the expressions of each row of VALUES, by the attnum of the column; None for another source."""
    targets = {target.resno: target.expr for target in query.targetList or () if not target.resjunk}
    sources = query.jointree.fromlist or ()
    if not sources:
        return [targets]
    entry = query.rtable[sources[0].rtindex - 1] if sources[0].type == "RANGETBLREF" else None
    if len(sources) != 1 or entry is None or entry.rtekind != RTE_VALUES:
        return None
    listed: Sequence[Sequence[Any]] = entry.values_lists
    return [
        {attnum: row[node.varattno - 1] if node.type == "VAR" else node for attnum, node in targets.items()}
        for row in listed
    ]
