"""Query levels: the nodes of a tree that refer to a query around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from planner.tree.alternatives import alternatives
from planner.tree.nodes import Const, Constants, Node

# Fields with the number of levels up to which a node refers.
_LEVELS: Final = {
    "VAR": "varlevelsup",
    "AGGREF": "agglevelsup",
    "GROUPINGFUNC": "agglevelsup",
    "RANGETBLENTRY": "ctelevelsup",
}
_VALUES: Final = frozenset({"VAR", "AGGREF", "GROUPINGFUNC"})


def leveled(value: Any, depth: int = 0) -> Iterator[tuple[Node, int, int]]:
    """Yield (node, levels up, depth) of each node that names its level; depth counts the queries between it and
    `value`.

    The inside of an aggregate of an outer level is left out: the aggregate is one value.
    """
    pending: list[tuple[Any, int]] = [(value, depth)]
    while pending:
        item, below = pending.pop()
        if isinstance(item, Node):
            name = _LEVELS.get(item.type)
            levels = int(item.fields.get(name) or 0) if name is not None else 0
            if levels:
                yield item, levels, below
                if item.type == "AGGREF" and levels > below:
                    continue
        pending += _inside(item, below)


def _inside(value: Any, depth: int) -> list[tuple[Any, int]]:
    """Return the contents of a node or a list, with their depth: the last first."""
    if isinstance(value, Node):
        if type(value) is Const:
            return []
        return [
            (item, depth + (isinstance(item, Node) and item.type == "QUERY"))
            for item in reversed(value.fields.values())
            if isinstance(item, (Node, tuple))
        ]
    if not isinstance(value, tuple) or type(value) is Constants:
        return []
    return [(item, depth) for item in reversed(value) if isinstance(item, (Node, tuple))]


def outer_values(value: Any, depth: int = 0) -> Iterator[Node]:
    """Yield the variables and aggregates of outer queries, as a query `depth + 1` levels above their own writes them.

    `value` is an expression or a part of a query; with depth 0 it belongs to the level itself.
    """
    for node, levels, below in leveled(value, depth):
        if node.type in _VALUES and levels > below:
            yield shifted(node, -(below + 1))


def is_correlated(query: Node) -> bool:
    """Whether the query uses values of a query around it."""
    return next(outer_values(query), None) is not None


def is_outer(value: Any) -> bool:
    """Whether an expression of a level uses values of a query around that level."""
    return next(outer_values(value), None) is not None


def uses_level(value: Any) -> bool:
    """Whether an expression uses a variable of its own level."""
    return any(
        (node.type == "VAR" and node.varlevelsup == depth) or (node.type == "AGGREF" and node.agglevelsup == depth)
        for node, depth in _with_depth(value, 0)
    )


def _with_depth(value: Any, depth: int) -> Iterator[tuple[Node, int]]:
    pending: list[tuple[Any, int]] = [(value, depth)]
    while pending:
        item, below = pending.pop()
        if isinstance(item, Node):
            yield item, below
        pending += _inside(item, below)


def shifted(value: Any, levels: int, depth: int = 0) -> Any:
    """Return the query, or expression of a level, with its outer references moved so many levels farther up."""
    if isinstance(value, tuple):
        # Lists of numbers are tuples too; only those of nodes change.
        return tuple(shifted(item, levels, depth) for item in value) if type(value) is tuple else value
    if not isinstance(value, Node) or type(value) is Const:
        return value
    fields = {
        name: shifted(item, levels, depth + (isinstance(item, Node) and item.type == "QUERY"))
        for name, item in value.fields.items()
    }
    name = _LEVELS.get(value.type)
    if name is not None and int(fields.get(name) or 0) > depth:
        fields[name] = int(fields[name]) + levels
    return Node(value.type, fields)


def conjuncts(node: Node | None) -> list[Node]:
    """Return the parts that AND joins; none for no condition."""
    if node is None:
        return []
    if node.type == "BOOLEXPR" and node.boolop == "and":
        if not any(part.type == "BOOLEXPR" and part.boolop == "and" for part in node.args):
            return list(alternatives(node))
        return [part for argument in node.args for part in conjuncts(argument)]
    return [node]


def conjunction(parts: list[Node]) -> Node | None:
    """Return the parts joined by AND."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return Node("BOOLEXPR", {"boolop": "and", "args": tuple(parts)})


def has_sublink(value: Any) -> bool:
    """Whether a subquery stands in an expression."""
    return any(node.type == "SUBLINK" for node, _ in _with_depth(value, 0))
