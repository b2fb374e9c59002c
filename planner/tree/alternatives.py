"""A long OR of comparisons of one column with constants, as one comparison with any of them; a long AND with all.

Programs write such conditions, thousands of parts long. As a list of constants they cost a hundredth, and indexes and
statistics can serve them. NULL counts in both as it does in OR and AND.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from planner.tree.nodes import Const, Constants, Node

# Fewer comparisons stay as they are.
_ALIKE_MIN: Final = 8
_OPERANDS: Final = 2


def alternatives(node: Node) -> Sequence[Node]:
    """Return the parts of an AND or OR; similar parts are combined if they are many."""
    parts: Sequence[Node] = node.args
    if len(parts) < _ALIKE_MIN:
        return parts
    keys = [_key(part) for part in parts]
    groups: dict[Any, list[Const]] = {}
    for key, part in zip(keys, parts, strict=True):
        if key is not None:
            groups.setdefault(key, []).append(part.args[1])
    together = {key: constants for key, constants in groups.items() if len(constants) >= _ALIKE_MIN}
    found: list[Node] = []
    for key, part in zip(keys, parts, strict=True):
        if key not in groups or (key not in together and len(groups[key]) < _ALIKE_MIN):
            found.append(part)
        elif key in together:
            found.append(_with_each(part, together.pop(key), in_or=node.boolop == "or"))
    return found


def _key(part: Node) -> tuple[Any, ...] | None:
    """Return the common part of comparisons that can be combined; None for anything but a column with a constant."""
    if part.type != "OPEXPR" or part.opretset or len(part.args) != _OPERANDS:
        return None
    left, right = part.args
    if type(right) is not Const or right.constisnull:
        return None
    types = []
    while left.type == "RELABELTYPE":
        types.append((left.resulttype, left.resulttypmod))
        left = left.arg
    if left.type != "VAR":
        return None
    column = (left.varno, left.varattno, left.varlevelsup, left.varreturningtype)
    return part.opfuncid, part.inputcollid, right.consttype, column, tuple(types)


def _with_each(part: Node, constants: list[Const], *, in_or: bool) -> Node:
    array = Node("ARRAYEXPR", {"elements": Constants(constants), "multidims": False})
    return Node(
        "SCALARARRAYOPEXPR",
        {
            "opno": part.opno,
            "opfuncid": part.opfuncid,
            "useOr": in_or,
            "inputcollid": part.inputcollid,
            "args": (part.args[0], array),
        },
    )
