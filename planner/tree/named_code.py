"""`named_code`: what may run code of users in a query, as far as its tree names it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from catalog.datatypes import FIRST_USER_OID
from planner.tree.builtins import Builtins
from planner.tree.nodes import Node, walk
from planner.tree.references import RUNS_SQL, changed, functions

# PostgreSQL's own functions that run what the tree does not name, or that change settings.
_ACTING: Final = RUNS_SQL | {"set_config"}


class NamedCode(NamedTuple):
    """The OIDs of a query's functions and types of users, whose domains have checks, and of the relations that it
    changes."""

    functions: frozenset[int]
    types: frozenset[int]
    changed: frozenset[int]


def named_code(query: Node | None, builtins: Builtins) -> NamedCode | None:
    """Return the code of a SELECT or a change; None for another statement, and if it may run what the tree does not
    name, or change settings."""
    if query is None or query.type != "QUERY" or query.fields.get("utilityStmt") is not None:
        return None
    called = functions(query)
    known = (builtins.functions.get(oid) for oid in called if oid < FIRST_USER_OID)
    if any(each is None or each.name in _ACTING for each in known):
        return None
    return NamedCode(
        frozenset(oid for oid in called if oid >= FIRST_USER_OID),
        frozenset(oid for oid in _types(query) if oid >= FIRST_USER_OID),
        changed(query),
    )


def _types(query: Node) -> Iterator[int]:
    """Yield the numbers of all fields that may name types."""
    for node in walk(query):
        if node.type == "CONST":  # whose other fields are many bytes to read
            yield int(node.consttype)
            continue
        for name, value in node.fields.items():
            if "typ" in name:
                yield from _numbers(value)


def _numbers(value: Any) -> Iterator[int]:
    if type(value) is tuple:
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, int):
        yield value
