"""The client's own settings that a statement reads (`current_setting('app.tenant')`), as policies often do. Pure.

PostgreSQL's own settings are not among them: the gateway may have changed these for its own work. Source of the
functions' numbers: pg_proc.dat.
"""

from __future__ import annotations

import re
from typing import Any, Final

from catalog.datatypes import TEXT
from planner.tree import datum
from planner.tree.compact_tree import TreeText
from planner.tree.long_text import search
from planner.tree.nodes import walk

_FUNCTIONS: Final = frozenset({2077, 3294})
# PostgreSQL breaks lines at spaces.
_CALLED: Final = re.compile(r":funcid\s(?:2077|3294)\b")
_CALLED_LENGTH: Final = len(":funcid 2077")
# Two names with a dot between them, by which PostgreSQL recognises a setting that is not its own.
_OF_CLIENTS: Final = re.compile(r"\w+\.\w+")
_SLUICE: Final = "sluice."


def asked_settings(written: TreeText, tree: Any) -> frozenset[str]:
    """Return their names, in lower case, from an analysed tree; `written` is its text."""
    if search(_CALLED, _CALLED_LENGTH, written.text, 0) is None:
        return frozenset()
    found = set()
    for node in walk(tree):
        if node.type != "FUNCEXPR" or node.funcid not in _FUNCTIONS:
            continue
        name = node.args[0]
        if name.type == "CONST" and name.consttype == TEXT and not name.constisnull:
            found.add(str(datum.read(TEXT, name.constvalue)).lower())
    return frozenset(name for name in found if _OF_CLIENTS.fullmatch(name) and not name.startswith(_SLUICE))
