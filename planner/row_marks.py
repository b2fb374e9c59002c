"""The locking clauses of one query level: where they may stand, and where the rows are that they lock.

A level is locked in one of two ways. The statement's own (`planner.locking`) gives out where its rows are. A subquery's
rows have been locked before the statement around it is planned (`Context.locked`): then it reads those rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlglot import exp

from catalog.datatypes import INT8, TEXT
from catalog.errors import unsupported
from planner.nodes import Node
from planner.scope import RTE_RELATION, Scope
from planner.selected import Output
from planner.spark import Expression, and_, boolean, column, integer, or_, string

# Fields that say how many levels up the thing is that a node means.
_LEVELS: Final = ("varlevelsup", "ctelevelsup", "agglevelsup")


def checked(scope: Scope) -> None:
    """Refuses a locking clause that is carried out in neither way, or that is not of a table of the lake."""
    if not scope.query.rowMarks:
        return
    if not gives_places(scope) and id(scope.query) not in scope.statement.context.locked:
        raise unsupported("FOR UPDATE or FOR SHARE in this place")
    for mark in scope.query.rowMarks:
        if mark.pushedDown or scope.entry(mark.rti).rtekind != RTE_RELATION:
            raise unsupported("FOR UPDATE or FOR SHARE of a subquery or view")


def gives_places(scope: Scope) -> bool:
    """Whether this level is the one that is being locked."""
    return bool(scope.query.rowMarks) and scope.statement.locking and scope.parent is None


def places(scope: Scope) -> tuple[list[Output], list[Expression]]:
    """Where each row is that is to be locked: two columns for each table."""
    outputs: list[Output] = []
    expressions: list[Expression] = []
    for mark in scope.query.rowMarks if gives_places(scope) else ():
        scan = scope.located[mark.rti]
        for source, type_oid in (("_file", TEXT), ("_position", INT8)):
            name = scope.statement.fresh("p")
            outputs.append(Output(name, type_oid, -1, None, False, None))
            expressions.append(exp.alias_(column(scan.alias, source), name, copy=False))
    return outputs, expressions


def among_locked(scope: Scope, where: Expression | None) -> Expression | None:
    """The condition, and that the row is one of those that this level has locked."""
    rows = scope.statement.context.locked.get(id(scope.query))
    if rows is None:
        return where
    [mark] = scope.query.rowMarks
    alias = scope.located[mark.rti].alias
    there = [
        and_(
            exp.EQ(this=column(alias, "_file"), expression=string(path)),
            exp.In(this=column(alias, "_position"), expressions=[integer(position) for position in positions]),
        )
        for path, positions in rows.items()
    ]
    condition = or_(*there) if there else boolean(False)
    return condition if where is None else and_(where, condition)


def can_go_before(query: Node) -> bool:
    """Whether a subquery means the same outside of its statement, and its rows are those of one table alone."""
    source: Sequence[Node] = query.jointree.fromlist or ()
    alone = len(source) == 1 and source[0].type == "RANGETBLREF" and len(query.rowMarks) == 1
    return alone and all(level <= depth for level, depth in _levels(query, 0))


def _levels(value: Any, depth: int) -> Iterator[tuple[int, int]]:
    """(levels up, depth below the query) of whatever a query means by level."""
    if isinstance(value, tuple):
        for item in value:
            yield from _levels(item, depth)
    elif isinstance(value, Node):
        for name in _LEVELS:
            if value.fields.get(name):
                yield int(value.fields[name]), depth
        for item in value.fields.values():
            yield from _levels(item, depth + (isinstance(item, Node) and item.type == "QUERY"))
