"""Functions whose value changes with each call: random(), gen_random_uuid().

They may not be arguments: a Spark form may name its arguments more than once, and each would be another value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from catalog.errors import unsupported
from planner.functions.call import Call, Row, row
from planner.spark.builders import call
from planner.spark.values import Value
from planner.tree.builtins import Builtins
from planner.tree.nodes import Node, walk


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


def check_stable(signature: str, arguments: Sequence[Node], builtins: Builtins) -> None:
    """Refuse arguments of `signature` whose value changes each time that they are evaluated."""
    if calls(tuple(arguments), builtins):
        raise unsupported(f"the function {signature} of a volatile one")
