"""Trees of frozen dataclasses that print themselves as SQL, and every way to simplify one by a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Final


@dataclass(frozen=True)
class Node:
    """A part of a statement."""

    def sql(self) -> str:
        raise NotImplementedError

    def simpler(self) -> Iterator[Node]:
        """What may stand in this node's place, beside what its fields allow."""
        yield from ()


# Of a part that may be left out.
OPTIONAL: Final = {"optional": True}


def kept() -> Any:
    """Parts that are never left out by themselves: without them an answer would depend on luck."""
    return field(default=(), metadata={"kept": True})


def fixed() -> Any:
    """Parts of which the number is given; each may get simpler."""
    return field(metadata={"fixed": True})


def some() -> Any:
    """Parts of which one at least stays."""
    return field(metadata={"least": 1})


def switch() -> Any:
    """A word that may be left out."""
    return field(default=False, metadata={"switch": True})


def parts(node: Node) -> Iterator[Node]:
    """The nodes right below."""
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Node))


def walk(node: Node) -> Iterator[Node]:
    """The node and all below."""
    yield node
    for part in parts(node):
        yield from walk(part)


def size(node: Node) -> int:
    return sum(1 for _ in walk(node))


def reductions(node: Node) -> Iterator[Node]:
    """All trees that are one step simpler, great steps first."""
    yield from node.simpler()
    described = fields(node)
    for each in described:
        yield from _without(node, each)
    for each in described:
        yield from _below(node, each)


def _without(node: Any, described: Field[Any]) -> Iterator[Node]:
    value, name = getattr(node, described.name), described.name
    if described.metadata.get("optional") and value is not None:
        yield replace(node, **{name: None})
    if described.metadata.get("switch") and value:
        yield replace(node, **{name: False})
    if isinstance(value, tuple) and not (described.metadata.get("fixed") or described.metadata.get("kept")):
        yield from (replace(node, **{name: rest}) for rest in shorter(value, described.metadata.get("least", 0)))


def shorter(items: tuple[Any, ...], least: int = 0) -> Iterator[tuple[Any, ...]]:
    """The items without some of them: halves first, then single ones."""
    length = len(items) // 2
    while length:
        for start in range(0, len(items), length):
            rest = items[:start] + items[start + length :]
            if len(rest) >= least and len(rest) < len(items):
                yield rest
        length //= 2
    if len(items) == 1 and least == 0:
        yield ()


def _below(node: Any, described: Field[Any]) -> Iterator[Node]:
    value, name = getattr(node, described.name), described.name
    if isinstance(value, Node):
        yield from (replace(node, **{name: simpler}) for simpler in reductions(value))
    elif isinstance(value, tuple) and not described.metadata.get("kept"):
        for index, item in enumerate(value):
            if isinstance(item, Node):
                for simpler in reductions(item):
                    yield replace(node, **{name: (*value[:index], simpler, *value[index + 1 :])})


def rebuilt(node: Any, change: Any) -> Any:
    """The tree with `change` applied to every node, from the leaves up."""
    changed = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Node):
            changed[each.name] = rebuilt(value, change)
        elif isinstance(value, tuple):
            changed[each.name] = tuple(rebuilt(item, change) if isinstance(item, Node) else item for item in value)
    return change(replace(node, **changed) if changed else node)
