"""Undoes a session's changes of names, such as prepared statements, for messages that PostgreSQL turns out to have
skipped.

PostgreSQL skips messages after an error until Sync. The gateway handles messages before it learns of the error. So it
records each change of a name, and undoes all changes from the failed message on.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Journal:
    """The changes since the last message that is known to have succeeded, in order. A mark is a length of the
    journal.
    """

    def __init__(self) -> None:
        self._changes: deque[tuple[dict[str, Any], str, Any]] = deque()
        self._kept = 0  # earlier changes, which are final

    def __len__(self) -> int:
        """The number of all changes, final ones included."""
        return self._kept + len(self._changes)

    def note(self, known: dict[str, Any], name: str) -> None:
        """Record the present value of a name before it changes."""
        self._changes.append((known, name, known.get(name)))

    def undo(self, mark: int) -> None:
        """Undo the changes after that mark."""
        while len(self) > mark:
            known, name, before = self._changes.pop()
            if before is None:
                dict.pop(known, name, None)
            else:
                dict.__setitem__(known, name, before)

    def keep(self, mark: int) -> None:
        """Changes before that mark are final."""
        while self._kept < mark:
            self._changes.popleft()
            self._kept += 1


class ByName(dict[str, V], Generic[V]):
    """Values by name, never None; the journal records each change."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def __setitem__(self, name: str, value: V) -> None:
        self._journal.note(self, name)
        super().__setitem__(name, value)

    def forget(self, name: str) -> None:
        """Remove the name."""
        if name in self:
            self._journal.note(self, name)
            super().__delitem__(name)
