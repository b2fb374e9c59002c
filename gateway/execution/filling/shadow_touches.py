"""What a transaction has done to shadows: `pg_sluice.shadow_touches` as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from catalog.errors import unsupported

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gateway.backend.connection import Result

TOUCHES: Final = "SELECT relid, scans, added, replaced, made, truncated FROM pg_sluice.shadow_touches($1::bigint)"


@dataclass(frozen=True, slots=True)
class Touch:
    """How often a transaction has scanned a shadow, how many rows it has added, and how many it has changed or
    deleted. `made`: the statement's own table, without rows in the lake. `truncated`: functions have truncated it, and
    the numbers are those until then.
    """

    scans: int = 0
    added: int = 0
    replaced: int = 0
    made: bool = False
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """What a statement has done to shadows: the numbers `before` it, and `now` those of the shadows that it touched."""

    before: Mapping[int, Touch]
    now: Mapping[int, Touch]

    @classmethod
    def between(cls, before: Mapping[int, Touch], now: Mapping[int, Touch]) -> Self:
        """What was done meanwhile."""
        return cls(before, {oid: each for oid, each in now.items() if each != before.get(oid)})

    def scans(self, oid: int) -> int:
        """How often it has scanned a shadow."""
        return self.now[oid].scans - self.before.get(oid, Touch()).scans

    def rows(self, oid: int) -> tuple[int, int]:
        """How many rows it has added to a shadow, and how many it has changed or deleted."""
        before, now = self.before.get(oid, Touch()), self.now[oid]
        return now.added - before.added, now.replaced - before.replaced

    def changes(self, oid: int) -> bool:
        """Whether it has changed rows of a shadow."""
        return self.now[oid].truncated or self.rows(oid) != (0, 0)

    def reads(self, oid: int) -> bool:
        """Whether it has done more to a shadow than add rows."""
        before, now = self.before.get(oid, Touch()), self.now[oid]
        if now.truncated and now.added > before.added:  # these rows are gone, and so is what forbade them
            return True
        return now.scans > before.scans or now.replaced > before.replaced


def touches(result: Result) -> dict[int, Touch]:
    """The answer to `TOUCHES`, by the table's OID."""
    return {
        int(relid or 0): Touch(int(scans or 0), int(added or 0), int(replaced or 0), made == b"t", truncated == b"t")
        for relid, scans, added, replaced, made, truncated in result.rows
    }


def used_since(before: Mapping[int, Touch], answer: Result) -> dict[int, Touch]:
    """The shadows that were touched since, but for tables that the statement itself has made."""
    return {oid: each for oid, each in touches(answer).items() if each != before.get(oid) and not each.made}


def check_copied(before: Mapping[int, Touch], now: Mapping[int, Touch], copied: Collection[int]) -> None:
    """Raise 0A000 if code of a table's owner has changed other rows than those that were `copied` to these tables,
    with triggers bypassed.
    """
    for oid, each in now.items():
        was = before.get(oid, Touch())
        if each.replaced != was.replaced or (oid not in copied and each.added != was.added):
            raise unsupported("a function that changes a lake table while rows are copied")
