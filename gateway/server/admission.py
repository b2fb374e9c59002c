"""How many may be connected, and who: before login and after it, each counted apart.

Sessions are limited as PostgreSQL limits them: `max_connections` in all, the last `reserved_connections` of them for
roles with the privileges of `pg_use_reserved_connections`. None are kept for superusers, who go to the catalog itself.
Limits of roles and databases are the catalog's own: it refuses the session's backend.

Whoever has not proved yet who he is takes no session's place. There are places for as many of these as for sessions;
when all are taken, one who comes takes the place of the one that has waited longest, of the address that most of them
come from. So connections that say nothing keep nobody out, and those of one address send each other away first.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from catalog.errors import SluiceError, SqlState

RESERVING_ROLE: Final = "pg_use_reserved_connections"


@dataclass(frozen=True, slots=True)
class Limits:
    """What `sluice serve` allows; `authentication_timeout` is in seconds, from the first packet to the last proof."""

    max_connections: int = 100
    reserved_connections: int = 3
    authentication_timeout: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.reserved_connections < self.max_connections:
            raise SluiceError(
                SqlState.INVALID_PARAMETER_VALUE,
                f"reserved_connections ({self.reserved_connections}) must be 0 or more, and less than "
                f"max_connections ({self.max_connections})",
            )


class Admission:
    """Counts who is there. `entering` is around what comes before login, `session` around what comes after."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sessions = 0
        self._entering: dict[asyncio.Task[Any], str] = {}  # the oldest first
        self._sent_away: set[asyncio.Task[Any]] = set()

    @contextmanager
    def entering(self, address: str) -> Iterator[None]:
        """Around the current task's work for one who has not logged in yet: it may end with 53300."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._entering) >= self._limits.max_connections:
            self._send_one_away()
        self._entering[task] = address
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._sent_away:
                raise
            task.uncancel()
            raise too_many() from None
        finally:
            self._entering.pop(task, None)
            self._sent_away.discard(task)

    def _send_one_away(self) -> None:
        [(crowded, _)] = Counter(self._entering.values()).most_common(1)
        oldest = next(task for task, address in self._entering.items() if address == crowded)
        del self._entering[oldest]
        self._sent_away.add(oldest)
        oldest.cancel()

    def check(self) -> None:
        """53300 where there is no place for a session, whoever it is for."""
        if self._sessions >= self._limits.max_connections:
            raise too_many()

    @contextmanager
    def session(self, *, may_use_reserved: bool) -> Iterator[None]:
        """Around a session. 53300 where there is no place for it."""
        self.check()
        free = self._limits.max_connections - self._sessions
        if free <= self._limits.reserved_connections and not may_use_reserved:
            raise SluiceError(
                SqlState.TOO_MANY_CONNECTIONS,
                f'remaining connection slots are reserved for roles with privileges of the "{RESERVING_ROLE}" role',
                severity="FATAL",
            )
        self._sessions += 1
        try:
            yield
        finally:
            self._sessions -= 1


def too_many() -> SluiceError:
    """All places are taken."""
    return SluiceError(SqlState.TOO_MANY_CONNECTIONS, "sorry, too many clients already", severity="FATAL")
