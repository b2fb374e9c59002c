"""Frees large trees piece by piece.

Python frees an object together with all that only this object has, at once, whichever thread drops it: for the
constants of a long list, all others wait for a tenth of a second. So a large tree's root has the tree's other nodes
in a list as well. When the root goes, a thread of its own drops these one after another, parents first, and gives way
in between.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

_left: Final[SimpleQueue[list[Any]]] = SimpleQueue()
_lock: Final = threading.Lock()
_threads: Final[list[threading.Thread]] = []


class Remains:
    """Kept by the root alone; `nodes` are the others, parents last."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: list[Any]) -> None:
        self.nodes = nodes
        with _lock:
            if not _threads:
                _threads.append(threading.Thread(target=_drop, name="large-trees", daemon=True))
                _threads[0].start()

    def __del__(self) -> None:
        # It may run at any place, within a lock of the queue's too, so it takes none: SimpleQueue.put is reentrant.
        put: Callable[[list[Any]], None] = _left.put
        put(self.nodes)


def _drop() -> None:
    while True:
        nodes = _left.get()
        while nodes:
            nodes.pop()
