"""Whether a statement reads the client's encoding, which differs from the backend's while the gateway works."""

from __future__ import annotations

from typing import Final

from catalog.datatypes import TEXT
from planner.tree import datum
from planner.tree.builtins import Builtins
from planner.tree.nodes import Node, walk

SETTING: Final = "client_encoding"
_OF_ANY: Final = "current_setting"
_FUNCTIONS: Final = frozenset({"pg_client_encoding", "pg_show_all_settings"})


def reads_encoding(query: Node, builtins: Builtins) -> str | None:
    """Return the function by which the analysed statement may read it; None for others."""
    for node in walk(query):
        if node.type != "FUNCEXPR":
            continue
        known = builtins.functions.get(int(node.funcid))
        if known is None:
            continue
        if known.name in _FUNCTIONS or (known.name == _OF_ANY and _may_be(node.args[0])):
            return known.name
    return None


def _may_be(name: Node) -> bool:
    if name.type != "CONST" or name.constisnull:
        return name.type != "CONST"
    return str(datum.read(TEXT, name.constvalue)).lower() == SETTING
