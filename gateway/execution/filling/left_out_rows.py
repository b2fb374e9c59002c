"""What a statement over filled shadows did without, and whether that may have changed its course."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog.model import TableVersion
    from gateway.execution.filling.shadow_touches import Use
    from gateway.execution.filling.sought_keys import SoughtKeys
    from planner.plans.row_filter import WantedKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Of the filled tables (`versions`), those that were `lacking` rows, and those that were `searched`
    `by_keys`. `unchecked`: foreign keys were not checked. `use` is what the statement has done, `fresh` how many rows
    it made, and `catches` whether its texts catch errors.
    """

    versions: Mapping[int, TableVersion]
    use: Use
    lacking: frozenset[int]
    by_keys: Mapping[int, WantedKeys]
    searched: frozenset[int]
    unchecked: bool
    fresh: Mapping[int, int]
    sought: SoughtKeys
    catches: bool

    def __bool__(self) -> bool:
        """Whether it may forbid the changes: keys of other rows, referenced rows."""
        return self.unchecked or not self.lacking.isdisjoint(self.use.now)

    @property
    def acted(self) -> dict[int, frozenset[str]]:
        """The files whose rows are all in shadows, by path, for tables by OID. Over these PostgreSQL has carried out
        the actions of foreign keys.
        """
        lacking, versions = self.lacking, self.versions.items()
        return {oid: frozenset(file.path for file in each.files) for oid, each in versions if oid not in lacking}

    def _may_forbid(self, oid: int) -> bool:
        """Whether new rows of the table are checked only when all is taken, for some constraint."""
        if oid not in self.versions:
            return False
        table = self.versions[oid].table
        return bool((oid in self.lacking and table.is_keyed) or (self.unchecked and table.foreign_keys))

    @property
    def hides_errors(self) -> bool:
        """The statement has failed: whether another error could have come first."""
        return any(self._may_forbid(oid) and self.use.changes(oid) for oid in self.use.now)

    @property
    def is_doubtful(self) -> bool:
        """All is taken: whether it may have forbidden, at its time, what nothing forbids in the end."""
        return any(self._may_forbid(oid) and self._is_doubtful(oid) for oid in self.use.now)

    def _is_doubtful(self, oid: int) -> bool:
        """`is_doubtful` for one table: rows that were undone since, or are referenced only by now."""
        fresh = self.fresh.get(oid, 0)
        if self.use.now[oid].truncated:
            return fresh > 0
        added, replaced = self.use.rows(oid)
        parents = {key.parent for key in self.versions[oid].table.foreign_keys if self.unchecked}
        if (added or replaced) and any(map(self._changes_keys, parents & self.use.now.keys())):
            return True
        if oid in self.searched and oid in self.sought.tables:
            return bool(added or replaced) and self.sought.is_doubtful(oid, self.by_keys[oid], added)
        if not replaced:
            return fresh != added
        if oid in self.searched and fresh:
            return added > 0 or fresh != replaced
        return self.catches  # a caught error may have been another one

    def _changes_keys(self, oid: int) -> bool:
        """Whether rows that others reference may have come, gone, or changed."""
        return self.use.rows(oid) != (0, 0) and not (oid in self.sought.tables and self.sought.same_keys(oid))
