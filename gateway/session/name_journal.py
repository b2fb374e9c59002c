"""What a session knows by name, while messages are under way that may turn out to have been skipped.

PostgreSQL skips what comes behind an error until Sync. The gateway looks at messages before it has heard of the error,
so each change of what it knows is written down, and undone from the message on that failed.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Journal:
    """The changes since the last message that is known to be good, in their order. Marks are lengths."""

    def __init__(self) -> None:
        self._changes: deque[tuple[dict[str, Any], str, Any]] = deque()
        self._kept = 0  # how many there were before these

    def __len__(self) -> int:
        """How many changes there have been, those included that stay."""
        return self._kept + len(self._changes)

    def note(self, known: dict[str, Any], name: str) -> None:
        """What is known by that name is about to change."""
        self._changes.append((known, name, known.get(name)))

    def undo(self, mark: int) -> None:
        """Go back to what was known when the journal had that length."""
        while len(self) > mark:
            known, name, before = self._changes.pop()
            if before is None:
                dict.pop(known, name, None)
            else:
                dict.__setitem__(known, name, before)

    def keep(self, mark: int) -> None:
        """What is older than that is not undone any more."""
        while self._kept < mark:
            self._changes.popleft()
            self._kept += 1


class ByName(dict[str, V], Generic[V]):
    """Things by name, none of them None. Changes are made one at a time, and journalled."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def __setitem__(self, name: str, value: V) -> None:
        self._journal.note(self, name)
        super().__setitem__(name, value)

    def forget(self, name: str) -> None:
        """Nothing has that name any more."""
        if name in self:
            self._journal.note(self, name)
            super().__delitem__(name)
