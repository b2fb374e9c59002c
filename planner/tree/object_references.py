"""The names in an unanalysed utility statement: its own object, types, functions, relations."""

from __future__ import annotations

from typing import Final

from planner.tree.builtins import Builtins
from planner.tree.nodes import Node, name_of, walk

_OWN_SCHEMA: Final = "pg_catalog"


def mentioned(utility: Node, builtins: Builtins) -> frozenset[str]:
    """Return the names, without schemas, except those of PostgreSQL's own objects; new objects may have any name.

    Names in the text of a function are not among them.
    """
    made = {name_of(value[-1]) for value in utility.fields.values() if _is_name(value)}
    found: set[str] = set()
    for node in walk(utility):
        if node.type == "RANGEVAR":
            found.add(name_of(node.relname))
        elif node is not utility and not (node.type == "DEFELEM" and node.defname == "as"):
            found |= {name_of(value[-1]) for value in node.fields.values() if _is_name(value)}
    own = {each.name for each in builtins.functions.values() if each.schema == _OWN_SCHEMA}
    own |= {each.name for each in builtins.types.values() if each.schema == _OWN_SCHEMA}
    operators = {name for name in found if not any(character.isalnum() for character in name)}
    return frozenset(made | (found - own - operators))


def _is_name(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(part, str) for part in value)
