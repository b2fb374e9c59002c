"""Which relations and functions a statement's tree names anywhere: what routing asks first."""

from __future__ import annotations

from typing import Any, Final

from planner.nodes import walk

_RTE_RELATION: Final = 0
_RTE_SUBQUERY: Final = 1
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


def views(tree: Any) -> dict[int, str]:
    """The views that were expanded into subqueries: OID → the name that each goes by in the statement."""
    return {
        int(node.relid): str(node.eref.aliasname)
        for node in walk(tree)
        if node.type == "RANGETBLENTRY" and node.rtekind == _RTE_SUBQUERY and node.fields.get("relid")
    }


def functions(tree: Any) -> frozenset[int]:
    """OIDs of all functions that the tree calls: directly, through operators, as aggregates or over windows."""
    return frozenset(
        int(node.fields[name]) for node in walk(tree) for name in _FUNCTION_FIELDS if node.fields.get(name)
    )
