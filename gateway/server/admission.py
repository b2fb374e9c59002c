"""Limits the number of connections, before login and after it, each counted separately.

Sessions are limited as PostgreSQL limits them: `max_connections` in all, the last `reserved_connections` of them for
roles with the privileges of `pg_use_reserved_connections`. No places are reserved for superusers, who use the catalog
directly. The catalog applies the limits of roles and databases: it refuses the session's backend.

Connections before login take no session's place. They have as many places as sessions. When all are taken, a new
connection replaces the oldest one of the address with the most connections. So silent connections do not block others,
and those of one address replace each other first.
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
    """The limits of `sluice serve`; `authentication_timeout` is in seconds, from the first packet to the last proof."""

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
    """Counts connections. `entering` surrounds the work before login, `session` the work after it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sessions = 0
        self._entering: dict[asyncio.Task[Any], str] = {}  # oldest first
        self._sent_away: set[asyncio.Task[Any]] = set()

    @contextmanager
    def entering(self, address: str) -> Iterator[None]:
        """Surrounds the current task's work before login; it may end with 53300."""
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
        """Raise 53300 if no session can be admitted, whatever its role."""
        if self._sessions >= self._limits.max_connections:
            raise too_many()

    @contextmanager
    def session(self, *, may_use_reserved: bool) -> Iterator[None]:
        """Surrounds a session. Raises 53300 if there is no place."""
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
    """The error if all places are taken."""
    return SluiceError(SqlState.TOO_MANY_CONNECTIONS, "sorry, too many clients already", severity="FATAL")
