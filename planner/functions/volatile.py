"""Functions whose value changes with each call: random(), gen_random_uuid().

They may not be arguments: a Spark form may name its arguments more than once, and each would be another value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from catalog.errors import unsupported
from planner.functions.call import Call, Row, row
from planner.spark.builders import call
from planner.spark.values import Value
from planner.tree.builtins import Builtins
from planner.tree.nodes import Const, Constants, Node, walk


def _random(given: Call) -> Value:
    return given.result(call("rand"))


def _uuid(given: Call) -> Value:
    return given.result(call("uuid"))


ROWS: Final[tuple[Row, ...]] = (
    row(
        "random()",
        _random,
        "SELECT count(*) FROM (SELECT random() AS r FROM integers) s WHERE r >= 0 AND r < 1",
        "SELECT count(DISTINCT r) > 1 FROM (SELECT random() AS r FROM integers) s",
    ),
    row("gen_random_uuid()", _uuid, "SELECT count(DISTINCT u) FROM (SELECT gen_random_uuid() AS u FROM integers) s"),
    row("uuidv4()", _uuid, "SELECT count(DISTINCT u) FROM (SELECT uuidv4() AS u FROM integers) s"),
)
SIGNATURES: Final = frozenset(each.signature for each in ROWS)


def calls(nodes: object, builtins: Builtins) -> bool:
    """Whether the trees call such a function."""
    return any(node.type == "FUNCEXPR" and builtins.signature(int(node.funcid)) in SIGNATURES for node in walk(nodes))


class StableArguments:
    """Checks arguments of functions, the outer ones before those within: each node is looked at once."""

    def __init__(self, builtins: Builtins) -> None:
        self._builtins = builtins
        # By identity, with the node, so that no other one gets the same.
        self._calls: dict[int, tuple[Node, bool]] = {}

    def check(self, signature: str, arguments: Sequence[Node]) -> None:
        """Refuse arguments of `signature` whose value changes each time that they are evaluated."""
        for argument in arguments:
            if id(argument) not in self._calls:
                self._look(argument)
            if self._calls[id(argument)][1]:
                raise unsupported(f"the function {signature} of a volatile one")

    def _look(self, top: Node) -> None:
        """Note of a node and of all below it whether they call such a function."""
        nodes: list[Node] = []
        around: list[int] = []
        pending: list[tuple[Any, int]] = [(top, -1)]
        while pending:
            item, outer = pending.pop()
            if isinstance(item, Node):
                nodes.append(item)
                around.append(outer)
                if type(item) is not Const:
                    pending += [(value, len(nodes) - 1) for value in item.fields.values()]
            elif isinstance(item, tuple) and type(item) is not Constants:
                pending += [(value, outer) for value in item]
        found = [node.type == "FUNCEXPR" and self._builtins.signature(int(node.funcid)) in SIGNATURES for node in nodes]
        for place in reversed(range(1, len(nodes))):
            found[around[place]] |= found[place]
        self._calls.update((id(node), (node, calls)) for node, calls in zip(nodes, found, strict=True))
