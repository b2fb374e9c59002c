"""The locking clauses of one query level: where they are allowed, and the places of the rows that they lock.

A level is locked in one of two ways. The statement's own clause (`planner.plans.locking_plan`) outputs the places of
its rows. A subquery's rows have been locked before the statement around it is planned (`Context.locked`): then it reads
those rows alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Final

from sqlglot import exp

from catalog.datatypes import INT8, TEXT
from catalog.errors import unsupported
from planner.spark.builders import Expression, and_, boolean, call, column, integer, is_null, or_, string
from planner.spark.plan import Place
from planner.spark.relation_output import Output
from planner.translate.scope import RTE_RELATION, ScanBuilder, Scope
from planner.tree.nodes import Node
from planner.tree.query_levels import leveled

_POSITION_BITS: Final = 32
_POSITION_MASK: Final = 2**_POSITION_BITS - 1


def checked(scope: Scope) -> None:
    """Refuse a locking clause that is executed in neither way, or that is not of a lake table."""
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


def is_updatable(scope: Scope) -> bool:
    """Whether this level outputs its rows' places without locking them."""
    return id(scope.query) in scope.statement.updatable


def locates(scope: Scope, index: int) -> bool:
    """Whether the places of a table's rows are needed, by its number in the range table."""
    marks = scope.query.rowMarks or ()
    if is_updatable(scope) or any(mark.rti == index for mark in marks):
        return True
    joined = scope.statement.locates_all if gives_places(scope) else id(scope.query) in scope.statement.context.locked
    return bool(marks) and joined


def located(query: Node) -> list[int]:
    """Return the tables of a level whose rows are locked as a subquery's: first those that it locks, then the
    others."""
    marked = [int(mark.rti) for mark in query.rowMarks]
    return marked + [index for index in _tables(query) if index not in marked]


def places(scope: Scope) -> tuple[list[Output], list[Expression]]:
    """Return the place of each row: two columns for each locked table, or one if none is locked (`packed_place`)."""
    outputs: list[Output] = []
    expressions: list[Expression] = []
    for source, type_oid in _places(scope):
        name = scope.statement.fresh("p")
        outputs.append(Output(name, type_oid, -1, None, False, None))
        expressions.append(exp.alias_(source, name, copy=False))
    return outputs, expressions


def _places(scope: Scope) -> list[tuple[Expression, int]]:
    if is_updatable(scope):
        assert scope.place is not None
        return [(scope.place, INT8)]
    if not gives_places(scope):
        return []
    marked = [int(mark.rti) for mark in scope.query.rowMarks]
    scans = [scope.located[index] for index in (located(scope.query) if scope.statement.locates_all else marked)]
    return [
        (column(scan.alias, source), type_oid)
        for scan in scans
        for source, type_oid in (("_file", TEXT), ("_position", INT8))
    ]


def packed_place(scan: ScanBuilder) -> Expression:
    """Return the place of a scan's row as one number, because a path would make rows much longer.

    32 bits distinguish the file from most others; the lower 32 bits are of the position.
    """
    file = call("shiftleft", call("crc32", column(scan.alias, "_file")), integer(_POSITION_BITS))
    return exp.BitwiseOr(this=file, expression=column(scan.alias, "_position"))


def unpacked_place(place: int, paths: Iterable[str]) -> Place:
    """Return the place that a number means, among these files; None if two of them cannot be told apart."""
    file = place >> _POSITION_BITS & _POSITION_MASK
    found = [path for path in paths if zlib.crc32(path.encode()) == file]
    return (found[0], place & _POSITION_MASK) if len(found) == 1 else None


def among_locked(scope: Scope) -> Expression | None:
    """Return the condition that the row is one of those that this level has locked; None if it locks none."""
    rows = scope.statement.context.locked.get(id(scope.query))
    if rows is None:
        return None
    aliases = [scope.located[index].alias for index in located(scope.query)]
    there = _in_files(aliases[0], rows) if len(aliases) == 1 else [_joined(aliases, row) for row in rows]
    return or_(*there) if there else boolean(False)


def _in_files(alias: str, rows: Sequence[Sequence[Place]]) -> list[Expression]:
    """Return the condition that the row is one of these, of one table."""
    positions: dict[str, list[int]] = {}
    for [place] in rows:
        if place is not None:
            positions.setdefault(place[0], []).append(place[1])
    return [
        and_(
            exp.EQ(this=column(alias, "_file"), expression=string(path)),
            exp.In(this=column(alias, "_position"), expressions=[integer(each) for each in found]),
        )
        for path, found in positions.items()
    ]


def _joined(aliases: Sequence[str], row: Sequence[Place]) -> Expression:
    """Return the condition that the joined row is this one; an outer join may have no row of a table."""
    conditions: list[Expression] = []
    for alias, place in zip(aliases, row, strict=True):
        if place is None:
            conditions.append(is_null(column(alias, "_file")))
        else:
            conditions.append(exp.EQ(this=column(alias, "_file"), expression=string(place[0])))
            conditions.append(exp.EQ(this=column(alias, "_position"), expression=integer(place[1])))
    return and_(*conditions)


def can_go_before(query: Node) -> bool:
    """Whether a subquery means the same outside of its statement, and its rows are those of tables, joined or not."""
    return len(_tables(query)) == len(_sources(query)) and all(up <= depth for _, up, depth in leveled(query))


def _tables(query: Node) -> list[int]:
    """Return the tables in FROM, by their numbers in the range table."""
    return [index for index in _sources(query) if query.rtable[index - 1].rtekind == RTE_RELATION]


def _sources(query: Node) -> list[int]:
    """Return the items of FROM, joined or not."""
    found: list[int] = []
    pending = list(query.jointree.fromlist or ())
    while pending:
        item = pending.pop(0)
        if item.type == "JOINEXPR":
            pending[:0] = [item.larg, item.rarg]
        elif item.type == "RANGETBLREF":
            found.append(int(item.rtindex))
    return found
