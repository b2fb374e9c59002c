"""`planned_statement`: which rows of lake tables a plan of PostgreSQL's can need, where it finds them by keys.

A plan is the node tree that `debug_print_plan` prints (PostgreSQL 18, nodes/plannodes.h). Statements within functions
are planned with the values of their variables as constants (plan_cache_mode = force_custom_plan), so their conditions
name keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from catalog.errors import SluiceError
from catalog.model import Table
from planner.plans.row_filter import WantedKeys, wanted_keys
from planner.spark.plan import Context, SessionValues
from planner.spark.values import MISSING
from planner.translate.scan_predicates import as_kept, constant_of
from planner.translate.scope import Scope, Statement
from planner.tree.builtins import Builtins
from planner.tree.nodes import Node, walk

# The conditions of each kind of scan, besides those that filter what it has found.
_CONDITIONS: Final[Mapping[str, str | None]] = {
    "SEQSCAN": None,
    "SAMPLESCAN": None,
    "TIDSCAN": None,
    "TIDRANGESCAN": None,
    "INDEXSCAN": "indexqualorig",
    "INDEXONLYSCAN": "recheckqual",
    "BITMAPHEAPSCAN": "bitmapqualorig",
}
# They depend on where rows are.
_OF_PLACES: Final = frozenset({"SAMPLESCAN", "TIDSCAN", "TIDRANGESCAN"})
_BITMAP: Final = "BITMAPHEAPSCAN"
_OF_BITMAP: Final = "BITMAPINDEXSCAN"
# A column of the index, in place of the table's (primnodes.h, INDEX_VAR).
_INDEX_VAR: Final = -3
_MAIN: Final = 1
# Column 0 in sets of columns (sysattr.h, FirstLowInvalidHeapAttributeNumber).
_FIRST_ATTNUM: Final = -7
# Commands (nodes.h, CmdType).
_INSERT: Final = 3
_MERGE: Final = 5
# What is known only when the plan runs, or belongs to other rows.
_UNKNOWN: Final = frozenset({"PARAM", "SUBPLAN", "ALTERNATIVESUBPLAN", "CURRENTOFEXPR"})


class PlannedScan(NamedTuple):
    """A scan of a lake table: the keys of its rows, None where it may need any; and how often PostgreSQL counts it in
    its statistics, at most, when it runs once."""

    table_oid: int
    wanted: WantedKeys | None
    counted: int


class PlannedStatement(NamedTuple):
    """What a statement does with lake tables, by their OIDs: its scans, the columns that it sets in existing rows, and
    the keys of the rows that it adds, None where they are not known."""

    scans: list[PlannedScan]
    updated: dict[int, frozenset[int]]
    added: list[tuple[int, WantedKeys | None]]


def planned_statement(plan: Node, tables: Mapping[int, Table], builtins: Builtins) -> PlannedStatement:
    """Return what a PLANNEDSTMT does with these tables, by OID."""
    updated = {
        int(each.relid): frozenset(column + _FIRST_ATTNUM for column in each.updatedCols)
        for each in plan.permInfos or ()
        if each.relid in tables and each.updatedCols
    }
    scans = _scans(plan, tables, builtins)
    added: list[tuple[int, WantedKeys | None]] = []
    for change in walk(plan):
        table = _target(plan, change, tables)
        if table is None or change.operation not in (_INSERT, _MERGE):
            continue
        keys = _added(change, table, builtins)
        added.append((table.oid, keys))
        if change.operation == _INSERT and change.onConflictAction:  # it looks for rows with these keys
            scans.append(PlannedScan(table.oid, keys, max(1, len(change.arbiterIndexes or ()))))
    return PlannedStatement(scans, updated, added)


def _target(plan: Node, change: Node, tables: Mapping[int, Table]) -> Table | None:
    if change.type != "MODIFYTABLE":
        return None
    [place, *_] = change.resultRelations
    return tables.get(int(plan.rtable[place - 1].relid))


def _added(change: Node, table: Table, builtins: Builtins) -> WantedKeys | None:
    """The values that the row of an INSERT of constants has in the only key in which it has no NULL."""
    source = change.lefttree
    if change.operation != _INSERT or source.type != "RESULT" or source.lefttree is not None:
        return None
    if table.triggered or table.computed_keys or table.exclusions or not table.keys:
        return None
    row: dict[int, Node] = {target.resno: target.expr for target in source.targetlist if not target.resjunk}
    scope = Scope(Statement(_context(table, builtins)), Node("QUERY", {"rtable": None}), None)
    found: WantedKeys | None = None
    for key in table.keys:
        if not row.keys() >= set(key.attnums):
            return None
        given = [row[attnum] for attnum in key.attnums]
        if key.nulls_distinct and any(each.type == "CONST" and each.constisnull for each in given):
            continue
        columns = [table.column(attnum) for attnum in key.attnums]
        values = [constant_of(scope, each) for each in given]
        if found is not None or any(value is MISSING for value in values):
            return None
        kept = (as_kept(column, (value,))[0] for column, value in zip(columns, values, strict=True))
        found = WantedKeys(key.attnums, [tuple(kept)])
    return found or WantedKeys(table.keys[0].attnums, [])


def _scans(plan: Node, tables: Mapping[int, Table], builtins: Builtins) -> list[PlannedScan]:
    found = []
    for scan in walk(plan):
        if scan.type not in _CONDITIONS:
            continue
        entry = plan.rtable[scan.scanrelid - 1]
        table = tables.get(int(entry.relid))
        if table is None:
            continue
        wanted = _wanted(scan, entry, table, builtins)
        of_bitmap = [each for each in walk(scan.lefttree) if each.type == _OF_BITMAP] if scan.type == _BITMAP else ()
        listed = 1 if wanted is None else max(1, len(wanted.values))
        found.append(PlannedScan(table.oid, wanted, listed * max(1, len(of_bitmap))))
    return found


def _context(table: Table, builtins: Builtins) -> Context:
    return Context(builtins, {table.oid: table}, SessionValues(now=0, statement_now=0))


def _wanted(scan: Node, entry: Node, table: Table, builtins: Builtins) -> WantedKeys | None:
    """The keys by the conditions, asked as of a query of the table alone."""
    if not table.keys or scan.type in _OF_PLACES:
        return None
    quals = tuple(_conditions(scan))
    if not quals:
        return None
    place = Node("RANGETBLREF", {"rtindex": _MAIN})
    condition = quals[0] if len(quals) == 1 else Node("BOOLEXPR", {"boolop": "and", "args": quals, "location": -1})
    tree = Node("FROMEXPR", {"fromlist": (place,), "quals": condition})
    fields = {"rtable": (entry,), "jointree": tree, "resultRelation": 0, "rowMarks": None, "cteList": None}
    try:
        return wanted_keys(Node("QUERY", fields), table.oid, _context(table, builtins))
    except SluiceError:
        return None


def _conditions(scan: Node) -> Iterator[Node]:
    """Yield the conditions that every row of the scan meets and that name nothing but it and constants."""
    targets = {target.resno: target.expr for target in scan.fields.get("indextlist") or ()}
    named = _CONDITIONS[scan.type]
    for condition in (*(scan.qual or ()), *((scan.fields[named] or ()) if named is not None else ())):
        inside = list(walk(condition))
        if any(each.type in _UNKNOWN for each in inside):
            continue
        if all(each.varno in (scan.scanrelid, _INDEX_VAR) for each in inside if each.type == "VAR"):
            yield _of_table(condition, targets)


def _of_table(value: Any, targets: Mapping[int, Node]) -> Any:
    """The same with the table's columns, as of the only entry of a range table."""
    if type(value) is tuple:
        return tuple(_of_table(each, targets) for each in value)
    if type(value) is not Node:
        return value
    if value.type == "VAR" and value.varno == _INDEX_VAR:
        return _of_table(targets[value.varattno], targets)
    fields = {name: _of_table(each, targets) for name, each in value.fields.items()}
    if value.type == "VAR":
        fields["varno"] = _MAIN
    return Node(value.type, fields)
