"""Row-level security: the conditions that PostgreSQL's rewriter has put into the analysed tree (rowsecurity.c).

A range table entry's `securityQuals` say which rows of a table are visible; a change's `withCheckOptions`, which it may
write. The visible rows are a derived table with a barrier above it: no client code is evaluated below it, so that no
error reveals a hidden row. The barrier is a condition that is always true and that Spark takes to be another one each
time. Its optimizer neither moves a condition past it nor joins one to it.
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from catalog.errors import SluiceError, SqlState, unsupported
from planner.spark.builders import Expression, boolean, call, case, integer
from planner.spark.relation_output import derived, select
from planner.translate import query
from planner.translate.correlation.domain import INDEPENDENT
from planner.translate.expressions import Translator
from planner.translate.scope import RTE_RELATION, Scope
from planner.tree.nodes import Node, malformed, remembered, text, walk

# WCOKind of nodes/parsenodes.h.
_INSERT_CHECK: Final = 1
_UPDATE_CHECK: Final = 2
# The column in which `violated` stands beside the rows of a change.
VIOLATED: Final = "violated"


def visible_rows(scope: Scope, index: int, entry: Node) -> Expression:
    """Return the rows of a table that its policies let through, as a relation under its scan's alias."""
    alone = scope.query.replaced(
        commandType=query.CMD_SELECT,
        resultRelation=0,
        rtable=tuple(
            entry.replaced(securityQuals=None) if number == index else each
            for number, each in enumerate(scope.query.rtable, 1)
        ),
        jointree=Node(
            "FROMEXPR",
            {
                "fromlist": (Node("RANGETBLREF", {"rtindex": index}),),
                "quals": Node("BOOLEXPR", {"boolop": "and", "args": tuple(entry.securityQuals)}),
            },
        ),
        cteList=None,
        rowMarks=None,
    )
    level = Scope(scope.statement, alone, None)
    query.read_rows(level, INDEPENDENT)
    scan = level.scan_ranges[index]
    every = exp.Column(this=exp.Star(), table=exp.to_identifier(scan.alias))
    # Another column: a scan of which no column is used has none.
    rows = query.computed(level, [every, exp.alias_(boolean(True), "seen")])
    scan.restricted = True
    scope.scan_ranges[index] = scope.row_scans[index] = scan
    scan.alias = scope.statement.fresh("r")
    return behind_barrier(scope, rows, scan.alias)


def behind_barrier(scope: Scope, rows: Expression, alias: str) -> exp.Subquery:
    """Return the query's rows as a relation with a barrier, below which only the query itself is computed."""
    within = derived(rows, scope.statement.fresh("r"))
    always = exp.GTE(this=call("spark_partition_id"), expression=integer(0))
    return derived(select([exp.Star()], within, always), alias)


def violations(change: Node) -> tuple[SluiceError, ...]:
    """Return the errors for policies that new rows may violate, in PostgreSQL's order."""
    return tuple(_violation(option) for option in change.withCheckOptions or ())


def violated(scope: Scope) -> list[Expression]:
    """Return a column with the number, from 1, of the first of `violations` that a new row has, or 0; no column if
    there are none.

    A condition that is NULL is violated, too. The level's ranges give the new row.
    """
    options = scope.query.withCheckOptions or ()
    if not options:
        return []
    translator = Translator(scope)
    broken = [
        (exp.Not(this=call("coalesce", translator.value(option.qual).sql, boolean(False))), integer(number))
        for number, option in enumerate(options, 1)
    ]
    return [exp.alias_(case(*broken, default=integer(0)), VIOLATED, copy=False)]


@remembered
def restricted_tables(tree: Node) -> frozenset[int]:
    """Return the OIDs of tables whose rows policies hide, anywhere in the tree."""
    return frozenset(
        int(node.relid)
        for node in walk(tree)
        if node.type == "RANGETBLENTRY" and node.fields.get("securityQuals") and node.rtekind == RTE_RELATION
    )


def conditions(change: Node) -> tuple[object, ...]:
    """Return all conditions of policies on the rows that a change reads of its target, and on those that it writes."""
    return change.withCheckOptions, _target(change).fields.get("securityQuals")


def with_conditions_of(change: Node, other: Node) -> Node:
    """Return the change over those rows of its target that the other one sees. Behind a view, targets may be at
    different places; conditions there name their own place, and raise 0A000.
    """
    own, given = _target(change), _target(other)
    if own.relid != given.relid:
        raise malformed("another target")
    conditions_given = given.fields.get("securityQuals")
    if change.resultRelation != other.resultRelation and (conditions_given or own.fields.get("securityQuals")):
        raise unsupported("a condition of a policy on the table of this view")
    return _over(change, conditions_given)


def without_conditions(change: Node) -> Node:
    """Return the change over all rows, without the target's policies: as when PostgreSQL rewrites a table."""
    return _over(change, None).replaced(withCheckOptions=None)


def past_policies(tree: Any) -> Any:
    """Return the tree over all rows of its tables: as PostgreSQL reads them to check a constraint."""
    if isinstance(tree, tuple):
        return tuple(past_policies(each) for each in tree)
    if not isinstance(tree, Node) or tree.type == "CONST":
        return tree
    fields = {name: past_policies(value) for name, value in tree.fields.items() if isinstance(value, Node | tuple)}
    if tree.type == "RANGETBLENTRY":
        fields["securityQuals"] = None
    return tree.replaced(**fields)


def _over(change: Node, conditions: object) -> Node:
    target = _target(change).replaced(securityQuals=conditions)
    return change.replaced(
        rtable=tuple(
            target if number == change.resultRelation else each for number, each in enumerate(change.rtable, 1)
        )
    )


def _target(change: Node) -> Node:
    target: Node = change.rtable[change.resultRelation - 1]
    return target


def _violation(option: Node) -> SluiceError:
    if option.kind not in (_INSERT_CHECK, _UPDATE_CHECK):
        raise unsupported("a change through a view WITH CHECK OPTION")
    policy = text(option.polname)
    named = "" if policy is None else f' "{policy}"'
    return SluiceError(
        SqlState.INSUFFICIENT_PRIVILEGE,
        f'new row violates row-level security policy{named} for table "{text(option.relname)}"',
    )
