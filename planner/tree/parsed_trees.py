"""A cache of parsed trees by their text: statements and rules that repeat are parsed once.

The text alone determines a tree, and trees are immutable, so an entry is never stale and serves all sessions. What
`planner.tree.nodes.remembered` has found out about a query is kept with it.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, Final, NamedTuple

from cachetools import LRUCache

from planner.tree.compact_tree import TreeText
from planner.tree.nodes import parse

# Characters of all cached texts together. A tree takes some ten times as many bytes of memory.
_CHARACTERS_MAX: Final = 1 << 20
# Longer texts are not cached: they are rare, and would evict many.
_LENGTH_MAX: Final = 1 << 15


class _Kept(NamedTuple):
    tree: Any
    length: int  # of its text


_kept: Final = LRUCache[str, _Kept](_CHARACTERS_MAX, getsizeof=lambda kept: kept.length)
_lock: Final = Lock()


def parsed(tree: str | TreeText) -> Any:
    """Return the tree that its text describes, as `parse`. Safe in threads."""
    text, kept = (tree.text, tree.kept) if isinstance(tree, TreeText) else (tree, ())
    if kept or len(text) > _LENGTH_MAX:
        return parse(tree)
    with _lock:
        found = _kept.get(text)
    if found is None:
        found = _Kept(parse(text), len(text))
        with _lock:
            _kept[text] = found
    return found.tree
