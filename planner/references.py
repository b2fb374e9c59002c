"""Which relations and functions a statement's tree names anywhere: what routing asks first."""

from __future__ import annotations

from typing import Any, Final

from planner.nodes import walk

_RTE_RELATION: Final = 0
_RTE_SUBQUERY: Final = 1
# What RTEPermissionInfo adds to an attribute's number (FirstLowInvalidHeapAttributeNumber).
_ATTRIBUTE_OFFSET: Final = 7
_FUNCTION_FIELDS: Final = ("funcid", "opfuncid", "aggfnoid", "winfnoid")


def relations(tree: Any) -> frozenset[int]:
    """OIDs of all relations that the tree reads or changes: in sublinks, in CTEs, and below views too.

    A view that was expanded is not in it; what it reads is. A view that is the target of a change is.
    """
    found = set()
    for node in walk(tree):
        if node.type == "RANGETBLENTRY" and node.rtekind == _RTE_RELATION:
            found.add(int(node.relid))
    return frozenset(found)


def views(tree: Any) -> frozenset[int]:
    """OIDs of the views that were expanded into subqueries."""
    return frozenset(
        int(node.relid)
        for node in walk(tree)
        if node.type == "RANGETBLENTRY" and node.rtekind == _RTE_SUBQUERY and node.fields.get("relid")
    )


def functions(tree: Any) -> frozenset[int]:
    """OIDs of all functions that the tree calls: directly, through operators, as aggregates or over windows."""
    return frozenset(
        int(node.fields[name]) for node in walk(tree) for name in _FUNCTION_FIELDS if node.fields.get(name)
    )


def selected_columns(tree: Any) -> dict[int, frozenset[int]]:
    """The columns that the tree reads of each relation, by OID: attribute numbers, 0 for the row as a whole.

    They are those for which PostgreSQL demands the privilege to read; views below are in it with all that they read.
    """
    found: dict[int, frozenset[int]] = {}
    for node in walk(tree):
        if node.type == "RTEPERMISSIONINFO":
            numbers = frozenset(number - _ATTRIBUTE_OFFSET for number in node.selectedCols)
            found[int(node.relid)] = found.get(int(node.relid), frozenset()) | numbers
    return found
