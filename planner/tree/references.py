"""The relations and functions that a statement's tree names anywhere; routing reads them first."""

from __future__ import annotations

from typing import Any, Final

from catalog.datatypes import FIRST_USER_OID
from planner.tree.builtins import Builtins
from planner.tree.nodes import Node, remembered, text, walk

_RTE_RELATION: Final = 0
_RTE_SUBQUERY: Final = 1
_RTE_CTE: Final = 6
# The offset of RTEPermissionInfo's attribute numbers (FirstLowInvalidHeapAttributeNumber).
_ATTRIBUTE_OFFSET: Final = 7
# PostgreSQL's own functions that run SQL which is not in the tree: given as text, that of a cursor, or of a domain's
# CHECK.
RUNS_SQL: Final = frozenset(
    {
        "ts_stat", "ts_rewrite", "query_to_xml", "query_to_xmlschema", "query_to_xml_and_xmlschema", "cursor_to_xml",
        "cursor_to_xmlschema", "table_to_xml", "table_to_xmlschema", "table_to_xml_and_xmlschema", "schema_to_xml",
        "schema_to_xmlschema", "schema_to_xml_and_xmlschema", "database_to_xml", "database_to_xmlschema",
        "database_to_xml_and_xmlschema", "pg_input_is_valid", "pg_input_error_info",
    }
)  # fmt: skip
_FUNCTION_FIELDS: Final = ("funcid", "opfuncid", "aggfnoid", "winfnoid")


@remembered
def relations(tree: Any) -> frozenset[int]:
    """Return the OIDs of all relations that the tree reads or changes: in sublinks, in CTEs, and below views too.

    An expanded view is not in it, but the relations that it reads are. A view that is the target of a change is.
    """
    found = set()
    for node in walk(tree):
        if node.type == "RANGETBLENTRY" and node.rtekind == _RTE_RELATION:
            found.add(int(node.relid))
    return frozenset(found)


def tables_read(query: Node) -> frozenset[int]:
    """Return the OIDs of the relations that a change reads: its target only if it occurs once more."""
    found = []
    for node in walk(query):
        if node.type == "QUERY":
            found += [
                int(entry.relid)
                for index, entry in enumerate(node.rtable or (), 1)
                if entry.rtekind == _RTE_RELATION and not (node is query and index == int(query.resultRelation))
            ]
    return frozenset(found)


@remembered
def changed(tree: Any) -> frozenset[int]:
    """Return the OIDs of the relations that the tree's statements change, those in its WITH too."""
    return frozenset(
        int(node.rtable[int(node.resultRelation) - 1].relid)
        for node in walk(tree)
        if node.type == "QUERY" and node.resultRelation
    )


@remembered
def domains(tree: Any) -> frozenset[int]:
    """Return the OIDs of the domains to which the tree converts values."""
    return frozenset(int(node.resulttype) for node in walk(tree) if node.type == "COERCETODOMAIN")


def tables_of_subqueries(query: Node, parts: Any) -> frozenset[int]:
    """Return the OIDs of the relations that subqueries in parts of a statement read, directly or by its WITH."""
    if not any(node.type == "SUBLINK" for node in walk(parts)):
        return frozenset()
    return relations((parts, query.cteList if common_names(parts) else ()))


def common_names(tree: Any) -> frozenset[str]:
    """Return the names of WITH queries that the tree reads from, of any level."""
    return frozenset(
        str(text(node.ctename)) for node in walk(tree) if node.type == "RANGETBLENTRY" and node.rtekind == _RTE_CTE
    )


def views(tree: Any) -> dict[int, str]:
    """Return the views that were expanded into subqueries: OID → the view's name in the statement."""
    return {
        int(node.relid): str(node.eref.aliasname)
        for node in walk(tree)
        if node.type == "RANGETBLENTRY" and node.rtekind == _RTE_SUBQUERY and node.fields.get("relid")
    }


@remembered
def references(query: Any) -> tuple[int, ...]:
    """Return the OID of the relation that each entry of the tree's range tables is, or was before it was expanded."""
    return tuple(int(node.fields.get("relid") or 0) for node in walk(query) if node.type == "RANGETBLENTRY")


@remembered
def table_places(query: Any) -> tuple[tuple[Node, int, int], ...]:
    """Return the relations that the levels of a query read or change: the level, the place in its range table, and the
    OID."""
    return tuple(
        (node, index, int(entry.relid))
        for node in walk(query)
        if node.type == "QUERY"
        for index, entry in enumerate(node.rtable or (), 1)
        if entry.rtekind == _RTE_RELATION
    )


@remembered
def functions(tree: Any) -> frozenset[int]:
    """Return the OIDs of all functions that the tree calls: directly, through operators, as aggregates or over
    windows."""
    return frozenset(
        int(node.fields[name])
        for node in walk(tree)
        if node.type != "CONST"  # whose fields are many bytes to read
        for name in _FUNCTION_FIELDS
        if node.fields.get(name)
    )


def learn(query: Node) -> None:
    """Compute and cache what every statement is asked."""
    for ask in (relations, references, functions):
        ask(query)


def selected_columns(tree: Any) -> dict[int, frozenset[int]]:
    """Return the columns that the tree reads of each relation, by OID: attribute numbers, 0 for the whole row.

    They are those for which PostgreSQL demands the privilege to read; views below are included with all that they read.
    """
    found: dict[int, frozenset[int]] = {}
    for node in walk(tree):
        if node.type == "RTEPERMISSIONINFO":
            numbers = frozenset(number - _ATTRIBUTE_OFFSET for number in node.selectedCols)
            found[int(node.relid)] = found.get(int(node.relid), frozenset()) | numbers
    return found


def written_columns(change: Node) -> frozenset[int]:
    """Return the columns (attnums) of its target to which an analysed INSERT, UPDATE or MERGE gives values.

    PostgreSQL demands the privilege to write them.
    """
    target = change.rtable[int(change.resultRelation) - 1]
    demanded = change.rteperminfos[int(target.perminfoindex) - 1]
    return frozenset(number - _ATTRIBUTE_OFFSET for number in (*demanded.insertedCols, *demanded.updatedCols))


def calls_users(statement: Any, builtins: Builtins) -> bool:
    """Whether an unanalysed utility statement may call functions of users: it uses names that are not PostgreSQL's
    own."""
    known = {each.name for each in builtins.functions.values() if each.schema == "pg_catalog"}
    return any(node.type == "FUNCCALL" and text(node.funcname[-1]) not in known for node in walk(statement))


def runs_unseen(tree: Any, builtins: Builtins) -> bool:
    """Whether the tree calls a function that may read relations which are not in it."""
    for oid in functions(tree):
        known = builtins.functions.get(oid)
        if oid >= FIRST_USER_OID or (known is not None and known.name in RUNS_SQL):
            return True
    return False
