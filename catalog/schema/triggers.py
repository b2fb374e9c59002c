"""The triggers of users that a change of a lake table fires, as of a step of the schema log.

Every analysis of a statement returns the last step. While no schema changes, nothing is asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from cachetools import LRUCache

from catalog.model import Table
from catalog.postgres.pool import Pool

FIRED: Final = "SELECT step, fired FROM pg_sluice.fired_triggers()"
_USED_MAX: Final = 1000
_NEEDED_MAX: Final = 1024
# Nothing is kept in mind of longer statements.
TEXT_MAX: Final = 10_000


class Event(IntFlag):
    """The events that fire triggers, as in pg_trigger.tgtype."""

    INSERT = 4
    DELETE = 8
    UPDATE = 16
    TRUNCATE = 32


@dataclass(frozen=True, slots=True)
class AddingTriggers:
    """Triggers that an INSERT has fired, and that did nothing but add rows to tables of these OIDs, without looking at
    others. Once their functions have been read, `code` marks these, and `tables` are all that they may add rows to;
    `catches` says whether they may catch an error.
    """

    grown: frozenset[int]
    tables: tuple[Table, ...] = ()
    code: Sequence[bytes | None] | None = None
    catches: bool = True


# The columns of a key, and the numbers of the parameters that have their values.
KeyPattern = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class KeptText:
    """The words of a statement and of the functions that it names, for this mark of all functions; and words of texts
    that have no effects but on rows.
    """

    code: Sequence[bytes | None]
    words: frozenset[str]
    quiet: frozenset[str] = frozenset()


class FiredTriggers:
    """The fired events of all committed tables."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._step = -1
        self._fired: Mapping[int, Event] = {}
        # By the tables that a statement changes, the tables whose rows it needs.
        self.needed: LRUCache[tuple[str, frozenset[int]], set[int]] = LRUCache(_NEEDED_MAX)
        # By a role and the table of an INSERT; None if its triggers do more.
        self.adding: LRUCache[tuple[str, int], AddingTriggers | None] = LRUCache(_NEEDED_MAX)
        # By a role and its statement with functions.
        self.texts: LRUCache[tuple[str, str], KeptText] = LRUCache(_USED_MAX)
        # By a role and its statement with functions, the tables that it has used.
        self.used: LRUCache[tuple[str, str], frozenset[int]] = LRUCache(_USED_MAX)
        # By a role, its statement with functions, and a large table.
        self.patterns: LRUCache[tuple[str, str, int], KeyPattern] = LRUCache(_USED_MAX)
        # By a role and a large table: statements within functions look rows up by keys there.
        self.sought: LRUCache[tuple[str, int], bool] = LRUCache(_USED_MAX)

    async def at(self, step: int) -> Mapping[int, Event]:
        """Return the events by the OIDs of tables, as of that step of the log or a later one."""
        if self._step < step:
            row = await self._pool.fetchrow(FIRED)
            assert row is not None
            if self._step < row["step"]:
                self._step, self._fired = row["step"], fired_from_json(row["fired"])
                self.needed.clear()
                self.adding.clear()
                self.used.clear()
                self.sought.clear()
                self.patterns.clear()
        return self._fired


def fired_from_json(text: str | bytes) -> dict[int, Event]:
    """Read the result of `pg_sluice.fired_triggers`."""
    return {int(oid): Event(events) for oid, events in json.loads(text).items()}
