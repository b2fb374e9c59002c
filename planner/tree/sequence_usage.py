"""Whether a statement may take numbers from sequences, by its tree."""

from __future__ import annotations

from typing import Final

from planner.tree.builtins import Builtins
from planner.tree.nodes import Node, walk
from planner.tree.references import functions

_FUNCTIONS: Final = frozenset({"nextval", "setval"})


def takes_numbers(query: Node, builtins: Builtins) -> bool:
    """Whether the analysed statement takes numbers or sets the next one, directly or for a column's default."""
    if any(node.type == "NEXTVALUEEXPR" for node in walk(query)):
        return True
    known = (builtins.functions.get(oid) for oid in functions(query))
    return any(each is not None and each.name in _FUNCTIONS for each in known)
