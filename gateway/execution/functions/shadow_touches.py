"""What a transaction has done to shadows: `pg_sluice.shadow_touches` as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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


def touches(result: Result) -> dict[int, Touch]:
    """The answer to `TOUCHES`, by the table's OID."""
    return {
        int(relid or 0): Touch(int(scans or 0), int(added or 0), int(replaced or 0), made == b"t", truncated == b"t")
        for relid, scans, added, replaced, made, truncated in result.rows
    }


def check_copied(before: Mapping[int, Touch], now: Mapping[int, Touch], copied: Collection[int]) -> None:
    """Raise 0A000 if code of a table's owner has changed other rows than those that were `copied` to these tables,
    with triggers bypassed.
    """
    for oid, each in now.items():
        was = before.get(oid, Touch())
        if each.replaced != was.replaced or (oid not in copied and each.added != was.added):
            raise unsupported("a function that changes a lake table while rows are copied")
