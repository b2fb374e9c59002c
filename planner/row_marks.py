"""The locking clauses of one query level: where they may stand, and where the rows are that they lock."""

from __future__ import annotations

from sqlglot import exp

from catalog.datatypes import INT8, TEXT
from catalog.errors import unsupported
from planner.scope import RTE_RELATION, Scope
from planner.selected import Output
from planner.spark import Expression, column


def refuse_where_not_planned(scope: Scope) -> None:
    """Whatever is not `plan_locking`'s own level, or locks what is no table of the lake, is refused."""
    if not scope.statement.locking or scope.parent is not None:
        raise unsupported("FOR UPDATE or FOR SHARE in this place")
    for mark in scope.query.rowMarks:
        if scope.entry(mark.rti).rtekind != RTE_RELATION:
            raise unsupported("FOR UPDATE or FOR SHARE of a subquery or view")


def places(scope: Scope) -> tuple[list[Output], list[Expression]]:
    """Where each row is that is to be locked: two columns for each table."""
    outputs: list[Output] = []
    expressions: list[Expression] = []
    for mark in scope.query.rowMarks or ():
        scan = scope.located[mark.rti]
        for source, type_oid in (("_file", TEXT), ("_position", INT8)):
            name = scope.statement.fresh("p")
            outputs.append(Output(name, type_oid, -1, None, False, None))
            expressions.append(exp.alias_(column(scan.alias, source), name, copy=False))
    return outputs, expressions
